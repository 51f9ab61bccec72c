#ifndef KERNELS_ROWS_RMS_NORM_H
#define KERNELS_ROWS_RMS_NORM_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Root mean square normalisation of each row:

       out[r][i] = round(in[r][i] * scale(in[r]) * weight[i])
       scale(x)  = 1 / sqrt(mean of x[i]^2 + epsilon)

   The mean is a dot_f32() in the order of kernels/op/dot.h, divided by width. */

/* out, in: (row_count, width), may be the same; weight: (width). */
void rms_norm_cpu(float *out, const float *in, const float *weight, uint32_t row_count,
	uint32_t width, float epsilon, enum rounding rounding);

/* scale(x) above; x: (width). */
float rms_norm_scale(const float *x, uint32_t width, float epsilon);

/* On the GPU, in bf16; width a multiple of 8, at most 16,384. The order of the sum depends on width
   only. */
int rms_norm(uint16_t *out, const uint16_t *in, const uint16_t *weight, uint32_t row_count,
	uint32_t width, float epsilon, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
