#include "engine/block_manager.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/sequence.h"

#include <stdlib.h>
#include <string.h>

/* ---- free list ---- */

static void free_list_append(struct block_manager *manager, uint32_t id)
{
	struct block *block = &manager->blocks[id];

	block->is_free = true;
	block->previous = manager->free_tail;
	block->next = BLOCK_NONE;
	if (manager->free_tail == BLOCK_NONE) {
		manager->free_head = id;
	} else {
		manager->blocks[manager->free_tail].next = id;
	}
	manager->free_tail = id;
	manager->free_count++;
}

static void free_list_remove(struct block_manager *manager, uint32_t id)
{
	struct block *block = &manager->blocks[id];

	if (block->previous == BLOCK_NONE) {
		manager->free_head = block->next;
	} else {
		manager->blocks[block->previous].next = block->next;
	}
	if (block->next == BLOCK_NONE) {
		manager->free_tail = block->previous;
	} else {
		manager->blocks[block->next].previous = block->previous;
	}
	block->is_free = false;
	manager->free_count--;
}

/* ---- index: key to block ---- */

/* The entry of a hash, or the empty entry where it would be inserted. */
static uint64_t index_position(const struct block_manager *manager, uint64_t hash)
{
	uint64_t position = hash & manager->index_mask;

	while (manager->index[position].block != BLOCK_NONE &&
		manager->index[position].hash != hash) {
		position = (position + 1) & manager->index_mask;
	}
	return position;
}

/* Empties an entry and moves back the entries behind it that would no longer be reached. */
static void index_remove(struct block_manager *manager, uint64_t position)
{
	uint64_t mask = manager->index_mask;
	uint64_t hole = position;

	for (uint64_t next = (hole + 1) & mask; manager->index[next].block != BLOCK_NONE;
		next = (next + 1) & mask) {
		uint64_t home = manager->index[next].hash & mask;
		if (((next - home) & mask) >= ((next - hole) & mask)) {
			manager->index[hole] = manager->index[next];
			hole = next;
		}
	}
	manager->index[hole].block = BLOCK_NONE;
	manager->registered_count--;
}

/* ---- blocks ---- */

void block_manager_init(struct block_manager *manager, uint32_t block_count, uint32_t block_size)
{
	check(block_count >= 1);
	check(block_size >= 1);
	memset(manager, 0, sizeof(*manager));
	manager->block_count = block_count;
	manager->block_size = block_size;
	manager->blocks = memory_take(block_count, sizeof(struct block));
	manager->free_head = BLOCK_NONE;
	manager->free_tail = BLOCK_NONE;
	for (uint32_t id = 0; id < block_count; id++) {
		free_list_append(manager, id);
	}
	/* At most half full, so that runs of occupied entries stay short. */
	uint64_t entries = u64_power_of_two_at_least((uint64_t)block_count * 2);
	manager->index = memory_take(entries, sizeof(struct block_index_entry));
	manager->index_mask = entries - 1;
	for (uint64_t position = 0; position < entries; position++) {
		manager->index[position].block = BLOCK_NONE;
	}
}

void block_manager_deinit(struct block_manager *manager)
{
	free(manager->blocks);
	free(manager->index);
	memset(manager, 0, sizeof(*manager));
}

uint32_t block_manager_pop_free(struct block_manager *manager)
{
	uint32_t id = manager->free_head;

	check(id != BLOCK_NONE);
	struct block *block = &manager->blocks[id];
	check(block->reference_count == 0);
	if (block->is_indexed) {
		index_remove(manager, index_position(manager, block->key.low));
		manager->cached_free_count--;
	}
	block->is_indexed = false;
	block->is_registered = false;
	free_list_remove(manager, id);
	block->reference_count = 1;
	manager->version++;
	return id;
}

void block_manager_share(struct block_manager *manager, uint32_t id)
{
	check(id < manager->block_count);
	struct block *block = &manager->blocks[id];
	if (block->is_free) {
		manager->cached_free_count -= block->is_indexed;
		free_list_remove(manager, id);
	}
	manager->shared_count += block->reference_count > 0;
	manager->pair_count += block->reference_count;
	block->reference_count++;
	manager->version++;
}

void block_manager_release(struct block_manager *manager, uint32_t id)
{
	check(id < manager->block_count);
	struct block *block = &manager->blocks[id];
	check(block->reference_count > 0);
	block->reference_count--;
	manager->shared_count -= block->reference_count > 0;
	manager->pair_count -= block->reference_count;
	if (block->reference_count == 0) {
		free_list_append(manager, id);
		manager->cached_free_count += block->is_indexed;
	}
	manager->version++;
}

uint32_t block_manager_find(const struct block_manager *manager, struct block_key key)
{
	uint32_t id = manager->index[index_position(manager, key.low)].block;

	if (id == BLOCK_NONE || !block_key_equal(manager->blocks[id].key, key)) {
		return BLOCK_NONE;
	}
	return id;
}

void block_manager_register(struct block_manager *manager, uint32_t id, struct block_key key)
{
	check(id < manager->block_count);
	struct block *block = &manager->blocks[id];
	check(block->reference_count > 0);
	check(!block->is_registered);
	struct block_index_entry *entry = &manager->index[index_position(manager, key.low)];
	if (entry->block == BLOCK_NONE) {
		manager->registered_count++;
	} else {
		struct block *older = &manager->blocks[entry->block];
		manager->cached_free_count -= older->is_free;
		older->is_indexed = false;
	}
	entry->hash = key.low;
	entry->block = id;
	block->key = key;
	block->is_registered = true;
	block->is_indexed = true;
	manager->version++;
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

bool block_manager_can_allocate(
	const struct block_manager *manager, struct sequence *sequence, uint32_t hit_count)
{
	uint32_t needed = sequence_num_blocks(sequence, manager->block_size) - hit_count;

	if (needed > manager->free_count) {
		return false;
	}
	for (uint32_t i = 0; i < hit_count; i++) {
		struct block_key key = sequence_block_key(sequence, i, manager->block_size);
		uint32_t id = manager->index[index_position(manager, key.low)].block;
		if (manager->blocks[id].is_free && ++needed > manager->free_count) {
			return false;
		}
	}
	return true;
}

void block_manager_allocate(
	struct block_manager *manager, struct sequence *sequence, uint32_t hit_count)
{
	uint32_t count = sequence_num_blocks(sequence, manager->block_size);

	check(sequence->block_count == 0);
	check(hit_count <= sequence_max_hit_blocks(sequence, manager->block_size));
	for (uint32_t i = 0; i < hit_count; i++) {
		struct block_key key = sequence_block_key(sequence, i, manager->block_size);
		uint32_t id = block_manager_find(manager, key);
		check(id != BLOCK_NONE);
		block_manager_share(manager, id);
		sequence->block_table[i] = id;
	}
	for (uint32_t i = hit_count; i < count; i++) {
		sequence->block_table[i] = block_manager_pop_free(manager);
	}
	sequence->block_count = count;
	sequence->cached_count = hit_count * manager->block_size;
}

bool block_manager_can_append(const struct block_manager *manager, const struct sequence *sequence)
{
	return sequence_num_blocks(sequence, manager->block_size) <= sequence->block_count ||
	       manager->free_count > 0;
}

bool block_manager_append(struct block_manager *manager, struct sequence *sequence)
{
	uint32_t needed = sequence_num_blocks(sequence, manager->block_size);

	if (needed <= sequence->block_count) {
		return false;
	}
	check(needed == sequence->block_count + 1);
	sequence->block_table[sequence->block_count++] = block_manager_pop_free(manager);
	return true;
}

void block_manager_register_filled(
	struct block_manager *manager, struct sequence *sequence, uint32_t first, uint32_t count)
{
	uint32_t end = (first + count) / manager->block_size;

	check(end <= sequence->block_count);
	for (uint32_t i = first / manager->block_size; i < end; i++) {
		block_manager_register(manager, sequence->block_table[i],
			sequence_block_key(sequence, i, manager->block_size));
	}
}

void block_manager_release_all(struct block_manager *manager, struct sequence *sequence)
{
	while (sequence->block_count > 0) {
		block_manager_release(manager, sequence->block_table[--sequence->block_count]);
	}
}

/* ---- invariants ---- */

static void free_list_check(const struct block_manager *manager)
{
	uint32_t count = 0;
	uint32_t cached = 0;
	uint32_t previous = BLOCK_NONE;

	for (uint32_t id = manager->free_head; id != BLOCK_NONE; id = manager->blocks[id].next) {
		check(id < manager->block_count);
		check(count < manager->free_count);
		check(manager->blocks[id].is_free);
		check(manager->blocks[id].reference_count == 0);
		check(manager->blocks[id].previous == previous);
		cached += manager->blocks[id].is_indexed;
		previous = id;
		count++;
	}
	check(manager->free_tail == previous);
	check(manager->free_count == count);
	check(manager->cached_free_count == cached);
}

void block_manager_check(const struct block_manager *manager)
{
	uint32_t free_count = 0;
	uint32_t entry_count = 0;
	uint64_t shared_count = 0;
	uint64_t pair_count = 0;

	free_list_check(manager);
	for (uint32_t id = 0; id < manager->block_count; id++) {
		const struct block *block = &manager->blocks[id];
		check(block->is_free == (block->reference_count == 0));
		free_count += block->is_free;
		shared_count += block->is_free ? 0 : block->reference_count - 1;
		pair_count += block->is_free ? 0
					     : (uint64_t)block->reference_count *
						       (block->reference_count - 1) / 2;
		if (block->is_registered) {
			/* The index holds this block or a newer one with equal content, unless that
			   newer block was reused and its entry removed. */
			uint64_t position = index_position(manager, block->key.low);
			uint32_t found = manager->index[position].block;
			check(found == BLOCK_NONE || manager->blocks[found].is_registered);
			check(block->is_indexed == (found == id));
		}
		check(block->is_registered || !block->is_indexed);
	}
	check(free_count == manager->free_count);
	check(shared_count == manager->shared_count);
	check(pair_count == manager->pair_count);
	for (uint64_t position = 0; position <= manager->index_mask; position++) {
		const struct block_index_entry *entry = &manager->index[position];
		if (entry->block == BLOCK_NONE) {
			continue;
		}
		check(entry->block < manager->block_count);
		check(manager->blocks[entry->block].is_registered);
		check(manager->blocks[entry->block].key.low == entry->hash);
		check(index_position(manager, entry->hash) == position);
		entry_count++;
	}
	check(entry_count == manager->registered_count);
}
