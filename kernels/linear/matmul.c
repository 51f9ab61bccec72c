#include "kernels/linear/matmul.h"

#include "kernels/op/dot.h"

#include <stddef.h>

void matmul_cpu(float *out, const float *in, struct matrix weight, const float *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, enum rounding rounding)
{
	/* A row of weights is read once and meets every token while it is in the cache. */
	for (uint32_t n = 0; n < output_count; n++) {
		size_t first = (size_t)n * input_count;
		for (uint32_t r = 0; r < row_count; r++) {
			const float *row = in + (size_t)r * input_count;
			float sum = weight.f32 != NULL
					    ? dot_f32(row, weight.f32 + first, input_count)
					    : dot_bf16(row, weight.bf16 + first, input_count);
			if (bias != NULL) {
				sum += bias[n];
			}
			out[(size_t)r * output_count + n] = rounded(sum, rounding);
		}
	}
}
