#ifndef KERNELS_PREFILL_ATTENTION_H
#define KERNELS_PREFILL_ATTENTION_H

#include "kernels/number.h"
#include "kernels/paged_kv.h"

#include <stdint.h>

/* Causal attention of prefill rows of differing lengths, each the last tokens of what its sequence
   has so far. Keys and values of the row's own tokens have been stored before, those of its cached
   prefix long ago; both are read through the block table.

       row r has n = query_start[r + 1] - query_start[r] tokens
       its token i is at position p = contexts[r] - n + i and attends to positions [0, p]

       out[query_start[r] + i][h] = attention of that token's query over the first p + 1 tokens of
				    table row rows[r], as kernels/attention_row.h defines it

   query_start need not begin at 0: tokens in front of it (decode rows) are left alone. */

/* out, query: (token_count, head_count, head_dim), apart; keys, values: of one layer;
   tables: (any, table_width); rows, contexts: (row_count); query_start: (row_count + 1). */
void prefill_attention_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *tables, const uint32_t *rows, const uint32_t *query_start,
	const uint32_t *contexts, uint32_t row_count, const struct attention_shape *shape,
	enum rounding rounding);

/* Here stands the launcher of the GPU: prefill_attention(), tiles of 64 or 128 queries against
   tiles of 64 keys from position 0. */

#endif
