#ifndef WORKLOADS_BLOCK_KEYS_H
#define WORKLOADS_BLOCK_KEYS_H

#include <stddef.h>

#include "engine/base/block_key.h"
#include "workloads/tokens.h"

/* Keys of a row's KV blocks from the pieces of its tokens, without the tokens. Equal keys mean what
   they mean where keys are made from tokens: the blocks' tokens and all before them are equal. So a
   run decides the same by either.

   A block inside one piece is told by the piece's stream and the position there: different places
   of streams give blocks that are equal by chance only. A block over several pieces needs care,
   since a few tokens of two streams are equal soon enough: one in vocab_size. Its key is made from

       runs      the longest stretches of the block that agree with a stream, over the ends of its
                 pieces too, where they are long enough for chance to be excluded
       rest      the tokens that are in no run, one by one

   which depend on nothing but the block's tokens. `shortest_run` tokens are equal by chance less
   than once in 2^128 times: 8 of Qwen3's vocabulary. A block shorter than that is its tokens. Ids
   that the trace spells out are in no run: a trace that spelled out what streams give, token by
   token, would be taken for different. */

struct key_part;
struct key_run;

struct block_keys {
	struct token_source source;
	uint32_t block_size;
	uint32_t shortest_run;
	struct block_key *keys; /* of the latest row */
	size_t key_capacity;
	struct key_part *parts; /* (block_size) of one block */
	struct key_run *runs;	/* (block_size) */
	int32_t *token_ids;	/* (block_size) those in no run */
};

void block_keys_init(
	struct block_keys *keys, const struct token_source *source, uint32_t block_size);
void block_keys_deinit(struct block_keys *keys);

/* The keys of all full blocks of a row's prompt and forced completion, as many as
   (input_length + output_length) / block_size; valid until the next call. */
const struct block_key *block_keys_of(struct block_keys *keys, const struct trace_row *row);

#endif
