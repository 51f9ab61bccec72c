#ifndef KERNELS_LINEAR_CUBLASLT_H
#define KERNELS_LINEAR_CUBLASLT_H

#include "kernels/op/launch.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On the GPU, through cuBLASLt: bf16 in and out, sums in float32. Unlike the other launchers a
   context is opened, for the library's handle and what it remembers of each shape. A shape must
   have been multiplied once, or prepared, before it is captured into a graph. A row's bits do not
   depend on the rows beside it, nor on how many there are. */
struct cublaslt;

/* Codes from here on are a cublasStatus_t + CUBLASLT_ERROR, below it a cudaError_t. */
enum { CUBLASLT_ERROR = 100000 };
const char *cublaslt_error_text(int code);

int cublaslt_open(struct cublaslt **out);
void cublaslt_close(struct cublaslt *context); /* accepts NULL and what failed to open */

/* bias: (output_count) or NULL. For a decode step's rows kernels/linear/linear.h may be
   faster. */
int cublaslt_linear(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

/* The product with float32 out, for logits; always through cuBLASLt. */
int cublaslt_linear_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

/* The sums over each of some equal parts of the inputs by themselves, for others to add: out is
   (parts, row_count, output_count). A part is a multiple of 8 inputs. */
int cublaslt_linear_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	uint32_t parts, struct CUstream_st *stream);

/* Chooses and loads the kernels for up to row_limit rows, which the first product of a number of
   rows waits for otherwise, up to 5 ms. Writes and reads up to row_limit rows of out and in, on the
   stream. */
int cublaslt_prepare(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);
int cublaslt_prepare_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_limit, uint32_t input_count, uint32_t output_count,
	uint32_t parts, struct CUstream_st *stream);
int cublaslt_prepare_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_limit, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
