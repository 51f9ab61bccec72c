#ifndef KERNELS_LINEAR_CUBLASLT_H
#define KERNELS_LINEAR_CUBLASLT_H

#include "kernels/op/launch.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Linear layers by cuBLASLt, for any number of rows: out = in * weight^T (+ bias), bf16 operands,
   float32 accumulation.

       out      (row_count, output_count) bf16
       in       (row_count, input_count) bf16
       weight   (output_count, input_count) bf16
       bias     (output_count) bf16, or NULL

   Unlike the other launchers these need a context. It owns the handle of the library and the
   algorithm chosen for each shape. Each shape must have been launched or prepared once before it is
   captured into a graph. input_count and output_count are multiples of 8. Operations are batch
   invariant: the bits of a row do not depend on the other rows or on their number.

   Functions return 0, a cudaError_t, or CUBLASLT_ERROR + a cublasStatus_t. */
struct cublaslt;

/* Codes from here on are CUBLASLT_ERROR + a cublasStatus_t; codes below are a cudaError_t. */
enum { CUBLASLT_ERROR = 100000 };
const char *cublaslt_error_text(int code);

int cublaslt_open(struct cublaslt **out);
void cublaslt_close(struct cublaslt *context); /* accepts NULL and a context that failed to open */

/* The plan (kernels/linear/linear_plan.h) prefers our own kernels where they are faster. */
int cublaslt_linear(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

/* The same with out in float32, for logits. */
int cublaslt_linear_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

/* Split-K: computes the partial sums of each slice of the inputs and leaves the addition to the
   caller. out: (split_k, row_count, output_count) float32. input_count / split_k is a multiple
   of 8. */
int cublaslt_linear_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	uint32_t split_k, struct CUstream_st *stream);

/* The same weight of several layers, at least one. Launches are timed with one after the other, so
   that each comes from memory, as in a step. */
struct cublaslt_weights {
	const uint16_t *const *layers; /* (count) */
	uint32_t count;
};

/* Chooses and loads the kernels for all numbers of rows up to row_limit. Without this the first
   launch with a new number of rows takes up to 5 ms longer, and kernels are the library's first
   choice. Of a weight of 16 MiB or more without split-K the fastest of six are chosen for up to
   2,048 rows, which takes 2 to 5 s for a model of 4 to 14 billion weights. Overwrites up to
   row_limit rows of out, on the stream. */
int cublaslt_prepare(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const struct cublaslt_weights *weights, const uint16_t *bias, uint32_t row_limit,
	uint32_t input_count, uint32_t output_count, struct CUstream_st *stream);
int cublaslt_prepare_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const struct cublaslt_weights *weights, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, uint32_t split_k, struct CUstream_st *stream);
int cublaslt_prepare_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const struct cublaslt_weights *weights, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
