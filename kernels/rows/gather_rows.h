#ifndef KERNELS_ROWS_GATHER_ROWS_H
#define KERNELS_ROWS_GATHER_ROWS_H

#include "kernels/op/launch.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gathers the sampled rows, so that the last layer and lm_head compute no others:

       out[i] = in[indices[i]] */

/* out: (row_count, width); in: (any, width), not overlapping out; indices: (row_count). */
void gather_rows_cpu(
	float *out, const float *in, const uint32_t *indices, uint32_t row_count, uint32_t width);

/* On the GPU, in bf16. */
int gather_rows(uint16_t *out, const uint16_t *in, const uint32_t *indices, uint32_t row_count,
	uint32_t width, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
