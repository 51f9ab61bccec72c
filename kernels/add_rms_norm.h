#ifndef KERNELS_ADD_RMS_NORM_H
#define KERNELS_ADD_RMS_NORM_H

#include "kernels/number.h"

#include <stdint.h>

/* Adds a layer's output to the residual stream and normalises the sum:

       residual[r][i] = round(residual[r][i] + in[r][i])
       out[r]         = rms_norm(residual[r])

   The norm reads the rounded sum, so that fusing the two changes nothing. */

/* out, residual, in: (row_count, width), out and in may be the same; weight: (width). */
void add_rms_norm_cpu(float *out, float *residual, const float *in, const float *weight,
	uint32_t row_count, uint32_t width, float epsilon, enum rounding rounding);

/* Here stands the launcher of the GPU: add_rms_norm(). */

#endif
