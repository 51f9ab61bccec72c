#ifndef KERNELS_ROWS_ADD_RMS_NORM_H
#define KERNELS_ROWS_ADD_RMS_NORM_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a layer's output to the residual stream and normalises the sum:

       residual[r][i] = round(residual[r][i] + in[r][i])
       out[r]         = rms_norm(residual[r])

   The norm reads the rounded sum, so that fusing the two changes nothing. */

/* out, residual, in: (row_count, width), out and in may be the same; weight: (width). */
void add_rms_norm_cpu(float *out, float *residual, const float *in, const float *weight,
	uint32_t row_count, uint32_t width, float epsilon, enum rounding rounding);

/* On the GPU, in kernels/rows/rms_norm.cu; width as of rms_norm(). index: NULL, or (row_count) rows
   to pick, as those that are sampled:

       out[i] = rms_norm(round(residual[index[i]] + in[index[i]]))

   with the bits that all rows would get; residual stays as it is, and out is apart from in. */
int add_rms_norm(uint16_t *out, uint16_t *residual, const uint16_t *in, const uint16_t *weight,
	const uint32_t *index, uint32_t row_count, uint32_t width, float epsilon,
	struct CUstream_st *stream);

/* The same where `in` is left in parts by cublaslt_linear_split_k(), (parts, in_rows, width)
   float32 with 4 parts: what is added is their sum in ascending order, rounded,
   ((p0 + p1) + p2) + p3. */
int add_rms_norm_parts(uint16_t *out, uint16_t *residual, const float *in, const uint16_t *weight,
	const uint32_t *index, uint32_t parts, uint32_t in_rows, uint32_t row_count, uint32_t width,
	float epsilon, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
