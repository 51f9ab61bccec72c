#ifndef TESTS_MODELS_BLOCK_MODEL_H
#define TESTS_MODELS_BLOCK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/block_manager.h"

/* A naive block manager: arrays, linear search, and whole prefixes compared token by token where
   the real one compares hashes. It shares no code with the real one but the constant BLOCK_NONE.

   Content is "these tokens from the first on". The index is a list of (content, block) without
   duplicate content; registering content that is listed re-points its entry. */

enum {
	BLOCK_MODEL_BLOCKS = 512, /* limits of the arrays: tests are small */
	BLOCK_MODEL_TOKENS = 512,
};

struct block_model_entry {
	uint32_t block;
	uint32_t token_count;		    /* (block index + 1) * block_size */
	int32_t tokens[BLOCK_MODEL_TOKENS]; /* (token_count) the whole prefix */
};

struct block_model {
	uint32_t block_count;
	uint32_t block_size;
	uint32_t references[BLOCK_MODEL_BLOCKS];
	bool has_evicted[BLOCK_MODEL_BLOCKS];	/* an entry was lost when it was last taken */
	uint32_t free_list[BLOCK_MODEL_BLOCKS]; /* (free_count) first is next */
	uint32_t free_count;
	struct block_model_entry *entries; /* (entry_count) of at most block_count */
	uint32_t entry_count;
};

/* A block table of the model. */
struct block_model_table {
	uint32_t blocks[BLOCK_MODEL_BLOCKS];
	uint32_t count;
};

void block_model_init(struct block_model *model, uint32_t block_count, uint32_t block_size);
void block_model_deinit(struct block_model *model);

uint32_t block_model_take(struct block_model *model);
void block_model_share(struct block_model *model, uint32_t block);
void block_model_release(struct block_model *model, uint32_t block);

/* The block that was registered last with these tokens, or BLOCK_NONE. */
uint32_t block_model_find(
	const struct block_model *model, const int32_t *tokens, uint32_t token_count);
void block_model_register(
	struct block_model *model, uint32_t block, const int32_t *tokens, uint32_t token_count);

bool block_model_is_free(const struct block_model *model, uint32_t block);
uint32_t block_model_cached_free_count(const struct block_model *model);

/* Leading blocks of a prompt of token_count tokens that are cached; never all of it. */
uint32_t block_model_hits(
	const struct block_model *model, const int32_t *tokens, uint32_t token_count);

/* Whether the rest of a prompt fits beside its hits: free blocks that are hit are spent too. */
bool block_model_can_allocate(const struct block_model *model, const int32_t *tokens,
	uint32_t token_count, uint32_t hit_count);
void block_model_allocate(struct block_model *model, struct block_model_table *table,
	const int32_t *tokens, uint32_t token_count, uint32_t hit_count);

/* Registers the blocks that are full at `end` tokens and were not at `first`. */
void block_model_register_filled(struct block_model *model, const struct block_model_table *table,
	const int32_t *tokens, uint32_t first, uint32_t end);

void block_model_release_all(struct block_model *model, struct block_model_table *table);

/* Demands that the real one's books say the same: every block, the free list in order, the index,
   the counts; and that its own check passes. */
void block_model_require_same(const struct block_model *model, const struct block_manager *real);

#endif
