#include "engine/block_manager.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/sequence.h"

#include <stdlib.h>
#include <string.h>

/* ---- free list ---- */

static inline void free_list_append(struct block_manager *manager, uint32_t id)
{
	struct block_link *links = manager->links;

	manager->blocks[id].is_free = true;
	links[id] = (struct block_link){.previous = manager->free_tail, .next = BLOCK_NONE};
	if (manager->free_tail == BLOCK_NONE) {
		manager->free_head = id;
	} else {
		links[manager->free_tail].next = id;
	}
	manager->free_tail = id;
	manager->free_count++;
}

static void free_list_prepend(struct block_manager *manager, uint32_t id)
{
	struct block_link *links = manager->links;

	manager->blocks[id].is_free = true;
	links[id] = (struct block_link){.previous = BLOCK_NONE, .next = manager->free_head};
	if (manager->free_head == BLOCK_NONE) {
		manager->free_tail = id;
	} else {
		links[manager->free_head].previous = id;
	}
	manager->free_head = id;
	manager->free_count++;
}

static inline void free_list_remove(struct block_manager *manager, uint32_t id)
{
	struct block_link *links = manager->links;
	const struct block_link link = links[id];

	if (link.previous == BLOCK_NONE) {
		manager->free_head = link.next;
	} else {
		links[link.previous].next = link.next;
	}
	if (link.next == BLOCK_NONE) {
		manager->free_tail = link.previous;
	} else {
		links[link.next].previous = link.previous;
	}
	manager->blocks[id].is_free = false;
	manager->free_count--;
}

/* The same for the head of a list that is not empty. */
static inline uint32_t free_list_take(struct block_manager *manager)
{
	uint32_t id = manager->free_head;

	check(id != BLOCK_NONE);
	uint32_t next = manager->links[id].next;
	manager->free_head = next;
	if (next == BLOCK_NONE) {
		manager->free_tail = BLOCK_NONE;
	} else {
		manager->links[next].previous = BLOCK_NONE;
	}
	manager->blocks[id].is_free = false;
	manager->free_count--;
	return id;
}

/* ---- the pile of EVICTION_FIFO and EVICTION_RANDOM ---- */

static bool pile_precedes(const struct block_manager *manager, uint32_t a, uint32_t b)
{
	uint64_t first = manager->places[a].registration;
	uint64_t second = manager->places[b].registration;

	if (manager->strategies.eviction == EVICTION_RANDOM) {
		return false; /* no order: blocks stay where they are put */
	}
	return first < second || (first == second && a < b);
}

static void pile_put(struct block_manager *manager, uint32_t index, uint32_t id)
{
	manager->pile[index] = id;
	manager->places[id].index = index;
}

/* Puts a block at an index or above or below it, where the heap has its place. */
static void pile_place(struct block_manager *manager, uint32_t index, uint32_t id)
{
	uint32_t *pile = manager->pile;

	for (; index > 0 && pile_precedes(manager, id, pile[(index - 1) / 2]);
		index = (index - 1) / 2) {
		pile_put(manager, index, pile[(index - 1) / 2]);
	}
	for (uint32_t child = 2 * index + 1; child < manager->pile_count; child = 2 * index + 1) {
		if (child + 1 < manager->pile_count &&
			pile_precedes(manager, pile[child + 1], pile[child])) {
			child++;
		}
		if (!pile_precedes(manager, pile[child], id)) {
			break;
		}
		pile_put(manager, index, pile[child]);
		index = child;
	}
	pile_put(manager, index, id);
}

static void pile_add(struct block_manager *manager, uint32_t id)
{
	manager->blocks[id].is_free = true;
	manager->free_count++;
	manager->pile_count++;
	pile_place(manager, manager->pile_count - 1, id);
}

static void pile_remove(struct block_manager *manager, uint32_t id)
{
	uint32_t index = manager->places[id].index;
	uint32_t last = manager->pile[--manager->pile_count];

	manager->blocks[id].is_free = false;
	manager->places[id].index = BLOCK_NONE;
	manager->free_count--;
	if (last != id) {
		pile_place(manager, index, last);
	}
}

/* ---- free blocks, on the list or the pile ---- */

static inline void free_join(struct block_manager *manager, uint32_t id)
{
	const struct block_strategies *own = &manager->strategies;

	if (own->free_order == FREE_UNHASHED_FIRST && !manager->blocks[id].is_registered) {
		free_list_prepend(manager, id);
	} else if (manager->pile == NULL) {
		free_list_append(manager, id);
	} else {
		pile_add(manager, id);
	}
}

static inline void free_leave(struct block_manager *manager, uint32_t id)
{
	if (manager->pile == NULL || manager->places[id].index == BLOCK_NONE) {
		free_list_remove(manager, id);
	} else {
		pile_remove(manager, id);
	}
}

/* Takes the block that is given out next. */
static inline uint32_t free_take(struct block_manager *manager)
{
	uint32_t id;

	if (manager->pile == NULL || manager->free_head != BLOCK_NONE || manager->pile_count == 0) {
		return free_list_take(manager);
	}
	id = manager->strategies.eviction == EVICTION_FIFO
		     ? manager->pile[0]
		     : manager->pile[counter_hash(0, manager->given_count) % manager->pile_count];
	pile_remove(manager, id);
	return id;
}

/* ---- index: key to block ---- */

static inline uint32_t *bucket_of(const struct block_manager *manager, uint64_t low)
{
	return &manager->buckets[low & manager->bucket_mask];
}

/* The link to the indexed block of a low half, or the one at which its bucket ends. */
static inline uint32_t *link_of(const struct block_manager *manager, uint64_t low)
{
	uint32_t *link = bucket_of(manager, low);

	while (*link != BLOCK_NONE && manager->blocks[*link].key.low != low) {
		link = &manager->blocks[*link].next_indexed;
	}
	return link;
}

static inline void index_remove(struct block_manager *manager, struct block *block)
{
	uint32_t *link = link_of(manager, block->key.low);

	*link = block->next_indexed;
	block->is_indexed = false;
	manager->registered_count--;
}

/* ---- EQUAL_OLDEST: the blocks behind the one in the index ---- */

static void equal_append(struct block_manager *manager, uint32_t first, uint32_t id)
{
	struct block_equals *equals = manager->equals;
	uint32_t last = equals[first].previous;

	equals[last].next = id;
	equals[id].previous = last;
	equals[first].previous = id;
}

/* Removes an indexed block; the next one takes its place in the index. */
static void equal_remove(struct block_manager *manager, uint32_t id)
{
	struct block *blocks = manager->blocks;
	struct block_equals *equals = manager->equals;
	uint32_t *link = link_of(manager, blocks[id].key.low);
	uint32_t first = *link;
	uint32_t previous = equals[id].previous;
	uint32_t next = equals[id].next;

	if (first == id && next == BLOCK_NONE) {
		index_remove(manager, &blocks[id]);
	} else if (first == id) {
		*link = next;
		blocks[next].next_indexed = blocks[id].next_indexed;
		equals[next].previous = previous;
	} else {
		equals[previous].next = next;
		equals[next == BLOCK_NONE ? first : next].previous = previous;
	}
	blocks[id].is_indexed = false;
}

/* ---- blocks ---- */

void block_manager_init(struct block_manager *manager, uint32_t block_count, uint32_t block_size,
	struct block_strategies strategies)
{
	check(block_count >= 1u + strategies.has_null_block);
	check(block_size >= 1);
	memset(manager, 0, sizeof(*manager));
	manager->block_count = block_count;
	manager->block_size = block_size;
	manager->strategies = strategies;
	manager->blocks = memory_take(block_count, sizeof(struct block));
	manager->links = memory_take(block_count, sizeof(struct block_link));
	if (strategies.equal_blocks == EQUAL_OLDEST) {
		manager->equals = memory_take(block_count, sizeof(*manager->equals));
	}
	manager->free_head = BLOCK_NONE;
	manager->free_tail = BLOCK_NONE;
	/* The null block is in use for ever. */
	manager->blocks[0].reference_count = strategies.has_null_block;
	if (strategies.eviction != EVICTION_LRU) {
		manager->pile = memory_take(block_count, sizeof(*manager->pile));
		manager->places = memory_take(block_count, sizeof(*manager->places));
		manager->places[0].index = BLOCK_NONE;
	}
	for (uint32_t id = strategies.has_null_block; id < block_count; id++) {
		if (manager->pile == NULL) {
			free_list_append(manager, id);
		} else {
			pile_add(manager, id);
		}
	}
	/* A bucket a block at least, so that most lists have one block at most. */
	uint64_t buckets = u64_power_of_two_at_least(block_count);
	manager->buckets = memory_take_uncleared(buckets * sizeof(*manager->buckets));
	manager->bucket_mask = buckets - 1;
	for (uint64_t i = 0; i < buckets; i++) {
		manager->buckets[i] = BLOCK_NONE;
	}
}

void block_manager_deinit(struct block_manager *manager)
{
	free(manager->blocks);
	free(manager->links);
	free(manager->buckets);
	free(manager->pile);
	free(manager->places);
	free(manager->equals);
	memset(manager, 0, sizeof(*manager));
}

static void log_change(struct block_log *log, struct block_key key, bool is_added)
{
	log->changes =
		memory_grow(log->changes, &log->capacity, log->count + 1, sizeof(*log->changes));
	log->changes[log->count++] = (struct block_change){.key = key, .is_added = is_added};
}

/* Makes a free block one in use, whose old content cannot be found any more. */
static inline void renew(struct block_manager *manager, uint32_t id)
{
	struct block *block = &manager->blocks[id];

	check(block->reference_count == 0);
	block->has_evicted = block->is_indexed;
	if (block->is_indexed) {
		if (manager->strategies.equal_blocks == EQUAL_OLDEST) {
			equal_remove(manager, id);
		} else {
			index_remove(manager, block);
		}
		manager->cached_free_count--;
		if (manager->log != NULL && block_manager_find(manager, block->key) == BLOCK_NONE) {
			log_change(manager->log, block->key, false);
		}
	}
	block->is_registered = false;
	block->reference_count = 1;
}

static inline uint32_t pop_free(struct block_manager *manager)
{
	uint32_t id = free_take(manager);

	renew(manager, id);
	if (manager->pile != NULL) {
		manager->places[id].registration = 0;
		manager->given_count++;
	}
	manager->version++;
	return id;
}

/* Takes `count` blocks from the head of the free list into a table, where there is no pile. */
static void take_from_list(struct block_manager *manager, uint32_t *table, uint32_t count)
{
	uint32_t head = manager->free_head;

	check(count <= manager->free_count);
	for (uint32_t i = 0; i < count; i++) {
		renew(manager, head);
		manager->blocks[head].is_free = false;
		table[i] = head;
		head = manager->links[head].next;
	}
	manager->free_head = head;
	if (head == BLOCK_NONE) {
		manager->free_tail = BLOCK_NONE;
	} else {
		manager->links[head].previous = BLOCK_NONE;
	}
	manager->free_count -= count;
	manager->version++;
}

uint32_t block_manager_pop_free(struct block_manager *manager)
{
	return pop_free(manager);
}

void block_manager_share(struct block_manager *manager, uint32_t id)
{
	check(id < manager->block_count);
	struct block *block = &manager->blocks[id];
	if (block->is_free) {
		manager->cached_free_count -= block->is_indexed;
		free_leave(manager, id);
	}
	block->reference_count++;
	manager->version++;
}

static inline void release(struct block_manager *manager, uint32_t id)
{
	check(id < manager->block_count);
	struct block *block = &manager->blocks[id];
	check(block->reference_count > 0);
	block->reference_count--;
	manager->version++;
	if (block->reference_count > 0) {
		return;
	}
	free_join(manager, id);
	manager->cached_free_count += block->is_indexed;
}

void block_manager_release(struct block_manager *manager, uint32_t id)
{
	release(manager, id);
}

uint32_t block_manager_find(const struct block_manager *manager, struct block_key key)
{
	uint32_t id = *link_of(manager, key.low);

	if (id == BLOCK_NONE || !block_key_equal(manager->blocks[id].key, key)) {
		return BLOCK_NONE;
	}
	return id;
}

/* Enters blocks in use into the index. ids, keys: (count). */
static inline void register_blocks(struct block_manager *manager, const uint32_t *ids,
	const struct block_key *keys, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = ids[i];
		check(id < manager->block_count);
		struct block *block = &manager->blocks[id];
		check(block->reference_count > 0);
		check(!block->is_registered);
		uint32_t *link = link_of(manager, keys[i].low);
		block->next_indexed = BLOCK_NONE;
		if (manager->equals != NULL) {
			manager->equals[id] = (struct block_equals){id, BLOCK_NONE};
		}
		if (*link == BLOCK_NONE) {
			manager->registered_count++;
			*link = id;
			if (manager->log != NULL) {
				log_change(manager->log, keys[i], true);
			}
		} else if (manager->strategies.equal_blocks == EQUAL_OLDEST) {
			equal_append(manager, *link, id);
		} else {
			struct block *older = &manager->blocks[*link];
			manager->cached_free_count -= older->is_free;
			older->is_indexed = false;
			block->next_indexed = older->next_indexed;
			*link = id;
		}
		block->key = keys[i];
		block->is_registered = true;
		block->is_indexed = true;
		if (manager->pile != NULL) {
			manager->places[id].registration = ++manager->registration_count;
		}
	}
	manager->version++;
}

void block_manager_register(struct block_manager *manager, uint32_t id, struct block_key key)
{
	register_blocks(manager, &id, &key, 1);
}

/* ---- sequences ---- */

uint32_t block_manager_probe(const struct block_manager *manager, struct sequence *sequence)
{
	uint32_t limit = sequence_max_hit_blocks(sequence, manager->block_size);
	uint32_t hits = 0;

	while (hits < limit) {
		struct block_key key = sequence_block_key(sequence, hits, manager->block_size);
		if (block_manager_find(manager, key) == BLOCK_NONE) {
			break;
		}
		hits++;
	}
	return hits;
}

static uint32_t blocks_of(const struct block_manager *manager, uint32_t token_count)
{
	return (token_count + manager->block_size - 1) / manager->block_size;
}

bool block_manager_can_allocate(const struct block_manager *manager, struct sequence *sequence,
	uint32_t hit_count, uint32_t token_count, uint32_t spare)
{
	uint32_t needed = blocks_of(manager, token_count) - hit_count + spare;

	if (needed > manager->free_count) {
		return false;
	}
	for (uint32_t i = 0; i < hit_count; i++) {
		struct block_key key = sequence_block_key(sequence, i, manager->block_size);
		uint32_t id = block_manager_find(manager, key);
		if (manager->blocks[id].is_free && ++needed > manager->free_count) {
			return false;
		}
	}
	return true;
}

void block_manager_allocate(struct block_manager *manager, struct sequence *sequence,
	uint32_t hit_count, uint32_t token_count)
{
	uint32_t count = blocks_of(manager, token_count);

	check(sequence->block_count == 0);
	check(hit_count <= sequence_max_hit_blocks(sequence, manager->block_size));
	check(hit_count <= count && token_count <= sequence->token_count);
	for (uint32_t i = 0; i < hit_count; i++) {
		struct block_key key = sequence_block_key(sequence, i, manager->block_size);
		uint32_t id = block_manager_find(manager, key);
		check(id != BLOCK_NONE);
		block_manager_share(manager, id);
		sequence->block_table[i] = id;
	}
	if (manager->pile == NULL) {
		take_from_list(manager, sequence->block_table + hit_count, count - hit_count);
	} else {
		for (uint32_t i = hit_count; i < count; i++) {
			sequence->block_table[i] = pop_free(manager);
		}
	}
	sequence->block_count = count;
	sequence->registered_count = hit_count;
	sequence->cached_count = hit_count * manager->block_size;
}

void block_manager_store(
	struct block_manager *manager, struct sequence *sequence, uint32_t token_count)
{
	uint32_t limit = sequence_max_hit_blocks(sequence, manager->block_size);
	uint32_t count = u32_min(token_count / manager->block_size, limit);
	uint32_t stored = count * manager->block_size;

	if (count == 0) {
		return;
	}
	uint32_t hits = u32_min(block_manager_probe(manager, sequence), count);
	if (block_manager_can_allocate(manager, sequence, hits, stored, 0)) {
		block_manager_allocate(manager, sequence, hits, stored);
		block_manager_register_up_to(manager, sequence, stored);
		block_manager_release_all(manager, sequence);
		sequence->cached_count = 0;
	}
}

uint32_t block_manager_missing(
	const struct block_manager *manager, const struct sequence *sequence, uint32_t token_count)
{
	uint32_t needed = blocks_of(manager, token_count);

	return needed > sequence->block_count ? needed - sequence->block_count : 0;
}

void block_manager_append(struct block_manager *manager, struct sequence *sequence)
{
	sequence->block_table[sequence->block_count++] = pop_free(manager);
}

void block_manager_register_up_to(
	struct block_manager *manager, struct sequence *sequence, uint32_t token_count)
{
	uint32_t first = sequence->registered_count;
	uint32_t end = token_count / manager->block_size;

	check(end <= sequence->block_count);
	if (end > first) {
		sequence_block_key(sequence, end - 1, manager->block_size); /* makes all before */
		register_blocks(manager, sequence->block_table + first,
			sequence->block_keys + first, end - first);
		sequence->registered_count = end;
	}
}

/* Releases blocks, the last one first, all of which join the tail of the free list. As release(),
   with the ends of the list at hand: most blocks of a pool are released here. */
static void release_to_tail(struct block_manager *manager, const uint32_t *table, uint32_t count)
{
	struct block *blocks = manager->blocks;
	uint32_t tail = manager->free_tail;
	uint32_t *link = tail == BLOCK_NONE ? &manager->free_head : &manager->links[tail].next;
	uint32_t freed = 0;
	uint32_t cached = 0;

	for (uint32_t i = count; i > 0; i--) {
		uint32_t id = table[i - 1];
		check(id < manager->block_count);
		struct block *block = &blocks[id];
		check(block->reference_count > 0);
		if (--block->reference_count > 0) {
			continue;
		}
		*link = id;
		link = &manager->links[id].next;
		manager->links[id].previous = tail;
		block->is_free = true;
		tail = id;
		freed++;
		cached += block->is_indexed;
	}
	*link = BLOCK_NONE;
	manager->free_tail = tail;
	manager->free_count += freed;
	manager->cached_free_count += cached;
	manager->version++;
}

void block_manager_release_all(struct block_manager *manager, struct sequence *sequence)
{
	uint32_t count = sequence->block_count;

	if (manager->strategies.free_order == FREE_UNHASHED_FIRST) {
		count = sequence->registered_count;
		for (uint32_t i = count; i < sequence->block_count; i++) {
			release(manager, sequence->block_table[i]);
		}
	}
	if (manager->pile == NULL) {
		release_to_tail(manager, sequence->block_table, count);
		count = 0;
	}
	while (count > 0) {
		release(manager, sequence->block_table[--count]);
	}
	sequence->block_count = 0;
	sequence->registered_count = 0;
}

/* ---- invariants ---- */

static void free_list_check(const struct block_manager *manager)
{
	uint32_t count = 0;
	uint32_t cached = 0;
	uint32_t previous = BLOCK_NONE;

	for (uint32_t id = manager->free_head; id != BLOCK_NONE; id = manager->links[id].next) {
		check(id < manager->block_count);
		check(count < manager->free_count);
		check(manager->blocks[id].is_free);
		check(manager->blocks[id].reference_count == 0);
		check(manager->links[id].previous == previous);
		cached += manager->blocks[id].is_indexed;
		previous = id;
		count++;
	}
	check(manager->free_tail == previous);
	for (uint32_t i = 0; i < manager->pile_count; i++) {
		uint32_t id = manager->pile[i];
		check(manager->blocks[id].is_free);
		check(manager->blocks[id].reference_count == 0);
		check(manager->places[id].index == i);
		check(i == 0 || !pile_precedes(manager, id, manager->pile[(i - 1) / 2]));
		cached += manager->blocks[id].is_indexed;
	}
	check(manager->free_count == count + manager->pile_count);
	check(manager->cached_free_count == cached);
}

/* The blocks behind an indexed one are indexed, have its key's low half and are linked both ways;
   returns their number with it. */
static uint32_t equal_check(const struct block_manager *manager, uint32_t first)
{
	const struct block *blocks = manager->blocks;
	uint32_t count = 0;
	uint32_t last = first;

	if (manager->equals == NULL) {
		return 1;
	}
	for (uint32_t id = first; id != BLOCK_NONE; id = manager->equals[id].next) {
		check(count < manager->block_count);
		check(blocks[id].is_indexed);
		check(blocks[id].key.low == blocks[first].key.low);
		check(id == first || manager->equals[id].previous == last);
		last = id;
		count++;
	}
	check(manager->equals[first].previous == last);
	return count;
}

/* Every list ends, and holds blocks of its bucket with different low halves. */
static void index_check(const struct block_manager *manager, uint32_t indexed_count)
{
	uint32_t count = 0;
	uint32_t equal_count = 0;

	for (uint64_t i = 0; i <= manager->bucket_mask; i++) {
		for (uint32_t id = manager->buckets[i]; id != BLOCK_NONE;
			id = manager->blocks[id].next_indexed) {
			check(id < manager->block_count);
			check(count < manager->registered_count);
			const struct block *block = &manager->blocks[id];
			check(block->is_indexed);
			check((block->key.low & manager->bucket_mask) == i);
			check(*link_of(manager, block->key.low) == id);
			equal_count += equal_check(manager, id);
			count++;
		}
	}
	check(count == manager->registered_count);
	check(equal_count == indexed_count);
}

void block_manager_check(const struct block_manager *manager)
{
	uint32_t free_count = 0;
	uint32_t indexed_count = 0;

	free_list_check(manager);
	for (uint32_t id = 0; id < manager->block_count; id++) {
		const struct block *block = &manager->blocks[id];
		check(block->is_free == (block->reference_count == 0));
		free_count += block->is_free;
		check(id > 0 || !manager->strategies.has_null_block || !block->is_free);
		check(manager->strategies.equal_blocks == EQUAL_NEWEST ||
			block->is_indexed == block->is_registered);
		check(block->is_registered || !block->is_indexed);
		indexed_count += block->is_indexed;
	}
	check(free_count == manager->free_count);
	index_check(manager, indexed_count);
}
