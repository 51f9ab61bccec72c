#ifndef ENGINE_BASE_BLOCK_KEY_H
#define ENGINE_BASE_BLOCK_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <xxhash.h>

#include "engine/base/counter_hash.h"

/* The identity of a full KV block: 128 bits that stand for its tokens and for all tokens before
   them. Two blocks with equal keys hold the same; different content has equal keys by chance only,
   once in 2^128 pairs. A key is chained: it is made from the preceding block's key, {0} before the
   first block, and from what the block adds.

   What is added may be the block's tokens, or any two words that are the same exactly where the
   tokens are. Keys of one run come from one such source. */

struct block_key {
	uint64_t low, high;
};

/* Multipliers are odd, so that each half depends on all bits of the preceding one. They are the
   64-bit constants of L'Ecuyer's table of multipliers for linear congruential generators (1999). */
static inline struct block_key block_key_add(struct block_key before, uint64_t low, uint64_t high)
{
	return (struct block_key){
		.low = counter_mix(before.low * UINT64_C(2862933555777941757) + low),
		.high = counter_mix(before.high * UINT64_C(3202034522624059733) + high)};
}

static inline struct block_key block_key_of_tokens(
	struct block_key before, const int32_t *token_ids, uint32_t count)
{
	XXH128_hash_t content = XXH3_128bits(token_ids, count * sizeof(*token_ids));

	return block_key_add(before, content.low64, content.high64);
}

static inline bool block_key_equal(struct block_key a, struct block_key b)
{
	return a.low == b.low && a.high == b.high;
}

#endif
