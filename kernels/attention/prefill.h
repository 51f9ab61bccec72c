#ifndef KERNELS_ATTENTION_PREFILL_H
#define KERNELS_ATTENTION_PREFILL_H

#include "engine/shape/kernel_tiles.h"
#include "kernels/op/launch.h"
#include "kernels/op/number.h"
#include "kernels/attention/paged_kv.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Causal attention of prefill rows of any lengths. A row holds the last n tokens that its sequence
   has so far: a whole prompt, or a chunk of it. Keys and values of these tokens and of the cached
   prefix before them are already in the pool; all are read through the block table.

       row r has n = query_start[r + 1] - query_start[r] tokens
       its token i is at position p = contexts[r] - n + i and attends to positions [0, p]

       out[query_start[r] + i][h] = attention of that token's query over the first p + 1 tokens of
                                    table row rows[r], see kernels/attention/attention_row.h

   query_start need not begin at 0: tokens before it (decode rows) are not touched. */

/* out, query: (token_count, head_count, head_dim), not overlapping; keys, values: of one layer;
   tables: (any, table_width); rows, contexts: (row_count); query_start: (row_count + 1). */
void prefill_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t row_count, const struct attention_shape *shape,
	enum rounding rounding);

/* On the GPU: tiles of PREFILL_QUERY_TILE queries against tiles of keys from position 0 on. The
   bits of a query depend only on its position and on the tokens up to it.

   Preconditions: head_dim 32, 64 or 128; block_size a multiple of PAGED_KV_STEP. Keys and values
   past the context in a KV block are multiplied by 0, so they may have any value but NaN and
   infinity. */
struct prefill_tile {
	uint32_t row;	/* of the batch */
	uint32_t index; /* the tile begins at query index * PREFILL_QUERY_TILE of the row */
};

/* Writes the tiles of rows first_row to row_count - 1, those with the fewest keys first. The
   kernel starts at the end of the list, so that long tiles do not come last. Numbers of keys that
   have as many bits and agree in the first five count as equal; such tiles are in the order of
   their rows.
   Returns the number of tiles: at most queries / PREFILL_QUERY_TILE, plus one a row. */
uint32_t prefill_tiles_fill(struct prefill_tile *tiles, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t first_row, uint32_t row_count);

struct prefill_work {
	enum kernel_path path;
	const uint32_t *tables;	     /* (any, table_width) */
	const uint32_t *rows;	     /* (row_count) index into tables */
	const uint32_t *query_start; /* (row_count + 1) */
	const uint32_t *contexts;    /* (row_count) */
	/* (tile_count) of prefill_tiles_fill(); also tiles behind a row's last query, or of a row
	   without any, for which nothing is stored, though keys of its first block may be read */
	const struct prefill_tile *tiles;
	uint32_t tile_count;
};

int prefill_attention(uint16_t *out, const uint16_t *query, const uint16_t *keys,
	const uint16_t *values, const struct prefill_work *work,
	const struct attention_shape *shape, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
