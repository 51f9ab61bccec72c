#include "tests/models/block_model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/require.h"

void block_model_init(struct block_model *model, uint32_t block_count, uint32_t block_size)
{
	require(block_count <= BLOCK_MODEL_BLOCKS, "the model has no room for so many blocks");
	memset(model, 0, sizeof(*model));
	model->block_count = block_count;
	model->block_size = block_size;
	model->entries = calloc(block_count, sizeof(struct block_model_entry));
	require(model->entries != NULL, "out of memory");
	for (uint32_t i = 0; i < block_count; i++) {
		model->free_list[model->free_count++] = i;
	}
}

void block_model_deinit(struct block_model *model)
{
	free(model->entries);
}

bool block_model_is_free(const struct block_model *model, uint32_t block)
{
	for (uint32_t i = 0; i < model->free_count; i++) {
		if (model->free_list[i] == block) {
			return true;
		}
	}
	return false;
}

static void free_list_remove(struct block_model *model, uint32_t block)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < model->free_count; i++) {
		if (model->free_list[i] != block) {
			model->free_list[kept++] = model->free_list[i];
		}
	}
	require(kept + 1 == model->free_count, "the model's free list is broken");
	model->free_count = kept;
}

uint32_t block_model_take(struct block_model *model)
{
	require(model->free_count > 0, "the model has no free block to take");
	uint32_t block = model->free_list[0];
	free_list_remove(model, block);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < model->entry_count; i++) {
		if (model->entries[i].block != block) {
			model->entries[kept++] = model->entries[i];
		}
	}
	model->has_evicted[block] = kept < model->entry_count;
	model->entry_count = kept;
	model->references[block] = 1;
	return block;
}

void block_model_share(struct block_model *model, uint32_t block)
{
	if (model->references[block] == 0) {
		free_list_remove(model, block);
	}
	model->references[block]++;
}

void block_model_release(struct block_model *model, uint32_t block)
{
	require(model->references[block] > 0, "the model releases a free block");
	model->references[block]--;
	if (model->references[block] == 0) {
		model->free_list[model->free_count++] = block;
	}
}

static struct block_model_entry *entry_of(
	const struct block_model *model, const int32_t *tokens, uint32_t token_count)
{
	for (uint32_t i = 0; i < model->entry_count; i++) {
		struct block_model_entry *entry = &model->entries[i];
		if (entry->token_count == token_count &&
			memcmp(entry->tokens, tokens, token_count * sizeof(*tokens)) == 0) {
			return entry;
		}
	}
	return NULL;
}

uint32_t block_model_find(
	const struct block_model *model, const int32_t *tokens, uint32_t token_count)
{
	const struct block_model_entry *entry = entry_of(model, tokens, token_count);
	return entry == NULL ? BLOCK_NONE : entry->block;
}

void block_model_register(
	struct block_model *model, uint32_t block, const int32_t *tokens, uint32_t token_count)
{
	require(token_count <= BLOCK_MODEL_TOKENS, "the model has no room for so many tokens");
	require(model->references[block] > 0, "a free block is being registered");
	struct block_model_entry *entry = entry_of(model, tokens, token_count);
	if (entry == NULL) {
		require(model->entry_count < model->block_count, "more entries than blocks");
		entry = &model->entries[model->entry_count++];
		entry->token_count = token_count;
		memcpy(entry->tokens, tokens, token_count * sizeof(*tokens));
	}
	entry->block = block;
}

uint32_t block_model_cached_free_count(const struct block_model *model)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < model->entry_count; i++) {
		count += model->references[model->entries[i].block] == 0;
	}
	return count;
}

uint32_t block_model_hits(
	const struct block_model *model, const int32_t *tokens, uint32_t token_count)
{
	uint32_t hits = 0;
	/* The block after `hits` others must end before the last token. */
	while ((hits + 1) * model->block_size < token_count &&
		block_model_find(model, tokens, (hits + 1) * model->block_size) != BLOCK_NONE) {
		hits++;
	}
	return hits;
}

static uint32_t blocks_for(const struct block_model *model, uint32_t token_count)
{
	uint32_t count = 0;
	while (count * model->block_size < token_count) {
		count++;
	}
	return count;
}

bool block_model_can_allocate(const struct block_model *model, const int32_t *tokens,
	uint32_t token_count, uint32_t hit_count)
{
	uint32_t needed = blocks_for(model, token_count) - hit_count;
	for (uint32_t i = 0; i < hit_count; i++) {
		uint32_t block = block_model_find(model, tokens, (i + 1) * model->block_size);
		needed += model->references[block] == 0;
	}
	return needed <= model->free_count;
}

void block_model_allocate(struct block_model *model, struct block_model_table *table,
	const int32_t *tokens, uint32_t token_count, uint32_t hit_count)
{
	table->count = 0;
	for (uint32_t i = 0; i < hit_count; i++) {
		uint32_t block = block_model_find(model, tokens, (i + 1) * model->block_size);
		block_model_share(model, block);
		table->blocks[table->count++] = block;
	}
	while (table->count < blocks_for(model, token_count)) {
		table->blocks[table->count++] = block_model_take(model);
	}
}

void block_model_register_filled(struct block_model *model, const struct block_model_table *table,
	const int32_t *tokens, uint32_t first, uint32_t end)
{
	for (uint32_t i = 0; i < table->count; i++) {
		uint32_t full = (i + 1) * model->block_size;
		if (full > first && full <= end) {
			block_model_register(model, table->blocks[i], tokens, full);
		}
	}
}

void block_model_release_all(struct block_model *model, struct block_model_table *table)
{
	while (table->count > 0) {
		table->count--;
		block_model_release(model, table->blocks[table->count]);
	}
}

void block_model_require_same(const struct block_model *model, const struct block_manager *real)
{
	block_manager_check(real);
	require_equal(real->free_count, model->free_count);
	require_equal(real->registered_count, model->entry_count);
	require_equal(real->cached_free_count, block_model_cached_free_count(model));
	require_equal(block_manager_used_count(real), model->block_count - model->free_count);
	for (uint32_t i = 0; i < model->block_count; i++) {
		require(real->blocks[i].reference_count == model->references[i],
			"block %u has %u references, the model counts %u", i,
			real->blocks[i].reference_count, model->references[i]);
		require_equal(real->blocks[i].is_free, block_model_is_free(model, i));
		require_equal(real->blocks[i].has_evicted, model->has_evicted[i]);
	}
	uint32_t block = real->free_head;
	for (uint32_t i = 0; i < model->free_count; i++) {
		require(block == model->free_list[i], "place %u of the free list has %u, not %u", i,
			block, model->free_list[i]);
		block = real->links[block].next;
	}
	require_equal(block, BLOCK_NONE);
}
