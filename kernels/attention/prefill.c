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

/* The number of keys to which the last query of tile `index` of a row attends. */
static uint32_t tile_end(
	uint32_t row, uint32_t index, const uint32_t *query_start, const uint32_t *contexts)
{
	uint32_t tokens = query_start[row + 1] - query_start[row];
	uint32_t end = (index + 1) * PREFILL_QUERY_TILE;

	return contexts[row] - tokens + (end < tokens ? end : tokens);
}

enum { LENGTH_CLASSES = 27 * 32 + 64 }; /* one more than the class of the most keys */

/* Equal for numbers of keys that have as many bits and agree in the first five, else larger for
   more keys. */
static uint32_t length_class(uint32_t keys)
{
	uint32_t less = keys < 32 ? 0 : 27 - (uint32_t)__builtin_clz(keys);

	return less * 32 + (keys >> less);
}

/* By length, and of tiles of nearly equal length those of a prompt are neighbours, since blocks
   that walk through the same keys find them in the L2 cache. A counting sort: first the tiles of
   each length are counted, then each tile goes to its place. */
uint32_t prefill_tiles_fill(struct prefill_tile *tiles, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t first_row, uint32_t row_count)
{
	uint32_t place[LENGTH_CLASSES] = {0}, count = 0;
	uint32_t least = LENGTH_CLASSES, most = 0; /* classes */

	for (uint32_t r = first_row; r < row_count; r++) {
		uint32_t tokens = query_start[r + 1] - query_start[r];
		for (uint32_t i = 0; i * PREFILL_QUERY_TILE < tokens; i++) {
			uint32_t class = length_class(tile_end(r, i, query_start, contexts));
			least = class < least ? class : least;
			most = class > most ? class : most;
			place[class]++;
		}
	}
	for (uint32_t i = least; i <= most; i++) {
		uint32_t own = place[i];
		place[i] = count;
		count += own;
	}
	for (uint32_t r = first_row; r < row_count; r++) {
		uint32_t tokens = query_start[r + 1] - query_start[r];
		for (uint32_t i = 0; i * PREFILL_QUERY_TILE < tokens; i++) {
			uint32_t class = length_class(tile_end(r, i, query_start, contexts));
			tiles[place[class]++] = (struct prefill_tile){.row = r, .index = i};
		}
	}
	return count;
}
