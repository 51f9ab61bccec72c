#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/number.h"

#include <stdint.h>

/* Matrix product with the weights of a linear layer, one row a token:

       out[r][n] = round(bias[n] + sum over k of in[r][k] * weight[n][k])

   The sum is in the order of kernels/dot.h and the bias is added to it, so a row's result does not
   depend on the rows beside it. Logits are kept in float32 (ROUNDING_NONE) in every mode. */

/* out: (row_count, output_count); in: (row_count, input_count);
   weight: (output_count, input_count); bias: (output_count) or NULL. */
void matmul_cpu(float *out, const float *in, struct matrix weight, const float *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, enum rounding rounding);

/* Here stands the launcher of the GPU: matmul(), bf16 in and out, sums in float32 over ascending k
   in a grouping that is fixed for a weight's shape, whatever row_count is. */

#endif
