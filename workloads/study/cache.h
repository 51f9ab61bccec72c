#ifndef WORKLOADS_STUDY_CACHE_H
#define WORKLOADS_STUDY_CACHE_H

#include <stdint.h>

#include "workloads/study/references.h"

/* The hits of a prefix cache of a given size on a trace, without an engine and without time: each
   request is complete before the next one arrives.

       lru_stream  each reference is looked up on its own and becomes the most recent one
       lru_tail    a request hits the unbroken run of cached blocks at its start. Then its blocks
                   are touched from the last to the first, as an engine frees them, so ends of
                   prompts are evicted first. The `capacity` blocks touched last are cached
       fifo        hits as lru_tail; missing blocks are added, the oldest is evicted
       belady      each reference on its own; the cache keeps the blocks that are referenced again
                   soonest and need not keep a missed one (MIN with bypass): no policy hits more
       infinite    nothing is evicted

   Both LRUs are computed for every capacity in one pass by stack distance: a cache finds a block
   exactly if it is larger than the number of different blocks touched since the block's last touch.
   A reference to a block comes with all blocks before it in the prompt. So hits are runs at the
   start of a prompt under the other policies too. */

enum cache_policy {
	CACHE_LRU_STREAM,
	CACHE_LRU_TAIL,
	CACHE_FIFO,
	CACHE_BELADY,
	CACHE_INFINITE,
	CACHE_POLICY_COUNT
};

const char *cache_policy_name(enum cache_policy policy);

/* Tokens hit. The second half is the requests from index floor(request_count / 2) on. */
struct cache_hits {
	uint64_t blocks, tokens;
	uint64_t blocks_2nd_half, tokens_2nd_half;
};

/* hits: (block_count + 1), indexed by capacity in blocks. hits[0] is zero; a capacity beyond
   block_count hits no more. */
void cache_lru_stream(const struct references *references, struct cache_hits *hits);
void cache_lru_tail(const struct references *references, struct cache_hits *hits);

/* One capacity in blocks, at least 1. */
struct cache_hits cache_fifo(const struct references *references, uint64_t capacity);

/* next_use: (reference_count) by cache_next_uses(). */
struct cache_hits cache_belady(
	const struct references *references, const uint32_t *next_use, uint64_t capacity);

struct cache_hits cache_infinite(const struct references *references);

/* For each reference the index of the next one to the same block, UINT32_MAX if there is none. */
void cache_next_uses(const struct references *references, uint32_t *next_use);

#endif
