#include "kernels/rows/embedding.h"

#include "engine/base/check.h"

void embedding_cpu(float *out, struct matrix table, const int32_t *token_ids, uint32_t token_count,
	uint32_t vocabulary_size, uint32_t width, enum rounding rounding)
{
	for (uint32_t t = 0; t < token_count; t++) {
		check(token_ids[t] >= 0);
		check((uint32_t)token_ids[t] < vocabulary_size);
		uint64_t first = (uint64_t)token_ids[t] * width;
		for (uint32_t i = 0; i < width; i++) {
			out[(uint64_t)t * width + i] =
				rounded(matrix_at(table, first + i), rounding);
		}
	}
}
