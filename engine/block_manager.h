#ifndef ENGINE_BLOCK_MANAGER_H
#define ENGINE_BLOCK_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/block_key.h"
#include "engine/config.h"

/* The state of the KV pool: which blocks are free, how many sequences use the others, and which
   content can be found again.

       free list   head ─► block ─► block ─► block ◄─ tail      doubly linked: a hit takes a block
								out of the middle
       index       key ─► block

   With EVICTION_FIFO and EVICTION_RANDOM blocks join a pile instead of the list's tail, a heap by
   the time of registration or an array; the list is given out before the pile.

   A block is in use (reference_count > 0) or free. A free block keeps its content
   until it is given out again, so a released prefix can be revived. What the configuration leaves
   open (engine/config.h, struct block_strategies): where released blocks join the list, and which
   of several blocks with equal content the index finds. With EQUAL_NEWEST registering equal content
   re-points the index, and the older block can not be found any more. With EQUAL_OLDEST all of them
   stay, linked in order of registration, and the index holds the first.

   Content is known by its key only (engine/base/block_key.h), whatever that was made from. The
   index holds one block for each low half of a key, and a hit needs the whole key to agree. It is a
   hash table whose buckets are lists of blocks. Every operation takes O(1) time per block. */

struct block {
	struct block_key key;	  /* of its content, meaningful while is_registered */
	uint32_t reference_count; /* block tables that hold it */
	uint32_t next_indexed;	  /* in its bucket of the index */
	bool is_registered;	  /* content was registered since the block was last given out */
	bool is_indexed;	  /* it is in the index, or behind a block that is */
	bool has_evicted;	  /* findable content was lost when it was last given out */
	bool is_free;
};

/* Neighbours among the indexed blocks with equal content, in order of registration; the first one's
   previous is the last. */
struct block_equals {
	uint32_t previous, next;
};

/* A block's place in the pile. */
struct block_place {
	uint32_t index;	       /* BLOCK_NONE: it is not there */
	uint64_t registration; /* ordinal, of EVICTION_FIFO; 0: nothing is registered */
};

/* Neighbours on the free list. They are apart from the blocks: the list is walked through from
   block to block, and small links stay in the cache of the processor. */
struct block_link {
	uint32_t previous, next;
};

static const uint32_t BLOCK_NONE = UINT32_MAX;

/* What becomes findable or cannot be found any more, in order, for whoever follows the prefix cache
   from outside; the reader empties it. */
struct block_change {
	struct block_key key;
	bool is_added;
};

struct block_log {
	struct block_change *changes; /* (count), the buffer grows */
	size_t count, capacity;
};

struct block_manager {
	uint32_t block_count;
	uint32_t block_size;
	struct block_strategies strategies;
	struct block *blocks;	     /* (block_count) */
	struct block_link *links;    /* (block_count) */
	struct block_equals *equals; /* (block_count), NULL unless EQUAL_OLDEST */
	struct block_place *places;  /* (block_count), NULL with EVICTION_LRU */
	uint32_t free_head, free_tail;
	uint32_t free_count; /* on the list and the pile */
	uint32_t *pile;	     /* (pile_count) of block_count; NULL with EVICTION_LRU */
	uint32_t pile_count;
	uint64_t registration_count, given_count;
	uint32_t cached_free_count; /* free blocks that the index points to */
	uint32_t registered_count;  /* blocks in the index */
	uint32_t *buckets;	    /* (bucket_mask + 1) the first block of each, or BLOCK_NONE */
	uint64_t bucket_mask;
	uint64_t version;      /* changes whenever the answer to a probe may change */
	struct block_log *log; /* borrowed; NULL: changes are not kept */
};

void block_manager_init(struct block_manager *manager, uint32_t block_count, uint32_t block_size,
	struct block_strategies strategies);
void block_manager_deinit(struct block_manager *manager);

/* Takes the block at the head of the free list, or of the pile when the list is empty; its old
   content can not be found any more. There must be a free block. */
uint32_t block_manager_pop_free(struct block_manager *manager);

/* One more reference to a block found by a hit; a free one is revived. */
void block_manager_share(struct block_manager *manager, uint32_t block);

/* One reference less; at zero the block joins the free list, content kept: its tail, or with
   FREE_UNHASHED_FIRST its head if nothing is registered in it. */
void block_manager_release(struct block_manager *manager, uint32_t block);

/* The block with this key, or BLOCK_NONE. */
uint32_t block_manager_find(const struct block_manager *manager, struct block_key key);

/* Enters a block in use into the index under its key. */
void block_manager_register(struct block_manager *manager, uint32_t block, struct block_key key);

static inline uint32_t block_manager_used_count(const struct block_manager *manager)
{
	return manager->block_count - manager->strategies.has_null_block - manager->free_count;
}

/* The pool as sequences use it: admission, growth, release. */
struct sequence;

/* Leading full blocks of a sequence that are cached, at most sequence_max_hit_blocks(). */
uint32_t block_manager_probe(const struct block_manager *manager, struct sequence *sequence);

/* Whether `spare` blocks are free beside those for the first `token_count` tokens, of which
   `hit_count` leading blocks were found by a probe. A hit on a free block needs that block too. */
bool block_manager_can_allocate(const struct block_manager *manager, struct sequence *sequence,
	uint32_t hit_count, uint32_t token_count, uint32_t spare);

/* Fills an empty block table for the first `token_count` tokens: `hit_count` shared blocks, then
   fresh ones, and sets cached_count. can_allocate must have returned true. Registers nothing. */
void block_manager_allocate(struct block_manager *manager, struct sequence *sequence,
	uint32_t hit_count, uint32_t token_count);

/* Enters the full blocks of a waiting sequence's first `token_count` tokens into the prefix cache
   as if another sequence had computed them and ended: its admission finds them. Nothing is written
   to them, so their K and V are whatever the pool holds, and only the times of steps that read them
   mean something. Where fewer blocks are free, nothing is entered. */
void block_manager_store(
	struct block_manager *manager, struct sequence *sequence, uint32_t token_count);

/* Blocks that a table lacks for its sequence's first `token_count` tokens. */
uint32_t block_manager_missing(
	const struct block_manager *manager, const struct sequence *sequence, uint32_t token_count);

/* Adds a block to the table, which a check demands to be free. */
void block_manager_append(struct block_manager *manager, struct sequence *sequence);

/* Registers the blocks that the first `token_count` tokens of a sequence fill, each once. */
void block_manager_register_up_to(
	struct block_manager *manager, struct sequence *sequence, uint32_t token_count);

/* Releases a sequence's blocks and empties its table. The last one is released first, so that a
   chain loses its tail before its head. Blocks that go to the head of the free list end up there in
   that order too. */
void block_manager_release_all(struct block_manager *manager, struct sequence *sequence);

/* Verifies every invariant, in O(blocks): each block is either used or free, the free list is
   intact in both directions, counts are right, and index entries and registered blocks agree. A
   breach is a failed check. */
void block_manager_check(const struct block_manager *manager);

#endif
