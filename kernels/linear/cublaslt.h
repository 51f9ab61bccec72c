#ifndef KERNELS_LINEAR_CUBLASLT_H
#define KERNELS_LINEAR_CUBLASLT_H

#include "kernels/op/launch.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Linear layers through cuBLASLt: bf16 in and out, sums in float32. Unlike other launchers these
   need a context, which holds the library's handle and the algorithm of each shape. A shape must
   have been multiplied once, or prepared, before it is captured into a graph. A row's bits depend
   neither on the rows beside it nor on how many there are (batch invariance). */
struct cublaslt;

/* Codes from here on are a cublasStatus_t + CUBLASLT_ERROR, below it a cudaError_t. */
enum { CUBLASLT_ERROR = 100000 };
const char *cublaslt_error_text(int code);

int cublaslt_open(struct cublaslt **out);
void cublaslt_close(struct cublaslt *context); /* accepts NULL and what failed to open */

/* bias: (output_count) or NULL. Our own kernels may be faster (kernels/linear/linear_plan.h). */
int cublaslt_linear(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

/* The same with float32 out, for logits. */
int cublaslt_linear_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

/* Split-K: the sums over each slice of the inputs, for the caller to add. out: (split_k, row_count,
   output_count). A slice is a multiple of 8 inputs. */
int cublaslt_linear_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	uint32_t split_k, struct CUstream_st *stream);

/* Chooses and loads the kernels for up to row_limit rows. Otherwise the first launch of a number of
   rows waits for that, up to 5 ms. Writes up to row_limit rows of out, on the stream. */
int cublaslt_prepare(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);
int cublaslt_prepare_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_limit, uint32_t input_count, uint32_t output_count,
	uint32_t split_k, struct CUstream_st *stream);
int cublaslt_prepare_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_limit, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
