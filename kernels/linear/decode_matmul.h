#ifndef KERNELS_LINEAR_DECODE_MATMUL_H
#define KERNELS_LINEAR_DECODE_MATMUL_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Matrix products of the rows of a decode step with the weights of a layer. What counts is how fast
   the weight is read, and that reading starts before the rows are there:

       decode_matmul:       out[r][n] = round(bias[n] + sum over k of in[r][k] * weight[n][k])
       decode_matmul_silu:  out[r][i] = round(silu(round(gate)) * round(up))
			    gate, up = the products of in[r] with weight rows i and intermediate + i

   The second is silu_mul() of the first, without the tensor between them. A row's bits depend
   neither on the rows beside it nor on how many there are: the order of a sum is a matter of the
   weight alone, see decode_matmul_parts(). */

/* decode_matmul on a CPU is matmul_cpu(). out: (row_count, intermediate); in: (row_count,
   input_count); weight: (2 * intermediate, input_count), the gate first. */
void decode_matmul_silu_cpu(float *out, const float *in, struct matrix weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, enum rounding rounding);

/* In how many equal parts the inputs of a weight are cut, whatever the number of rows: 4 where
   there are many inputs and so few outputs that one chain for each takes longer than the weight's
   bytes, else 1. Each part is one chain of matrix instructions over 16 inputs after 16, from zero,
   in float32; the parts' sums are then added in ascending order, ((s0 + s1) + s2) + s3, and the
   bias to that. A part is a multiple of 128 inputs. With 1 the order is that of matmul(). */
uint32_t decode_matmul_parts(uint32_t input_count, uint32_t output_count);

/* Whether the current device has these products for a weight of this shape (of decode_matmul_silu
   the outputs are 2 * intermediate), for any number of rows; and whether they are faster with so
   many than what else has the same bits: matmul() where there are no parts, matmul_parts() and the
   addition of its sums where there are. */
bool decode_matmul_fits(uint32_t input_count, uint32_t output_count);
bool decode_matmul_pays(uint32_t row_count, uint32_t input_count, uint32_t output_count);

/* bias: (output_count) or NULL. out may not overlap what is read. */
int decode_matmul(uint16_t *out, const uint16_t *in, const uint16_t *weight, const uint16_t *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream);

int decode_matmul_silu(uint16_t *out, const uint16_t *in, const uint16_t *weight,
	uint32_t row_count, uint32_t input_count, uint32_t intermediate,
	struct CUstream_st *stream);

/* The same of what add_rms_norm() makes of in, with its bits: the residual stream grows by in, and
   the product is that of the norm of its rows. One launch instead of two. */
struct decode_norm {
	const uint16_t *residual; /* (row_count, input_count) */
	uint16_t *sum;		  /* the same with in added; may not overlap what is read */
	const uint16_t *weight;	  /* (input_count) */
	float epsilon;
};

/* Whether that is there for this shape and number of rows. */
bool decode_matmul_norms(uint32_t row_count, uint32_t input_count, uint32_t output_count);

int decode_matmul_of_sum(uint16_t *out, const uint16_t *in, const struct decode_norm *norm,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream);

int decode_matmul_silu_of_sum(uint16_t *out, const uint16_t *in, const struct decode_norm *norm,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t intermediate,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
