#include "kernels/attention/decode.h"

#include "kernels/attention/attention_row.h"

#include <stddef.h>

void decode_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *contexts, uint32_t row_count,
	const struct attention_shape *shape, enum rounding rounding)
{
	uint32_t group = shape->head_count / shape->kv_head_count;

	for (uint32_t r = 0; r < row_count; r++) {
		const uint32_t *table = tables + (size_t)rows[r] * shape->table_width;
		for (uint32_t h = 0; h < shape->head_count; h++) {
			size_t at = ((size_t)r * shape->head_count + h) * shape->head_dim;
			attention_row_cpu(out + at, query + at, keys, values, table, contexts[r],
				h / group, shape, rounding);
		}
	}
}
