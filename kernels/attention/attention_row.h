#ifndef KERNELS_ATTENTION_ATTENTION_ROW_H
#define KERNELS_ATTENTION_ATTENTION_ROW_H

#include "kernels/op/number.h"
#include "kernels/attention/paged_kv.h"

#include <stdint.h>

/* Attention of one query head over the first `context` tokens of a sequence. The CPU twins of
   prefill and decode share it.

       score[t] = (query . key[t]) / sqrt(head_dim)            t in [0, context)
       out[i]   = round(sum over t of exp(score[t] - m) * value[t][i] / sum of exp(score[t] - m))
       m        = the largest score

   It is an online softmax over tiles of ATTENTION_TILE tokens from position 0 on. At each tile
   the running maximum, sum and weighted sum are rescaled by exp(old m - new m), then the tokens
   of the tile are added in ascending order. Scores are summed in the order of kernels/op/dot.h.
   So a result depends only on the query and on the tokens up to it: not on the block size, on
   the chunks in which the prompt was computed, or on the other rows of the step. */

enum { ATTENTION_TILE = 64 };

/* out, query: (head_dim); keys, values: of one layer; table: (ceil(context / block_size)) block
   ids, the sequence's row of the block table; context >= 1. */
void attention_row_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *table, uint32_t context, uint32_t kv_head,
	const struct attention_shape *shape, enum rounding rounding);

#endif
