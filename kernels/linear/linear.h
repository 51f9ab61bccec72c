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

   linear_silu() has the result of silu_mul() of linear(), without the tensor between them. Both
   are batch invariant: the bits of a row do not depend on the other rows or on their number,
   because the order of summation follows from the shape of the weight alone, see
   linear_split_k(). */

/* The CPU twin. The sum is in the order of kernels/op/dot.h, and the bias is added last. out:
   (row_count, output_count); in: (row_count, input_count); weight: (output_count, input_count);
   bias: (output_count) or NULL. Logits are always kept in float32 (ROUNDING_NONE). */
void linear_cpu(float *out, const float *in, struct matrix weight, const float *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, enum rounding rounding);

/* out: (row_count, intermediate); in: (row_count, input_count); weight: (2 * intermediate,
   input_count), first all gates, then all ups. */
void linear_silu_cpu(float *out, const float *in, struct matrix weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, enum rounding rounding);

/* A fused norm: one launch computes add_rms_norm() of `in` and the linear layer of the result,
   with the bits of two launches. `in` is added to the residual stream, and the GEMM reads the
   norm of the sum. */
struct linear_norm {
	const uint16_t *residual; /* (row_count, input_count) */
	uint16_t *sum; /* (row_count, input_count) residual + in; must not overlap an input */
	const uint16_t *weight; /* (input_count) */
	float epsilon;
};

/* The device buffers of a launch. The sizes are in its plan.

   out: (row_count, output_count) bf16, with is_logits float32; with has_silu (row_count,
   output_count / 2) bf16; with the path LINEAR_CUBLASLT_SPLIT_K (split_k, row_count, output_count)
   float32. It must not overlap an input. */
struct linear_operands {
	void *out;
	const uint16_t *in;	/* (row_count, input_count) */
	const uint16_t *weight; /* (output_count, input_count) */
	/* (output_count) or NULL; NULL with has_silu, is_logits or LINEAR_CUBLASLT_SPLIT_K */
	const uint16_t *bias;
	const struct linear_norm *norm; /* set exactly where the plan has fuses_norm, else NULL */
};

struct cublaslt;

/* Launches the plan. A silu_mul() or add_rms_norm() that the plan does not fuse is left to the
   caller. library: for the paths of cuBLASLt, else NULL. Returns 0, a cudaError_t or a code of
   cublaslt.h. */
int linear_run(const struct linear_plan *plan, const struct linear_operands *operands,
	struct cublaslt *library, struct CUstream_st *stream);

/* Our own kernels for decode steps, on the current device, in the split-K order of the weight:
   linear_plan_kernel() and linear_run() in one call. They start to read the weight before the
   kernel in front has ended (PDL).

   linear_fits(): whether they support the shape of a weight. For linear_silu() output_count is
   twice the intermediate size. */
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
