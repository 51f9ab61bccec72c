#ifndef KERNELS_ATTENTION_DECODE_ATTENTION_H
#define KERNELS_ATTENTION_DECODE_ATTENTION_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"
#include "kernels/attention/paged_kv.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attention of decode rows: one query token each, over all of its sequence's tokens in the paged
   pool, its own included, which has been stored before.

       out[r][h] = attention of query[r][h] over the first contexts[r] tokens of table row rows[r]

   as kernels/attention/attention_row.h defines it. */

/* out, query: (row_count, head_count, head_dim), apart; keys, values: of one layer;
   tables: (any, table_width); rows: (row_count) index into tables; contexts: (row_count), >= 1. */
void decode_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *contexts, uint32_t row_count,
	const struct attention_shape *shape, enum rounding rounding);

/* On the GPU: all query heads of a key/value head together (at most 8), in splits of DECODE_SPLIT
   tokens from position 0, whose results are merged in ascending order. So a row's result depends on
   nothing beside it. head_dim 32, 64 or 128; block_size a multiple of 64.

   On the path of sm_90 (head_dim 64 or 128) it may begin while the kernels in front of it still
   run. It waits for them before it reads queries or the last token of a row, but what `work` points
   to and the keys and values of all other tokens must be older than any kernel that may still run:
   of an earlier step. They are, for a sequence decodes only when earlier steps have computed all
   its tokens but the last, and nobody writes into a block that is shared. */
enum { DECODE_SPLIT = 256 };

struct decode_split {
	uint32_t row;	/* of the batch */
	uint32_t index; /* tokens from index * DECODE_SPLIT on */
};

struct decode_work {
	enum kernel_path path;
	const uint32_t *tables;		   /* (any, table_width) */
	const uint32_t *rows;		   /* (row_count) index into tables */
	const uint32_t *contexts;	   /* (row_count) */
	const struct decode_split *splits; /* of all rows, ascending in row and index */
	const uint32_t
		*split_start; /* (row_count + 1) the row's first split; a row with none gets 0 */
	float *partial_out;   /* (splits, head_count, head_dim) */
	float *partial_state; /* (splits, head_count, 2) */
	uint32_t *arrivals;   /* (1 + rows of the batch * kv_head_count) counters for the path of
				 sm_90: zero before the first launch, and left so by each */
	uint32_t first_row; /* rows [first_row, first_row + row_count) are computed; partial results
			       are numbered from the first split of these */
	uint32_t block_count; /* blocks that share the work: decode_attention_blocks(), or any */
};

/* As many blocks as run at once on that many multiprocessors. */
uint32_t decode_attention_blocks(enum kernel_path path, uint32_t processors);

int decode_attention(uint16_t *out, const uint16_t *query, const uint16_t *keys,
	const uint16_t *values, const struct decode_work *work, uint32_t row_count,
	const struct attention_shape *shape, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
