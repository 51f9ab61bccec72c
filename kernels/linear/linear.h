#ifndef KERNELS_LINEAR_LINEAR_H
#define KERNELS_LINEAR_LINEAR_H

#include "kernels/linear/linear_plan.h"
#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The linear layers of a model, one row a token:

       linear:       out[r][n] = round(bias[n] + sum over k of in[r][k] * weight[n][k])
       linear_silu:  out[r][i] = round(silu(round(gate)) * round(up))
		     gate, up = the outputs of in[r] for weight rows i and intermediate + i

   The second is silu_mul() of the first, without the tensor between them. A row's bits depend
   neither on the rows beside it nor on how many there are: the order of a sum follows from the
   weight's shape, see linear_split_k(). */

/* The sum is in the order of kernels/op/dot.h and the bias is added to it. Logits are kept in
   float32 (ROUNDING_NONE) in every mode. out: (row_count, output_count); in: (row_count,
   input_count); weight: (output_count, input_count); bias: (output_count) or NULL. */
void linear_cpu(float *out, const float *in, struct matrix weight, const float *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, enum rounding rounding);

/* out: (row_count, intermediate); in: (row_count, input_count); weight: (2 * intermediate,
   input_count), the gate first. */
void linear_silu_cpu(float *out, const float *in, struct matrix weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, enum rounding rounding);

/* A fused norm: the layer's input is add_rms_norm() of `in`, with the same bits in one launch
   instead of two. `in` is added to the residual stream, and the GEMM reads the norm of the sum. */
struct linear_norm {
	const uint16_t *residual; /* (row_count, input_count) */
	uint16_t *sum;		  /* the same with `in` added; may not overlap what is read */
	const uint16_t *weight;	  /* (input_count) */
	float epsilon;
};

/* What a launch on the GPU reads and writes. The sizes are those of its plan.

   out: (row_count, output_count) bf16, with silu half as many columns; with the path
   LINEAR_CUBLASLT_SPLIT_K (split_k, row_count, output_count) float32. It may not overlap what is
   read. */
struct linear_operands {
	void *out;
	const uint16_t *in;		/* (row_count, input_count) */
	const uint16_t *weight;		/* (output_count, input_count) */
	const uint16_t *bias;		/* (output_count) or NULL; NULL with silu or split sums */
	const struct linear_norm *norm; /* where the plan fuses it, else NULL */
};

struct cublaslt;

/* Carries out a plan of kernels/linear/linear_plan.h, without the silu_mul() or add_rms_norm() that
   it leaves to other launches. library: for a path of cuBLASLt, else NULL. */
int linear_run(const struct linear_plan *plan, const struct linear_operands *operands,
	struct cublaslt *library, struct CUstream_st *stream);

/* Our own kernels for the few rows of a decode step, on the current device, in the split-K order of
   the weight: linear_plan_kernel() and linear_run(). They are bound by reading the weight, which
   they start before the rows are there. linear_fits(): whether they have a weight's shape; with
   silu it has 2 * intermediate outputs. */
bool linear_fits(uint32_t input_count, uint32_t output_count);

int linear(uint16_t *out, const uint16_t *in, const uint16_t *weight, const uint16_t *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);
int linear_silu(uint16_t *out, const uint16_t *in, const uint16_t *weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
