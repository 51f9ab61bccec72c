#ifndef ENGINE_BLOCK_MANAGER_H
#define ENGINE_BLOCK_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/block_key.h"

/* The state of the KV pool: which blocks are free, how many sequences use the others, and which
   content can be found again.

       free list (FIFO)   head ─► block ─► block ─► block ◄─ tail      doubly linked: a hit takes a
								       block out of the middle
       index              key ─► block

   A block is in use (reference_count > 0) or on the free list. A free block keeps its content
   until it is given out again, so a released prefix can be revived. `indexed` content is what the
   index points to; registering equal content twice re-points the index to the newer block.

   Content is known by its key only (engine/base/block_key.h), whatever that was made from. The
   index holds one block for each low half of a key, and a hit needs the whole key to agree. It is a
   hash table whose buckets are lists of blocks. Every operation takes O(1) time per block. */

struct block {
	struct block_key key;	  /* of its content, meaningful while is_registered */
	uint32_t reference_count; /* block tables that hold it */
	uint32_t previous, next;  /* neighbours on the free list */
	uint32_t next_indexed;	  /* in its bucket of the index */
	bool is_registered;	  /* content was registered since the block was last given out */
	bool is_indexed;	  /* it is in the index */
	bool is_free;
};

static const uint32_t BLOCK_NONE = UINT32_MAX;

struct block_manager {
	uint32_t block_count;
	uint32_t block_size;
	struct block *blocks; /* (block_count) */
	uint32_t free_head, free_tail;
	uint32_t free_count;
	uint64_t shared_count;	    /* references beyond the first of each block */
	uint64_t pair_count;	    /* pairs of references to the same block */
	uint32_t cached_free_count; /* free blocks that the index points to */
	uint32_t registered_count;  /* blocks in the index */
	uint32_t *buckets;	    /* (bucket_mask + 1) the first block of each, or BLOCK_NONE */
	uint64_t bucket_mask;
	uint64_t version; /* changes whenever the answer to a probe may change */
};

void block_manager_init(struct block_manager *manager, uint32_t block_count, uint32_t block_size);
void block_manager_deinit(struct block_manager *manager);

/* Takes the block at the head of the free list; its old content leaves the index if the index still
   points to it. There must be a free block. */
uint32_t block_manager_pop_free(struct block_manager *manager);

/* One more reference to a block found by a hit; a free one is revived. */
void block_manager_share(struct block_manager *manager, uint32_t block);

/* One reference less; at zero the block joins the tail of the free list, content kept. */
void block_manager_release(struct block_manager *manager, uint32_t block);

/* The block with this key, or BLOCK_NONE. */
uint32_t block_manager_find(const struct block_manager *manager, struct block_key key);

/* Enters a block in use into the index under its key. An older block with the same key can then not
   be found any more. */
void block_manager_register(struct block_manager *manager, uint32_t block, struct block_key key);

static inline uint32_t block_manager_used_count(const struct block_manager *manager)
{
	return manager->block_count - manager->free_count;
}

/* The pool as sequences use it: admission, growth, release. */
struct sequence;

/* Leading full blocks of a sequence that are cached, at most sequence_max_hit_blocks(). */
uint32_t block_manager_probe(const struct block_manager *manager, struct sequence *sequence);

/* Whether blocks are free for everything but `hit_count` leading blocks found by a probe. A hit
   on a free block needs that block too. */
bool block_manager_can_allocate(
	const struct block_manager *manager, struct sequence *sequence, uint32_t hit_count);

/* Fills an empty block table for all token_count tokens: `hit_count` shared blocks, then fresh
   ones, and sets cached_count. can_allocate must have returned true. Registers nothing. */
void block_manager_allocate(
	struct block_manager *manager, struct sequence *sequence, uint32_t hit_count);

/* Whether there is room for the last token of the sequence: in its last block or in a free one. */
bool block_manager_can_append(const struct block_manager *manager, const struct sequence *sequence);

/* Gives the sequence a block if its last token begins one; returns whether it did. */
bool block_manager_append(struct block_manager *manager, struct sequence *sequence);

/* Registers the blocks that tokens [first, first + count) of a sequence fill. */
void block_manager_register_filled(
	struct block_manager *manager, struct sequence *sequence, uint32_t first, uint32_t count);

/* Releases a sequence's blocks, the last one first, and empties its table. */
void block_manager_release_all(struct block_manager *manager, struct sequence *sequence);

/* Verifies every invariant, in O(blocks): each block is either used or free, the free list is
   intact in both directions, counts are right, and index entries and registered blocks agree. A
   breach is a failed check. */
void block_manager_check(const struct block_manager *manager);

#endif
