#include "engine/router/block_set.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define NO_NODE UINT32_MAX

enum { NODES_AT_FIRST = 64 };

/* ---- the index ---- */

/* The entry of a key, or the empty entry where it would be. */
static uint32_t position_of(const struct block_set *set, struct block_key key)
{
	uint32_t at = (uint32_t)key.low & set->index_mask;

	while (set->index[at] != NO_NODE && !block_key_equal(set->nodes[set->index[at]].key, key)) {
		at = (at + 1) & set->index_mask;
	}
	return at;
}

static uint32_t find(const struct block_set *set, struct block_key key)
{
	return set->count == 0 ? NO_NODE : set->index[position_of(set, key)];
}

/* Empties an entry and moves back those behind it that would no longer be reached. */
static void index_remove(struct block_set *set, uint32_t hole)
{
	uint32_t mask = set->index_mask;

	for (uint32_t next = (hole + 1) & mask; set->index[next] != NO_NODE;
		next = (next + 1) & mask) {
		uint32_t home = (uint32_t)set->nodes[set->index[next]].key.low & mask;
		if (((next - home) & mask) >= ((next - hole) & mask)) {
			set->index[hole] = set->index[next];
			hole = next;
		}
	}
	set->index[hole] = NO_NODE;
}

/* Twice the nodes, and an index that is at most half full. */
static void grow(struct block_set *set)
{
	uint32_t count = set->node_count == 0 ? NODES_AT_FIRST : 2 * set->node_count;
	uint32_t mask = 2 * count - 1;

	set->nodes = memory_resize(set->nodes, count * sizeof(*set->nodes));
	for (uint32_t i = count; i > set->node_count; i--) {
		set->nodes[i - 1].newer = set->unused;
		set->unused = i - 1;
	}
	set->node_count = count;
	set->index = memory_resize(set->index, ((size_t)mask + 1) * sizeof(*set->index));
	set->index_mask = mask;
	memset(set->index, 0xff, ((size_t)mask + 1) * sizeof(*set->index));
	for (uint32_t node = set->oldest; node != NO_NODE; node = set->nodes[node].newer) {
		set->index[position_of(set, set->nodes[node].key)] = node;
	}
}

/* ---- the order of use ---- */

static void unlink_node(struct block_set *set, uint32_t node)
{
	uint32_t older = set->nodes[node].older, newer = set->nodes[node].newer;

	*(older == NO_NODE ? &set->oldest : &set->nodes[older].newer) = newer;
	*(newer == NO_NODE ? &set->newest : &set->nodes[newer].older) = older;
}

static void link_newest(struct block_set *set, uint32_t node)
{
	set->nodes[node].older = set->newest;
	set->nodes[node].newer = NO_NODE;
	*(set->newest == NO_NODE ? &set->oldest : &set->nodes[set->newest].newer) = node;
	set->newest = node;
}

static void drop(struct block_set *set, uint32_t node)
{
	index_remove(set, position_of(set, set->nodes[node].key));
	unlink_node(set, node);
	set->nodes[node].newer = set->unused;
	set->unused = node;
	set->count--;
}

/* ---- sets ---- */

void block_set_init(struct block_set *set, uint32_t capacity, uint64_t ttl_ns)
{
	*set = (struct block_set){.capacity = capacity,
		.ttl_ns = ttl_ns,
		.oldest = NO_NODE,
		.newest = NO_NODE,
		.unused = NO_NODE};
}

void block_set_deinit(struct block_set *set)
{
	free(set->nodes);
	free(set->index);
	memset(set, 0, sizeof(*set));
}

static bool is_fresh(const struct block_set *set, uint32_t node, uint64_t now_ns)
{
	return set->ttl_ns == 0 || now_ns - set->nodes[node].used_ns <= set->ttl_ns;
}

uint32_t block_set_match(
	const struct block_set *set, const struct block_key *keys, uint32_t count, uint64_t now_ns)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t node = find(set, keys[i]);
		if (node == NO_NODE || !is_fresh(set, node, now_ns)) {
			return i;
		}
	}
	return count;
}

static void add_one(struct block_set *set, struct block_key key, uint64_t now_ns)
{
	uint32_t node = find(set, key);

	if (node != NO_NODE) {
		unlink_node(set, node);
	} else {
		if (set->capacity > 0 && set->count == set->capacity) {
			drop(set, set->oldest);
		}
		if (set->unused == NO_NODE) {
			grow(set);
		}
		node = set->unused;
		set->unused = set->nodes[node].newer;
		set->nodes[node].key = key;
		set->index[position_of(set, key)] = node;
		set->count++;
	}
	set->nodes[node].used_ns = now_ns;
	link_newest(set, node);
}

void block_set_add(
	struct block_set *set, const struct block_key *keys, uint32_t count, uint64_t now_ns)
{
	while (set->ttl_ns > 0 && set->count > 0 && !is_fresh(set, set->oldest, now_ns)) {
		drop(set, set->oldest);
	}
	for (uint32_t i = count; i > 0; i--) {
		add_one(set, keys[i - 1], now_ns);
	}
}

void block_set_remove(struct block_set *set, struct block_key key)
{
	uint32_t node = find(set, key);

	if (node != NO_NODE) {
		drop(set, node);
	}
}

void block_set_shrink(struct block_set *set, uint32_t count)
{
	while (set->count > count) {
		drop(set, set->oldest);
	}
}
