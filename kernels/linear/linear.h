#ifndef KERNELS_LINEAR_LINEAR_H
#define KERNELS_LINEAR_LINEAR_H

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

/* On the GPU there are two ways with the same bits: cuBLASLt (kernels/linear/cublaslt.h), and the
   kernels behind this header for the few rows of a decode step. What limits those is how fast the
   weight is read, and they start to read it before the rows are there. */

/* Split-K: into how many equal slices the inputs of a weight are cut, whatever the number of rows.
   4 where there are many inputs and so few outputs that one chain for each takes longer than
   reading the weight, else 1. Each slice is one chain of matrix instructions over 16 inputs after
   16, from zero, in float32; the sums of the slices are then added in ascending order,
   ((s0 + s1) + s2) + s3, and the bias to that. A slice is a multiple of 128 inputs. With 1 the
   order is that of cublaslt_linear(). */
uint32_t linear_split_k(uint32_t input_count, uint32_t output_count);

/* Whether the current device has these kernels for a weight of this shape (of linear_silu() the
   outputs are 2 * intermediate), for any number of rows; and whether they are faster with so many
   rows than what else has the same bits: cublaslt_linear() without split-K,
   cublaslt_linear_split_k() and the addition of its sums with it. */
bool linear_fits(uint32_t input_count, uint32_t output_count);
bool linear_pays(uint32_t row_count, uint32_t input_count, uint32_t output_count);

/* bias: (output_count) or NULL. out may not overlap what is read. */
int linear(uint16_t *out, const uint16_t *in, const uint16_t *weight, const uint16_t *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

int linear_silu(uint16_t *out, const uint16_t *in, const uint16_t *weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, struct CUstream_st *stream);

/* The same of what add_rms_norm() makes of in, with its bits: the residual stream grows by in, and
   the product is that of the norm of its rows. One launch instead of two. */
struct linear_norm {
	const uint16_t *residual; /* (row_count, input_count) */
	uint16_t *sum;		  /* the same with in added; may not overlap what is read */
	const uint16_t *weight;	  /* (input_count) */
	float epsilon;
};

/* Whether that is there for this shape and number of rows. */
bool linear_fuses_norm(uint32_t row_count, uint32_t input_count, uint32_t output_count);

int add_rms_norm_linear(uint16_t *out, const uint16_t *in, const struct linear_norm *norm,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

int add_rms_norm_linear_silu(uint16_t *out, const uint16_t *in, const struct linear_norm *norm,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t intermediate,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
