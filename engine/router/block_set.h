#ifndef ENGINE_ROUTER_BLOCK_SET_H
#define ENGINE_ROUTER_BLOCK_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/block_key.h"

/* Blocks by their keys, the least recently used one first out: what a router remembers of a
   replica. Keys are chained, so leading blocks that are in the set are a known prefix. A block may
   also be forgotten once it is older than a time.

   A prefix is added with its first block as the most recent, so that its end is forgotten first. */

struct block_set_node {
	struct block_key key;
	uint64_t used_ns;
	uint32_t older, newer; /* neighbours in order of use */
};

struct block_set {
	uint32_t capacity; /* blocks at most; 0: no limit */
	uint64_t ttl_ns;   /* 0: blocks do not age */
	uint32_t count;
	uint32_t oldest, newest, unused; /* nodes */
	struct block_set_node *nodes;	 /* (node_count) */
	uint32_t node_count;
	uint32_t *index; /* (index_mask + 1) node by the low half of a key: linear probing */
	uint32_t index_mask;
};

void block_set_init(struct block_set *set, uint32_t capacity, uint64_t ttl_ns);
void block_set_deinit(struct block_set *set);

/* Leading blocks that are in the set at now_ns. */
uint32_t block_set_match(
	const struct block_set *set, const struct block_key *keys, uint32_t count, uint64_t now_ns);

/* Adds a prefix, or marks it as used. */
void block_set_add(
	struct block_set *set, const struct block_key *keys, uint32_t count, uint64_t now_ns);

/* Removes a block, if it is there. */
void block_set_remove(struct block_set *set, struct block_key key);

/* Forgets the oldest blocks beyond `count`. */
void block_set_shrink(struct block_set *set, uint32_t count);

#endif
