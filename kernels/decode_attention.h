#ifndef KERNELS_DECODE_ATTENTION_H
#define KERNELS_DECODE_ATTENTION_H

#include "kernels/number.h"
#include "kernels/paged_kv.h"

#include <stdint.h>

/* Attention of decode rows: one query token each, over all of its sequence's tokens in the paged
   pool, its own included, which has been stored before.

       out[r][h] = attention of query[r][h] over the first contexts[r] tokens of table row rows[r]

   as kernels/attention_row.h defines it. */

/* out, query: (row_count, head_count, head_dim), apart; keys, values: of one layer;
   tables: (any, table_width); rows: (row_count) index into tables; contexts: (row_count), >= 1. */
void decode_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *contexts, uint32_t row_count,
	const struct attention_shape *shape, enum rounding rounding);

/* Here stands the launcher of the GPU: decode_attention(), all query heads of a key/value head
   together, splits of 256 tokens from position 0 merged in ascending order. */

#endif
