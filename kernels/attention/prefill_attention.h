#ifndef KERNELS_ATTENTION_PREFILL_ATTENTION_H
#define KERNELS_ATTENTION_PREFILL_ATTENTION_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"
#include "kernels/attention/paged_kv.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Causal attention of prefill rows of differing lengths, each the last tokens of what its sequence
   has so far. Keys and values of the row's own tokens have been stored before, those of its cached
   prefix long ago; both are read through the block table.

       row r has n = query_start[r + 1] - query_start[r] tokens
       its token i is at position p = contexts[r] - n + i and attends to positions [0, p]

       out[query_start[r] + i][h] = attention of that token's query over the first p + 1 tokens of
				    table row rows[r], as kernels/attention/attention_row.h defines
				    it

   query_start need not begin at 0: tokens in front of it (decode rows) are left alone. */

/* out, query: (token_count, head_count, head_dim), apart; keys, values: of one layer;
   tables: (any, table_width); rows, contexts: (row_count); query_start: (row_count + 1). */
void prefill_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t row_count, const struct attention_shape *shape,
	enum rounding rounding);

/* On the GPU: tiles of PREFILL_QUERY_TILE queries against tiles of keys from position 0; what a
   query gets depends, to the bit, on its position and on the tokens up to it alone. The path of
   sm_90 is for a head_dim of 64 or 128 (others take the general one, which has 32, too); block_size
   is a multiple of 64. Keys and values of a block behind the context are multiplied by 0: numbers,
   though any. */
enum { PREFILL_QUERY_TILE = 128 };

struct prefill_tile {
	uint32_t row;	/* of the batch */
	uint32_t index; /* queries from index * PREFILL_QUERY_TILE of the row on */
};

/* Writes the tiles of rows first_row to row_count - 1, those with the fewest keys first: the kernel
   begins with the last. Returns how many: at most their queries / PREFILL_QUERY_TILE + one a row.
 */
uint32_t prefill_tiles_fill(struct prefill_tile *tiles, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t first_row, uint32_t row_count);

struct prefill_work {
	enum kernel_path path;
	const uint32_t *tables;		  /* (any, table_width) */
	const uint32_t *rows;		  /* (row_count) index into tables */
	const uint32_t *query_start;	  /* (row_count + 1) */
	const uint32_t *contexts;	  /* (row_count) */
	const struct prefill_tile *tiles; /* (tile_count) of prefill_tiles_fill() */
	uint32_t tile_count;
};

int prefill_attention(uint16_t *out, const uint16_t *query, const uint16_t *keys,
	const uint16_t *values, const struct prefill_work *work,
	const struct attention_shape *shape, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
