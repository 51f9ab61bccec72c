#ifndef KERNELS_LINEAR_LINEAR_WIDE_H
#define KERNELS_LINEAR_LINEAR_WIDE_H

#include "kernels/op/launch.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Behind kernels/linear/linear.h, of which this is the half for many rows: linear()
   and linear_silu() call it where it is the faster one. Any number of rows from 1 on has the
   same bits there and here. */
struct linear_operands {
	uint16_t *out;		/* (row_count, output_count), of a silu half as many columns */
	const uint16_t *in;	/* (row_count, input_count) */
	const uint16_t *weight; /* (output_count, input_count), of a silu the gates first */
	const uint16_t *bias;	/* (output_count) or NULL; of a silu NULL */
	uint32_t row_count, input_count, output_count;
	bool is_silu;
	const struct linear_norm *norm; /* NULL: in is multiplied as it is */
};

/* Whether the current device has it for a weight (of a silu both halves) and so many rows, and it
   is faster, from 65 on, than what else has the same bits: cublaslt_linear() and silu_mul() without
   split-K, cublaslt_linear_split_k() and the addition of its sums with it. */
bool linear_wide_pays(uint32_t row_count, uint32_t input_count, uint32_t output_count);

/* For what linear_wide_pays(), without a norm, and no silu of a weight with parts; else
   cudaErrorInvalidValue. */
int linear_wide(const struct linear_operands *product, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
