#ifndef KERNELS_LINEAR_MATMUL_H
#define KERNELS_LINEAR_MATMUL_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Matrix product with the weights of a linear layer, one row a token:

       out[r][n] = round(bias[n] + sum over k of in[r][k] * weight[n][k])

   The sum is in the order of kernels/op/dot.h and the bias is added to it, so a row's result does
   not depend on the rows beside it. Logits are kept in float32 (ROUNDING_NONE) in every mode. */

/* out: (row_count, output_count); in: (row_count, input_count);
   weight: (output_count, input_count); bias: (output_count) or NULL. */
void matmul_cpu(float *out, const float *in, struct matrix weight, const float *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, enum rounding rounding);

/* On the GPU, through cuBLASLt: bf16 in and out, sums in float32. Unlike the other launchers a
   context is opened, for the library's handle and what it remembers of each shape. A shape must
   have been multiplied once, or prepared, before it is captured into a graph. A row's bits do not
   depend on the rows beside it, nor on how many there are. */
struct matmul_context;

/* Codes from here on are a cublasStatus_t + MATMUL_CUBLAS_ERROR, below it a cudaError_t. */
enum { MATMUL_CUBLAS_ERROR = 100000 };
const char *matmul_error_text(int code);

int matmul_open(struct matmul_context **out);
void matmul_close(struct matmul_context *context); /* accepts NULL and what failed to open */

/* bias: (output_count) or NULL. For a decode step's rows kernels/linear/decode_matmul.h may be
   faster. */
int matmul(struct matmul_context *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

/* The product with float32 out, for logits; always through cuBLASLt. */
int matmul_logits(struct matmul_context *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

/* The sums over each of some equal parts of the inputs by themselves, for others to add: out is
   (parts, row_count, output_count). A part is a multiple of 8 inputs. */
int matmul_parts(struct matmul_context *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	uint32_t parts, struct CUstream_st *stream);

/* Chooses and loads the kernels for up to row_limit rows, which the first product of a number of
   rows waits for otherwise, up to 5 ms. Writes and reads up to row_limit rows of out and in, on the
   stream. */
int matmul_prepare(struct matmul_context *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);
int matmul_parts_prepare(struct matmul_context *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_limit, uint32_t input_count, uint32_t output_count,
	uint32_t parts, struct CUstream_st *stream);
int matmul_logits_prepare(struct matmul_context *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_limit, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
