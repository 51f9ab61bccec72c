#ifndef KERNELS_ATTENTION_DECODE_H
#define KERNELS_ATTENTION_DECODE_H

#include "engine/shape/kernel_tiles.h"
#include "kernels/op/launch.h"
#include "kernels/op/number.h"
#include "kernels/attention/decode_list.h"
#include "kernels/attention/paged_kv.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attention of decode rows: one query token each, over all tokens of its sequence in the paged KV
   pool. The key and value of the token itself are already in the pool.

       out[r][h] = attention of query[r][h] over the first contexts[r] tokens of table row rows[r]

   as kernels/attention/attention_row.h defines it. */

/* out, query: (row_count, head_count, head_dim), not overlapping; keys, values: of one layer;
   tables: (any, table_width); rows: (row_count) index into tables; contexts: (row_count), >= 1. */
void decode_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *contexts, uint32_t row_count,
	const struct attention_shape *shape, enum rounding rounding);

/* On the GPU, flash decoding: the tokens of a row are cut into splits of DECODE_SPLIT from position
   0 on, and the partial results of the splits are merged in ascending order. So the bits of a row
   do not depend on the other rows (batch invariance). All query heads of a key/value head (GQA, at
   most 8) are computed together, so that keys and values are read once. On sm_90 a split whose
   blocks several rows hold is read once for all of them. The bits are the same: each row has its
   own partial results, by the same sums, merged in the same order.

   Preconditions: head_dim 32, 64 or 128; block_size a multiple of PAGED_KV_STEP.

   The kernels for sm_90 (head_dim 64 or 128) use PDL. Before the dependency wait they read the
   lists in `work` and the keys and values of all tokens but the last of each row. So these must
   come from earlier steps, or from step_begin(). They do: a sequence decodes only when earlier
   steps have computed all its tokens but the last, and a shared block is never written. */
struct decode_work {
	enum kernel_path path;
	const uint32_t *tables;	  /* (any, table_width) */
	const uint32_t *rows;	  /* (row_count) index into tables */
	const uint32_t *contexts; /* (row_count) */
	/* (row_count + 1) index of each row's first split. A row without splits is padding of a
	   graph; its output is zero. */
	const uint32_t *split_start;
	/* Of these rows, by decode_list_fill(), and the array that it fills, of
	   decode_list_capacity(). In a launch that is not long, that of row 0 has its claims and
	   its splits from index 0 on. */
	const struct decode_launch *launch;
	const struct decode_claim *claims; /* at a multiple of 16 bytes */
	bool is_long;	      /* as the launch says; one that is not long has no shared entries */
	float *partial_out;   /* (splits, head_count, head_dim) float32 */
	float *partial_state; /* (splits, head_count, 2) maximum and sum, float32 */
	/* (decode_counters()) for sm_90. They are zero before the first launch, and every
	   launch leaves them zero. */
	uint32_t *arrivals;
	/* The launch computes rows [first_row, first_row + row_count). Partial results are
	   numbered from the first split of these rows. */
	uint32_t first_row;
	uint32_t block_count; /* thread blocks of the launch: decode_attention_blocks() */
};

/* The number of thread blocks that are resident at once on that many multiprocessors. */
uint32_t decode_attention_blocks(enum kernel_path path, uint32_t processors);

int decode_attention(uint16_t *out, const uint16_t *query, const uint16_t *keys,
	const uint16_t *values, const struct decode_work *work, uint32_t row_count,
	const struct attention_shape *shape, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
