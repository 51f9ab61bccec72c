#include "kernels/linear/linear.h"

#include "kernels/op/dot.h"
#include "kernels/rows/silu_mul.h"

#include <stddef.h>

void linear_cpu(float *out, const float *in, struct matrix weight, const float *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, enum rounding rounding)
{
	/* Weights in the outer loop: each is read once, and stays in the cache for all rows. */
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

void linear_silu_cpu(float *out, const float *in, struct matrix weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, enum rounding rounding)
{
	for (uint32_t i = 0; i < intermediate; i++) {
		struct matrix gate = matrix_rows(weight, i, input_count);
		struct matrix up = matrix_rows(weight, (uint64_t)intermediate + i, input_count);
		for (uint32_t r = 0; r < row_count; r++) {
			const float *row = in + (size_t)r * input_count;
			float pair[2];
			linear_cpu(&pair[0], row, gate, NULL, 1, input_count, 1, rounding);
			linear_cpu(&pair[1], row, up, NULL, 1, input_count, 1, rounding);
			silu_mul_cpu(&out[(size_t)r * intermediate + i], pair, 1, 1, rounding);
		}
	}
}
