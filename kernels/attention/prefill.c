#include "kernels/attention/prefill.h"

#include "engine/base/check.h"
#include "kernels/attention/attention_row.h"

#include <stddef.h>

void prefill_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t row_count, const struct attention_shape *shape,
	enum rounding rounding)
{
	uint32_t group = shape->head_count / shape->kv_head_count;

	for (uint32_t r = 0; r < row_count; r++) {
		const uint32_t *table = tables + (size_t)rows[r] * shape->table_width;
		check(query_start[r] < query_start[r + 1]);
		check(query_start[r + 1] - query_start[r] <= contexts[r]);
		for (uint32_t t = query_start[r]; t < query_start[r + 1]; t++) {
			uint32_t context = contexts[r] - (query_start[r + 1] - 1 - t);
			for (uint32_t h = 0; h < shape->head_count; h++) {
				size_t at = ((size_t)t * shape->head_count + h) * shape->head_dim;
				attention_row_cpu(out + at, query + at, keys, values, table,
					context, h / group, shape, rounding);
			}
		}
	}
}

/* The number of keys to which the last query of a tile attends. */
static uint32_t tile_end(
	const struct prefill_tile *tile, const uint32_t *query_start, const uint32_t *contexts)
{
	uint32_t tokens = query_start[tile->row + 1] - query_start[tile->row];
	uint32_t end = (tile->index + 1) * PREFILL_QUERY_TILE;

	return contexts[tile->row] - tokens + (end < tokens ? end : tokens);
}

/* Equal for numbers of keys that have as many bits and agree in the first five, else larger for
   more keys. */
static uint32_t length_class(uint32_t keys)
{
	uint32_t less = keys < 32 ? 0 : 27 - (uint32_t)__builtin_clz(keys);

	return less * 32 + (keys >> less);
}

/* Whether tile `a` comes before tile `b`. Of tiles of nearly equal length, those of a prompt are
   neighbours, since blocks that walk through the same keys find them in the L2 cache. */
static bool is_before(const struct prefill_tile *a, const struct prefill_tile *b,
	const uint32_t *query_start, const uint32_t *contexts)
{
	uint32_t length = length_class(tile_end(a, query_start, contexts));
	uint32_t other = length_class(tile_end(b, query_start, contexts));

	if (length != other) {
		return length < other;
	}
	return a->row != b->row ? a->row < b->row : a->index < b->index;
}

/* Restores the heap of `count` tiles, the last one on top, after tile `at` was replaced. */
static void sink_tile(struct prefill_tile *tiles, uint32_t at, uint32_t count,
	const uint32_t *query_start, const uint32_t *contexts)
{
	struct prefill_tile tile = tiles[at];

	while (2 * at + 1 < count) {
		uint32_t child = 2 * at + 1;
		if (child + 1 < count &&
			is_before(&tiles[child], &tiles[child + 1], query_start, contexts)) {
			child++;
		}
		if (!is_before(&tile, &tiles[child], query_start, contexts)) {
			break;
		}
		tiles[at] = tiles[child];
		at = child;
	}
	tiles[at] = tile;
}

uint32_t prefill_tiles_fill(struct prefill_tile *tiles, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t first_row, uint32_t row_count)
{
	uint32_t count = 0;

	for (uint32_t r = first_row; r < row_count; r++) {
		uint32_t tokens = query_start[r + 1] - query_start[r];
		for (uint32_t i = 0; i * PREFILL_QUERY_TILE < tokens; i++) {
			tiles[count++] = (struct prefill_tile){.row = r, .index = i};
		}
	}
	for (uint32_t i = count / 2; i > 0; i--) {
		sink_tile(tiles, i - 1, count, query_start, contexts);
	}
	for (uint32_t i = count; i > 1; i--) {
		struct prefill_tile last = tiles[0];
		tiles[0] = tiles[i - 1];
		tiles[i - 1] = last;
		sink_tile(tiles, 0, i - 1, query_start, contexts);
	}
	return count;
}
