#ifndef KERNELS_ROWS_ADD_RMS_NORM_H
#define KERNELS_ROWS_ADD_RMS_NORM_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the output of attention or of the MLP to the residual stream and normalises the sum:

       residual[r][i] = round(residual[r][i] + in[r][i])
       out[r]         = rms_norm(residual[r])

   The norm reads the rounded sum, so that the fusion has the bits of two separate operations. */

/* out, residual, in: (row_count, width), out and in may be the same; weight: (width). */
void add_rms_norm_cpu(float *out, float *residual, const float *in, const float *weight,
	uint32_t row_count, uint32_t width, float epsilon, enum rounding rounding);

/* On the GPU, in kernels/rows/rms_norm.cu; width as for rms_norm(). index: NULL, or (row_count)
   rows to gather, for instance the sampled ones:

       out[i] = rms_norm(round(residual[index[i]] + in[index[i]]))

   A row has the same bits with index and without. With index the residual is not written, and
   out must not overlap in. */
int add_rms_norm(uint16_t *out, uint16_t *residual, const uint16_t *in, const uint16_t *weight,
	const uint32_t *index, uint32_t row_count, uint32_t width, float epsilon,
	struct CUstream_st *stream);

/* The same for an input that is still split into split-K slices, as cublaslt_linear_split_k()
   writes them: (SPLIT_K, slice_rows, width) float32. Their sum in ascending order, ((s0 + s1) +
   s2) + s3, is rounded to bf16 and used as `in`. */
int add_rms_norm_split_k(uint16_t *out, uint16_t *residual, const float *slices,
	const uint16_t *weight, const uint32_t *index, uint32_t slice_rows, uint32_t row_count,
	uint32_t width, float epsilon, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
