#include "kernels/linear/decode_matmul.h"

#include "kernels/linear/matmul.h"
#include "kernels/rows/silu_mul.h"

#include <stddef.h>

/* Rows `first` and on of a matrix. */
static struct matrix rows_from(struct matrix weight, size_t first, uint32_t input_count)
{
	struct matrix rows = weight;

	if (weight.f32 != NULL) {
		rows.f32 += first * input_count;
	} else {
		rows.bf16 += first * input_count;
	}
	return rows;
}

void decode_matmul_silu_cpu(float *out, const float *in, struct matrix weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, enum rounding rounding)
{
	for (uint32_t i = 0; i < intermediate; i++) {
		struct matrix gate = rows_from(weight, i, input_count);
		struct matrix up = rows_from(weight, (size_t)intermediate + i, input_count);
		for (uint32_t r = 0; r < row_count; r++) {
			const float *row = in + (size_t)r * input_count;
			float pair[2];
			matmul_cpu(&pair[0], row, gate, NULL, 1, input_count, 1, rounding);
			matmul_cpu(&pair[1], row, up, NULL, 1, input_count, 1, rounding);
			silu_mul_cpu(&out[(size_t)r * intermediate + i], pair, 1, 1, rounding);
		}
	}
}

uint32_t decode_matmul_parts(uint32_t input_count, uint32_t output_count)
{
	const uint32_t parts = 4, chunk = 128;
	bool is_long = input_count >= 2048 && input_count <= 4096;
	bool is_small = output_count > 0 && output_count <= 2048;

	return is_long && is_small && input_count % (parts * chunk) == 0 && output_count % 64 == 0
		       ? parts
		       : 1;
}
