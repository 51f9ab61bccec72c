#include <criterion/criterion.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/block_manager.h"
#include "engine/sequence.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/models/block_model.h"
#include "tests/harness/require.h"

/* ==== the index and the free list by themselves, with keys of the test's choosing ====

   Here keys are chosen numbers, so that equal and colliding ones are frequent. The model is the
   header's definition of the index: a list of (low half, block) with one entry per low half, the
   newest. */

enum { RAW_BLOCKS = 24 };

struct raw_model {
	uint32_t block_count;
	uint32_t references[RAW_BLOCKS];
	uint32_t free_list[RAW_BLOCKS];
	uint32_t free_count;
	bool is_registered[RAW_BLOCKS]; /* since it was given out */
	bool is_entry[RAW_BLOCKS];	/* the index points to it */
	struct block_key keys[RAW_BLOCKS];
};

static void raw_init(struct raw_model *model, struct block_manager *real, uint32_t block_count)
{
	memset(model, 0, sizeof(*model));
	model->block_count = block_count;
	for (uint32_t i = 0; i < block_count; i++) {
		model->free_list[model->free_count++] = i;
	}
	block_manager_init(real, block_count, 1, (struct block_strategies){0});
}

static uint32_t raw_entry(const struct raw_model *model, uint64_t low)
{
	for (uint32_t i = 0; i < model->block_count; i++) {
		if (model->is_entry[i] && model->keys[i].low == low) {
			return i;
		}
	}
	return BLOCK_NONE;
}

static uint32_t raw_find(const struct raw_model *model, struct block_key key)
{
	uint32_t block = raw_entry(model, key.low);
	return block != BLOCK_NONE && model->keys[block].high == key.high ? block : BLOCK_NONE;
}

static void raw_remove_free(struct raw_model *model, uint32_t block)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < model->free_count; i++) {
		if (model->free_list[i] != block) {
			model->free_list[kept++] = model->free_list[i];
		}
	}
	require_equal(kept + 1, model->free_count);
	model->free_count = kept;
}

static void raw_take(struct raw_model *model, struct block_manager *real)
{
	uint32_t block = model->free_list[0];
	raw_remove_free(model, block);
	model->references[block] = 1;
	model->is_entry[block] = false;
	model->is_registered[block] = false;
	require_equal(block_manager_pop_free(real), block);
}

static void raw_share(struct raw_model *model, struct block_manager *real, uint32_t block)
{
	if (model->references[block]++ == 0) {
		raw_remove_free(model, block);
	}
	block_manager_share(real, block);
}

static void raw_release(struct raw_model *model, struct block_manager *real, uint32_t block)
{
	if (--model->references[block] == 0) {
		model->free_list[model->free_count++] = block;
	}
	block_manager_release(real, block);
}

static void raw_register(
	struct raw_model *model, struct block_manager *real, uint32_t block, struct block_key key)
{
	uint32_t older = raw_entry(model, key.low);
	if (older != BLOCK_NONE) {
		model->is_entry[older] = false;
	}
	model->is_entry[block] = true;
	model->is_registered[block] = true;
	model->keys[block] = key;
	block_manager_register(real, block, key);
}

static void raw_same(const struct raw_model *model, const struct block_manager *real)
{
	uint32_t entries = 0;
	uint32_t cached_free = 0;
	block_manager_check(real);
	for (uint32_t i = 0; i < model->block_count; i++) {
		require_equal(real->blocks[i].reference_count, model->references[i]);
		entries += model->is_entry[i];
		cached_free += model->is_entry[i] && model->references[i] == 0;
		if (model->is_registered[i]) {
			require_equal(block_manager_find(real, model->keys[i]),
				raw_find(model, model->keys[i]));
		}
	}
	require_equal(real->registered_count, entries);
	require_equal(real->cached_free_count, cached_free);
	require_equal(real->free_count, model->free_count);
	uint32_t block = real->free_head;
	for (uint32_t i = 0; i < model->free_count; i++) {
		require_equal(block, model->free_list[i]);
		block = real->links[block].next;
	}
	require_equal(block, BLOCK_NONE);
}

/* Few low halves, so that they meet: equal ones, neighbours, ones that start at the same place of
   any table, and the ends of the range; and two high halves. */
static struct block_key draw_key(struct prop *prop)
{
	struct block_key key = {.high = prop_below(prop, 2)};
	uint32_t kind = (uint32_t)prop_below(prop, 4);
	uint64_t number = prop_below(prop, 8);
	key.low = kind == 0   ? number
		  : kind == 1 ? number << 32
		  : kind == 2 ? UINT64_MAX - number
			      : number * UINT64_C(0x9e3779b97f4a7c15);
	return key;
}

static uint32_t draw_used_block(struct prop *prop, const struct raw_model *model)
{
	uint32_t candidates[RAW_BLOCKS];
	uint32_t count = 0;
	for (uint32_t i = 0; i < model->block_count; i++) {
		if (model->references[i] > 0) {
			candidates[count++] = i;
		}
	}
	return count == 0 ? BLOCK_NONE : candidates[prop_below(prop, count)];
}

static void raw_operation(
	struct prop *prop, struct raw_model *model, struct block_manager *real, uint32_t operation)
{
	struct block_key key;
	uint32_t block;
	switch (operation) {
	case 0:
		if (model->free_count > 0) {
			prop_log(prop, "take %u", model->free_list[0]);
			raw_take(model, real);
		}
		break;
	case 1:
		block = draw_used_block(prop, model);
		if (block != BLOCK_NONE && !model->is_registered[block]) {
			key = draw_key(prop);
			prop_log(prop, "register %u under %llx, %llx", block,
				(unsigned long long)key.low, (unsigned long long)key.high);
			raw_register(model, real, block, key);
		}
		break;
	case 2:
		key = draw_key(prop);
		prop_log(prop, "find %llx, %llx", (unsigned long long)key.low,
			(unsigned long long)key.high);
		require_equal(block_manager_find(real, key), raw_find(model, key));
		break;
	case 3:
		block = draw_used_block(prop, model);
		if (block != BLOCK_NONE) {
			prop_log(prop, "release %u", block);
			raw_release(model, real, block);
		}
		break;
	default:
		block = (uint32_t)prop_below(prop, model->block_count);
		prop_log(prop, "share %u", block);
		raw_share(model, real, block);
	}
}

static void body_raw(struct prop *prop, const void *context)
{
	(void)context;
	struct raw_model model;
	struct block_manager real;
	uint32_t weights[5];
	uint32_t block_count = prop_range(prop, 1, RAW_BLOCKS);
	prop_swarm(prop, weights, 5);
	prop_log(prop, "%u blocks", block_count);
	raw_init(&model, &real, block_count);
	uint32_t count = prop_range(prop, 0, 200);
	for (uint32_t i = 0; i < count; i++) {
		raw_operation(prop, &model, &real, prop_weighted(prop, weights, 5));
		raw_same(&model, &real);
	}
	block_manager_deinit(&real);
}

Test(block_manager, index_and_free_list_equal_their_model)
{
	struct prop_options options = {.name = "blocks = model", .body = body_raw, .trials = 4000};
	cr_assert(prop_holds(&options));
}

/* ---- every script of a tiny pool ---- */

enum raw_kind { RAW_TAKE, RAW_RELEASE, RAW_SHARE, RAW_REGISTER };

struct raw_script {
	uint32_t block_count, length;
};

struct raw_step {
	enum raw_kind kind;
	uint32_t block;
	uint32_t key;
};

/* Three keys: two with one low half, and one that starts at the same place of an index of 4 or 8
   entries. */
static const struct block_key tiny_keys[] = {{3, 0}, {3, 1}, {11, 0}};

static uint32_t possible_steps(const struct raw_model *model, struct raw_step *steps)
{
	uint32_t count = 0;
	if (model->free_count > 0) {
		steps[count++] = (struct raw_step){.kind = RAW_TAKE};
	}
	for (uint32_t i = 0; i < model->block_count; i++) {
		steps[count++] = (struct raw_step){.kind = RAW_SHARE, .block = i};
		if (model->references[i] > 0) {
			steps[count++] = (struct raw_step){.kind = RAW_RELEASE, .block = i};
		}
		for (uint32_t j = 0; model->references[i] > 0 && !model->is_registered[i] && j < 3;
			j++) {
			steps[count++] =
				(struct raw_step){.kind = RAW_REGISTER, .block = i, .key = j};
		}
	}
	return count;
}

static void apply_step(
	struct raw_model *model, struct block_manager *real, const struct raw_step *step)
{
	switch (step->kind) {
	case RAW_TAKE:
		raw_take(model, real);
		break;
	case RAW_RELEASE:
		raw_release(model, real, step->block);
		break;
	case RAW_SHARE:
		raw_share(model, real, step->block);
		break;
	case RAW_REGISTER:
		raw_register(model, real, step->block, tiny_keys[step->key]);
		break;
	}
}

static void body_every_script(struct prop *prop, const void *context)
{
	static const char *const names[] = {"take", "release", "share", "register"};
	const struct raw_script *script = context;
	struct raw_model model;
	struct block_manager real;
	struct raw_step steps[64];
	raw_init(&model, &real, script->block_count);
	for (uint32_t i = 0; i < script->length; i++) {
		uint32_t count = possible_steps(&model, steps);
		const struct raw_step *step = &steps[prop_below(prop, count)];
		prop_log(prop, "%s %u %u", names[step->kind], step->block, step->key);
		apply_step(&model, &real, step);
		/* Shorter scripts are prefixes of the longest, so only its last step is new. */
		if (i + 1 == script->length) {
			raw_same(&model, &real);
		}
		for (uint32_t j = 0; j < 3; j++) {
			require_equal(block_manager_find(&real, tiny_keys[j]),
				raw_find(&model, tiny_keys[j]));
		}
	}
	block_manager_deinit(&real);
}

Test(block_manager, every_script_of_a_tiny_pool)
{
	static const struct raw_script scripts[] = {{1, 8}, {2, 7}, {3, 6}};
	for (uint32_t i = 0; i < 3; i++) {
		struct prop_options options = {.name = "every script",
			.body = body_every_script,
			.context = &scripts[i],
			.trials = 20 * 1000 * 1000,
			.timeout_s = 60};
		uint64_t case_count = 0;
		for (uint32_t length = 1; length <= scripts[i].length; length++) {
			struct raw_script script = {scripts[i].block_count, length};
			options.context = &script;
			cr_assert(prop_holds_always(&options, &case_count));
		}
		cr_log_info("%u blocks, %u operations: %lu scripts", scripts[i].block_count,
			scripts[i].length, (unsigned long)case_count);
	}
}

/* ==== the log of changes ==== */

enum { LOG_KEYS = 5 };

/* Whoever follows the log knows which keys can be found: a key appears when it could not be found
   before and goes when no block holds it any more, whichever of equal blocks the index prefers. */
static void follow(struct block_log *log, const struct block_manager *real, bool *known)
{
	for (size_t i = 0; i < log->count; i++) {
		uint64_t key = log->changes[i].key.low - 1;
		require(key < LOG_KEYS && log->changes[i].key.high == 2 * key, "an unknown key");
		require(known[key] != log->changes[i].is_added, "key %u is %s twice", (uint32_t)key,
			known[key] ? "added" : "removed");
		known[key] = log->changes[i].is_added;
	}
	log->count = 0;
	for (uint64_t key = 0; key < LOG_KEYS; key++) {
		const struct block_key full = {.low = key + 1, .high = 2 * key};
		require_equal(block_manager_find(real, full) != BLOCK_NONE, known[key]);
	}
}

/* Does one thing to a block in use, or takes a free one. */
static void log_operation(struct prop *prop, struct block_manager *real, uint32_t operation)
{
	uint32_t id = (uint32_t)prop_below(prop, real->block_count);
	const struct block *block = &real->blocks[id];
	uint64_t key = prop_below(prop, LOG_KEYS);

	switch (operation) {
	case 0:
		if (real->free_count > 0) {
			prop_log(prop, "take %u", block_manager_pop_free(real));
		}
		break;
	case 1:
		if (block->reference_count > 0 && !block->is_registered) {
			prop_log(prop, "register %u under %u", id, (uint32_t)key);
			block_manager_register(
				real, id, (struct block_key){.low = key + 1, .high = 2 * key});
		}
		break;
	case 2:
		if (block->reference_count > 0 && !(real->strategies.has_null_block && id == 0)) {
			prop_log(prop, "release %u", id);
			block_manager_release(real, id);
		}
		break;
	default:
		id = block_manager_find(real, (struct block_key){.low = key + 1, .high = 2 * key});
		if (id != BLOCK_NONE) {
			prop_log(prop, "hit %u", id);
			block_manager_share(real, id);
		}
	}
}

static void body_log(struct prop *prop, const void *context)
{
	static const enum eviction evictions[] = {EVICTION_LRU, EVICTION_FIFO, EVICTION_RANDOM};
	const struct block_strategies strategies = {
		.equal_blocks = prop_chance(prop, 2, 3) ? EQUAL_OLDEST : EQUAL_NEWEST,
		.eviction = evictions[prop_below(prop, 3)],
		.has_null_block = prop_chance(prop, 1, 2)};
	uint32_t block_count = prop_range(prop, 2, 12), count = prop_range(prop, 0, 150);
	struct block_manager real;
	struct block_log log = {0};
	bool known[LOG_KEYS] = {false};
	uint32_t weights[4];

	(void)context;
	prop_swarm(prop, weights, 4);
	prop_log(prop, "%u blocks", block_count);
	block_manager_init(&real, block_count, 1, strategies);
	real.log = &log;
	for (uint32_t i = 0; i < count; i++) {
		log_operation(prop, &real, prop_weighted(prop, weights, 4));
		if (prop_chance(prop, 2, 3)) {
			follow(&log, &real, known);
		}
	}
	follow(&log, &real, known);
	block_manager_deinit(&real);
	free(log.changes);
}

Test(block_manager, the_log_tells_what_can_be_found)
{
	const struct prop_options options = {.name = "log", .body = body_log, .trials = 4000};

	cr_assert(prop_holds(&options));
}

/* ==== sequences over the pool, with whole prefixes compared ==== */

enum { SLOTS = 6, SLOT_TOKENS = 40 };

struct slot {
	struct sequence sequence;
	struct block_model_table table;
	bool is_made, is_allocated;
	uint32_t computed;
	/* the pool's latest answer, and its version then */
	uint64_t version;
	uint32_t hits;
	bool can_allocate;
};

struct pool {
	struct block_manager real;
	struct block_model model;
	struct slot slots[SLOTS];
	uint32_t vocabulary;
};

static void make_sequence(struct prop *prop, struct pool *pool, uint32_t index)
{
	struct slot *slot = &pool->slots[index];
	int32_t prompt[SLOT_TOKENS];
	uint32_t count = prop_range(prop, 1, SLOT_TOKENS - 10);
	uint32_t shared = 0;
	const struct slot *from = &pool->slots[prop_below(prop, SLOTS)];
	if (from->is_made && from != slot) {
		shared = prop_range(prop, 0, from->sequence.token_count);
		shared = shared < count ? shared : count;
		memcpy(prompt, from->sequence.token_ids, shared * sizeof(int32_t));
	}
	for (uint32_t i = shared; i < count; i++) {
		prompt[i] = (int32_t)prop_below(prop, pool->vocabulary);
	}
	if (slot->is_made) {
		sequence_deinit(&slot->sequence);
	}
	memset(slot, 0, sizeof(*slot));
	struct request request = {.id = index,
		.prompt = prompt,
		.prompt_count = count,
		.max_tokens = SLOT_TOKENS - count};
	sequence_init(&slot->sequence, &request, pool->real.block_size);
	slot->is_made = true;
	prop_log(prop, "%u is a prompt of %u tokens, %u shared with %u", index, count, shared,
		(uint32_t)(from - pool->slots));
}

static void same_table(const struct slot *slot)
{
	require_equal(slot->sequence.block_count, slot->table.count);
	for (uint32_t i = 0; i < slot->table.count; i++) {
		require_equal(slot->sequence.block_table[i], slot->table.blocks[i]);
	}
}

static void allocate(struct prop *prop, struct pool *pool, uint32_t index)
{
	struct slot *slot = &pool->slots[index];
	struct sequence *sequence = &slot->sequence;
	uint32_t hits = block_manager_probe(&pool->real, sequence);
	require_equal(
		hits, block_model_hits(&pool->model, sequence->token_ids, sequence->token_count));
	bool can_allocate =
		block_manager_can_allocate(&pool->real, sequence, hits, sequence->token_count, 0);
	require_equal(can_allocate, block_model_can_allocate(&pool->model, sequence->token_ids,
					    sequence->token_count, hits));
	prop_log(prop, "allocate %u: %u blocks hit, %s", index, hits,
		can_allocate ? "it fits" : "no room");
	if (!can_allocate) {
		return;
	}
	block_manager_allocate(&pool->real, sequence, hits, sequence->token_count);
	block_model_allocate(
		&pool->model, &slot->table, sequence->token_ids, sequence->token_count, hits);
	require_equal(sequence->cached_count, hits * pool->real.block_size);
	require(sequence->cached_count < sequence->token_count, "all of a prompt was hit");
	slot->computed = sequence->cached_count;
	slot->is_allocated = true;
}

/* Computes the next tokens of a prompt, or the one token of a decode. */
static void compute(struct prop *prop, struct pool *pool, uint32_t index, uint32_t count)
{
	struct slot *slot = &pool->slots[index];
	struct sequence *sequence = &slot->sequence;
	prop_log(prop, "compute tokens [%u, %u) of %u", slot->computed, slot->computed + count,
		index);
	block_manager_register_up_to(&pool->real, sequence, slot->computed + count);
	block_model_register_filled(&pool->model, &slot->table, sequence->token_ids, slot->computed,
		slot->computed + count);
	slot->computed += count;
}

static void release(struct prop *prop, struct pool *pool, uint32_t index)
{
	struct slot *slot = &pool->slots[index];
	prop_log(prop, "release %u", index);
	block_manager_release_all(&pool->real, &slot->sequence);
	block_model_release_all(&pool->model, &slot->table);
	slot->is_allocated = false;
	slot->computed = 0;
}

/* Appends a token; if there is no room for it, the sequence releases its blocks. */
static void append(struct prop *prop, struct pool *pool, uint32_t index)
{
	struct slot *slot = &pool->slots[index];
	struct sequence *sequence = &slot->sequence;
	sequence->token_ids[sequence->token_count++] = (int32_t)prop_below(prop, pool->vocabulary);
	bool needs_block = slot->table.count * pool->real.block_size < sequence->token_count;
	bool can_append = !needs_block || pool->model.free_count > 0;
	prop_log(prop, "append to %u%s", index,
		!can_append   ? ", no room"
		: needs_block ? ", a block"
			      : "");
	uint32_t missing = block_manager_missing(&pool->real, sequence, sequence->token_count);
	require_equal(missing, needs_block);
	if (!can_append) {
		release(prop, pool, index);
		return;
	}
	if (needs_block) {
		block_manager_append(&pool->real, sequence);
		slot->table.blocks[slot->table.count++] = block_model_take(&pool->model);
	}
	compute(prop, pool, index, 1);
}

static void pool_operation(struct prop *prop, struct pool *pool, uint32_t operation)
{
	uint32_t index = (uint32_t)prop_below(prop, SLOTS);
	struct slot *slot = &pool->slots[index];
	if (!slot->is_made || (operation == 0 && !slot->is_allocated && prop_chance(prop, 1, 2))) {
		make_sequence(prop, pool, index);
	} else if (!slot->is_allocated) {
		allocate(prop, pool, index);
	} else if (operation == 3) {
		release(prop, pool, index);
	} else if (slot->computed < slot->sequence.token_count) {
		uint32_t rest = slot->sequence.token_count - slot->computed;
		compute(prop, pool, index,
			prop_chance(prop, 1, 2) ? rest : prop_range(prop, 1, rest));
	} else if (slot->sequence.token_count < slot->sequence.token_capacity) {
		append(prop, pool, index);
	}
}

/* Every answer of the pool, and that an unchanged version means unchanged answers. */
static void pool_same(struct pool *pool)
{
	uint32_t references = 0;
	uint32_t entries = 0;
	block_model_require_same(&pool->model, &pool->real);
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &pool->slots[i];
		struct sequence *sequence = &slot->sequence;
		if (!slot->is_made) {
			continue;
		}
		same_table(slot);
		entries += slot->table.count;
		uint32_t hits = block_manager_probe(&pool->real, sequence);
		bool can_allocate = block_manager_can_allocate(
			&pool->real, sequence, hits, sequence->token_count, 0);
		require_equal(hits,
			block_model_hits(&pool->model, sequence->token_ids, sequence->token_count));
		require_equal(
			can_allocate, block_model_can_allocate(&pool->model, sequence->token_ids,
					      sequence->token_count, hits));
		if (!slot->is_allocated && slot->version == pool->real.version + 1) {
			require_equal(hits, slot->hits);
			require_equal(can_allocate, slot->can_allocate);
		}
		slot->version = pool->real.version + 1; /* 0: not probed yet */
		slot->hits = hits;
		slot->can_allocate = can_allocate;
	}
	for (uint32_t i = 0; i < pool->real.block_count; i++) {
		references += pool->real.blocks[i].reference_count;
	}
	require_equal(references, entries);
}

static void body_sequences(struct prop *prop, const void *context)
{
	(void)context;
	struct pool *pool = calloc(1, sizeof(struct pool));
	require(pool != NULL, "out of memory");
	uint32_t weights[4];
	uint32_t block_size = prop_range(prop, 1, 6);
	uint32_t block_count = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 60 : 12);
	pool->vocabulary = prop_range(prop, 1, 3);
	prop_swarm(prop, weights, 4);
	prop_log(prop, "%u blocks of %u", block_count, block_size);
	block_manager_init(&pool->real, block_count, block_size, (struct block_strategies){0});
	block_model_init(&pool->model, block_count, block_size);
	uint32_t count = prop_range(prop, 0, 150);
	for (uint32_t i = 0; i < count; i++) {
		pool_operation(prop, pool, prop_weighted(prop, weights, 4));
		pool_same(pool);
	}
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (pool->slots[i].is_allocated) {
			release(prop, pool, i);
		}
		sequence_deinit(&pool->slots[i].sequence);
	}
	require_equal(pool->real.free_count, block_count);
	block_manager_deinit(&pool->real);
	block_model_deinit(&pool->model);
	free(pool);
}

Test(block_manager, sequences_over_the_pool_equal_their_model)
{
	struct prop_options options = {
		.name = "sequences = model", .body = body_sequences, .trials = 4000};
	cr_assert(prop_holds(&options));
}

/* ==== which free block is given out ==== */

enum { EVICTION_BLOCKS = 24 };

/* Free blocks as arrays that are searched from end to end: `first` is given out before `others`, of
   which the strategy chooses. */
struct naive_pool {
	enum eviction eviction;
	enum free_order free_order;
	uint32_t first[EVICTION_BLOCKS], others[EVICTION_BLOCKS];
	uint32_t first_count, other_count;
	uint64_t registered[EVICTION_BLOCKS]; /* ordinal of the content; 0: none */
	uint32_t references[EVICTION_BLOCKS];
	uint64_t given_count, content_count;
};

/* The place in `others` of the one that goes next. FIFO: whose content was registered first, before
   it those without, of these the lowest. Random: a hash of the number given out before. */
static uint32_t naive_choice(const struct naive_pool *pool)
{
	uint32_t chosen = 0;

	if (pool->eviction == EVICTION_RANDOM) {
		return (uint32_t)(counter_hash(0, pool->given_count) % pool->other_count);
	}
	for (uint32_t i = 1; i < pool->other_count; i++) {
		uint32_t id = pool->others[i], best = pool->others[chosen];
		bool is_older = pool->registered[id] < pool->registered[best] ||
				(pool->registered[id] == pool->registered[best] && id < best);
		chosen = is_older ? i : chosen;
	}
	return chosen;
}

/* The last one moves into the gap. */
static void naive_remove_other(struct naive_pool *pool, uint32_t place)
{
	pool->others[place] = pool->others[--pool->other_count];
}

static uint32_t naive_take(struct naive_pool *pool)
{
	uint32_t id = pool->first[0];

	if (pool->first_count > 0) {
		memmove(pool->first, pool->first + 1, --pool->first_count * sizeof(pool->first[0]));
	} else {
		uint32_t place = naive_choice(pool);
		id = pool->others[place];
		naive_remove_other(pool, place);
	}
	pool->given_count++;
	pool->registered[id] = 0;
	pool->references[id] = 1;
	return id;
}

static void naive_release(struct naive_pool *pool, uint32_t id)
{
	if (--pool->references[id] > 0) {
		return;
	}
	if (pool->free_order == FREE_UNHASHED_FIRST && pool->registered[id] == 0) {
		memmove(pool->first + 1, pool->first, pool->first_count++ * sizeof(pool->first[0]));
		pool->first[0] = id;
	} else {
		pool->others[pool->other_count++] = id;
	}
}

/* A hit: only registered blocks are hit, and free ones of these are among the others. */
static void naive_share(struct naive_pool *pool, uint32_t id)
{
	if (pool->references[id]++ > 0) {
		return;
	}
	for (uint32_t i = 0; i < pool->other_count; i++) {
		if (pool->others[i] == id) {
			naive_remove_other(pool, i);
			return;
		}
	}
	require(false, "a free block with content is not among the others");
}

static void naive_init(struct naive_pool *pool, uint32_t count, struct block_strategies strategies)
{
	*pool = (struct naive_pool){
		.eviction = strategies.eviction, .free_order = strategies.free_order};
	for (uint32_t id = 0; id < count; id++) {
		pool->others[pool->other_count++] = id;
	}
}

static void body_eviction(struct prop *prop, const void *context)
{
	const struct block_strategies strategies = {
		.eviction = prop_chance(prop, 1, 2) ? EVICTION_FIFO : EVICTION_RANDOM,
		.free_order = prop_chance(prop, 1, 2) ? FREE_UNHASHED_FIRST : FREE_BACK};
	struct block_manager manager;
	struct naive_pool pool;
	(void)context;

	block_manager_init(&manager, prop_range(prop, 1, EVICTION_BLOCKS), 4, strategies);
	naive_init(&pool, manager.block_count, strategies);
	prop_log(prop, "%s, free order %d",
		strategies.eviction == EVICTION_FIFO ? "fifo" : "random",
		(int)strategies.free_order);
	for (uint32_t i = prop_range(prop, 0, 120); i > 0; i--) {
		uint32_t id = (uint32_t)prop_below(prop, manager.block_count);
		if (prop_chance(prop, 1, 2) && manager.free_count > 0) {
			uint32_t expected = naive_take(&pool);
			id = block_manager_pop_free(&manager);
			require(id == expected, "block %u is given out, not %u", id, expected);
			prop_log(prop, "block %u is given out", id);
			if (prop_chance(prop, 2, 3)) {
				pool.registered[id] = ++pool.content_count;
				block_manager_register(
					&manager, id, (struct block_key){pool.content_count, 0});
			}
		} else if (pool.references[id] > 0 && prop_chance(prop, 2, 3)) {
			block_manager_release(&manager, id);
			naive_release(&pool, id);
		} else if (pool.registered[id] > 0) {
			block_manager_share(&manager, id);
			naive_share(&pool, id);
		}
		require_equal(manager.free_count, pool.first_count + pool.other_count);
		block_manager_check(&manager);
	}
	block_manager_deinit(&manager);
}

Test(block_manager, the_oldest_content_or_any_is_evicted)
{
	struct prop_options options = {.name = "eviction", .body = body_eviction, .trials = 2000};
	cr_assert(prop_holds(&options));
}

/* Every free block is given out by chance, and the same ones in every run. */
Test(block_manager, random_eviction_reaches_all_and_repeats)
{
	const struct block_strategies random = {.eviction = EVICTION_RANDOM};
	bool is_first[8] = {false};
	struct block_manager manager, twin;
	block_manager_init(&manager, 8, 1, random);
	block_manager_init(&twin, 8, 1, random);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t id = block_manager_pop_free(&manager);
		cr_assert_eq(id, block_manager_pop_free(&twin));
		is_first[id] = true;
		block_manager_release(&manager, id);
		block_manager_release(&twin, id);
	}
	for (uint32_t i = 0; i < 8; i++) {
		cr_assert(is_first[i], "block %u is never given out", i);
	}
	block_manager_deinit(&manager);
	block_manager_deinit(&twin);
}

/* ==== by example ==== */

/* A lookup that compares half a key would confuse two prefixes. */
Test(block_manager, half_an_equal_key_is_no_hit)
{
	struct block_manager manager;
	block_manager_init(&manager, 2, 4, (struct block_strategies){0});
	uint32_t block = block_manager_pop_free(&manager);
	block_manager_register(&manager, block, (struct block_key){42, 1});
	cr_assert_eq(block_manager_find(&manager, (struct block_key){42, 1}), block);
	cr_assert_eq(block_manager_find(&manager, (struct block_key){42, 2}), BLOCK_NONE);
	cr_assert_eq(block_manager_find(&manager, (struct block_key){43, 1}), BLOCK_NONE);
	block_manager_deinit(&manager);
}

/* The same through a sequence whose key is bent to equal half of another's. */
Test(block_manager, a_sequence_with_half_an_equal_key_is_no_hit)
{
	struct block_manager manager;
	block_manager_init(&manager, 8, 2, (struct block_strategies){0});
	const int32_t first_prompt[] = {1, 2, 3, 4, 5};
	const int32_t second_prompt[] = {1, 2, 3, 9, 5};
	struct sequence first = {0};
	struct sequence second = {0};
	struct request request = {.prompt = first_prompt, .prompt_count = 5, .max_tokens = 1};
	sequence_init(&first, &request, 2);
	request.prompt = second_prompt;
	sequence_init(&second, &request, 2);
	cr_assert(block_key_equal(second.block_keys[0], first.block_keys[0]));
	cr_assert_neq(second.block_keys[1].low, first.block_keys[1].low);
	cr_assert_neq(second.block_keys[1].high, first.block_keys[1].high);
	second.block_keys[1].low = first.block_keys[1].low;
	block_manager_allocate(&manager, &first, 0, first.token_count);
	block_manager_register_up_to(&manager, &first, 5);
	cr_assert_eq(block_manager_probe(&manager, &first), 2);
	cr_assert_eq(block_manager_probe(&manager, &second), 1);
	block_manager_release_all(&manager, &first);
	sequence_deinit(&first);
	sequence_deinit(&second);
	block_manager_deinit(&manager);
}

/* Equal blocks behind different first blocks are different content. */
Test(block_manager, the_chain_is_part_of_the_key)
{
	const int32_t first_prompt[] = {1, 1, 7, 7, 0};
	const int32_t second_prompt[] = {2, 2, 7, 7, 0};
	struct sequence first = {0};
	struct sequence second = {0};
	struct request request = {.prompt = first_prompt, .prompt_count = 5, .max_tokens = 1};
	sequence_init(&first, &request, 2);
	request.prompt = second_prompt;
	sequence_init(&second, &request, 2);
	struct block_key one = sequence_block_key(&first, 1, 2);
	struct block_key other = sequence_block_key(&second, 1, 2);
	cr_assert_neq(one.low, other.low);
	cr_assert_neq(one.high, other.high);
	sequence_deinit(&first);
	sequence_deinit(&second);
}

/* Keys that come with a request do what the same keys made from tokens do. */
Test(block_manager, a_request_may_come_with_keys)
{
	const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7};
	const struct request with_tokens = {
		.prompt = tokens, .prompt_count = 5, .forced = tokens + 5, .max_tokens = 2};
	struct sequence first = {0};
	struct sequence second = {0};
	struct block_manager manager;
	sequence_init(&first, &with_tokens, 2);
	sequence_block_key(&first, 2, 2);
	const struct request with_keys = {
		.keys = first.block_keys, .prompt_count = 5, .max_tokens = 2, .ignore_eos = true};
	sequence_init(&second, &with_keys, 2);
	cr_assert(second.is_forced);
	cr_assert_null(second.token_ids);
	block_manager_init(&manager, 8, 2, (struct block_strategies){0});
	block_manager_allocate(&manager, &first, 0, first.token_count);
	block_manager_register_up_to(&manager, &first, 5);
	cr_assert_eq(block_manager_probe(&manager, &second), 2);
	block_manager_allocate(&manager, &second, 2, second.token_count);
	second.token_count = 6;
	cr_assert_eq(block_manager_missing(&manager, &second, second.token_count), 0);
	block_manager_register_up_to(&manager, &second, 6);
	first.token_count = 7; /* its third block may be hit as soon as it is not the last */
	cr_assert_eq(block_manager_probe(&manager, &first), 3);
	sequence_deinit(&first);
	sequence_deinit(&second);
	block_manager_deinit(&manager);
}

/* Without tokens nobody could see that one ends the sequence. */
Test(block_manager, keys_without_ignore_eos_are_a_failed_check, .signal = SIGABRT)
{
	const struct block_key keys[] = {{1, 1}};
	const struct request request = {.keys = keys, .prompt_count = 2, .max_tokens = 1};
	struct sequence sequence = {0};
	sequence_init(&sequence, &request, 2);
}

/* A hit on a free block takes that block out of the free list, so a prompt that is cached but for
   its last token still needs every one of its blocks free. */
Test(block_manager, a_free_block_that_is_hit_is_spent)
{
	struct block_manager manager;
	block_manager_init(&manager, 3, 2, (struct block_strategies){0});
	const int32_t prompt[] = {1, 2, 3, 4, 5};
	struct sequence sequence = {0};
	struct request request = {.prompt = prompt, .prompt_count = 5, .max_tokens = 1};
	sequence_init(&sequence, &request, 2);
	block_manager_allocate(&manager, &sequence, 0, sequence.token_count);
	block_manager_register_up_to(&manager, &sequence, 5);
	block_manager_release_all(&manager, &sequence);
	cr_assert_eq(manager.cached_free_count, 2);
	cr_assert_eq(manager.free_head, 2, "the last block of a sequence is released first");
	cr_assert_eq(block_manager_pop_free(&manager), 2);
	cr_assert_eq(block_manager_probe(&manager, &sequence), 2);
	cr_assert_not(block_manager_can_allocate(&manager, &sequence, 2, sequence.token_count, 0));
	block_manager_release(&manager, 2);
	cr_assert(block_manager_can_allocate(&manager, &sequence, 2, sequence.token_count, 0));
	block_manager_allocate(&manager, &sequence, 2, sequence.token_count);
	cr_assert_eq(sequence.cached_count, 4);
	cr_assert_eq(manager.free_count, 0);
	block_manager_release_all(&manager, &sequence);
	sequence_deinit(&sequence);
	block_manager_deinit(&manager);
}

/* Whole blocks of a prompt, where all of them have room; no block stays in use. */
Test(block_manager, what_is_stored_is_hit)
{
	static const struct {
		uint32_t blocks, tokens, hits;
	} cases[] = {{2, 5, 2}, {3, 5, 2}, {2, 4, 2}, {2, 3, 1}, {2, 1, 0}, {1, 5, 0}, {1, 3, 1}};
	const int32_t prompt[] = {1, 2, 3, 4, 5};
	const struct request request = {.prompt = prompt, .prompt_count = 5, .max_tokens = 1};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct block_manager manager;
		struct sequence sequence = {0};
		block_manager_init(&manager, cases[i].blocks, 2, (struct block_strategies){0});
		sequence_init(&sequence, &request, 2);
		for (uint32_t time = 0; time < 2; time++) {
			block_manager_store(&manager, &sequence, cases[i].tokens);
			cr_assert_eq(block_manager_probe(&manager, &sequence), cases[i].hits);
			cr_assert_eq(manager.free_count, cases[i].blocks);
			cr_assert_eq(sequence.block_count, 0);
			cr_assert_eq(sequence.cached_count, 0);
		}
		sequence_deinit(&sequence);
		block_manager_deinit(&manager);
	}
}

/* What a request stores is what its own admission finds: the block of a prompt's last token, which
   is always computed, is not entered for others to find, however much is said to be stored. */
Test(block_manager, nothing_is_stored_that_the_request_itself_cannot_hit)
{
	enum { TOKENS = 9, BLOCKS = 16 };
	int32_t prompt[TOKENS];

	for (uint32_t i = 0; i < TOKENS; i++) {
		prompt[i] = (int32_t)i + 1;
	}
	for (uint32_t block_size = 1; block_size <= 4; block_size++) {
		for (uint32_t count = 1; count <= TOKENS; count++) {
			for (uint32_t stored = 0; stored <= count; stored++) {
				const struct request request = {
					.prompt = prompt, .prompt_count = count, .max_tokens = 1};
				uint32_t hits = u32_min(stored, count - 1) / block_size;
				struct sequence sequence = {0};
				struct block_manager manager;
				block_manager_init(
					&manager, BLOCKS, block_size, (struct block_strategies){0});
				sequence_init(&sequence, &request, block_size);
				block_manager_store(&manager, &sequence, stored);
				block_manager_check(&manager);
				require_equal(block_manager_probe(&manager, &sequence), hits);
				require_equal(manager.registered_count, hits);
				require_equal(manager.cached_free_count, hits);
				require_equal(manager.free_count, BLOCKS);
				sequence_deinit(&sequence);
				block_manager_deinit(&manager);
			}
		}
	}
}

/* A prompt of whole blocks that is all cached still computes its last block. */
Test(block_manager, a_whole_prompt_is_never_hit)
{
	struct block_manager manager;
	block_manager_init(&manager, 4, 1, (struct block_strategies){0});
	const int32_t prompt[] = {1, 2};
	struct sequence sequence = {0};
	struct request request = {.prompt = prompt, .prompt_count = 2, .max_tokens = 1};
	sequence_init(&sequence, &request, 1);
	block_manager_allocate(&manager, &sequence, 0, sequence.token_count);
	block_manager_register_up_to(&manager, &sequence, 2);
	cr_assert_eq(block_manager_probe(&manager, &sequence), 1);
	block_manager_release_all(&manager, &sequence);
	cr_assert_eq(block_manager_probe(&manager, &sequence), 1);
	sequence_deinit(&sequence);
	block_manager_deinit(&manager);
}

Test(block_manager, a_pool_of_one_block)
{
	struct block_manager manager;
	block_manager_init(&manager, 1, 1, (struct block_strategies){0});
	const struct block_key key = {5, 7};
	cr_assert_eq(block_manager_pop_free(&manager), 0);
	cr_assert_eq(block_manager_used_count(&manager), 1);
	block_manager_register(&manager, 0, key);
	block_manager_release(&manager, 0);
	block_manager_check(&manager);
	cr_assert_eq(manager.cached_free_count, 1);
	block_manager_share(&manager, block_manager_find(&manager, key));
	block_manager_check(&manager);
	cr_assert_eq(manager.free_count, 0);
	block_manager_release(&manager, 0);
	cr_assert_eq(block_manager_pop_free(&manager), 0);
	cr_assert_eq(block_manager_find(&manager, key), BLOCK_NONE);
	block_manager_check(&manager);
	block_manager_deinit(&manager);
}

Test(block_manager, a_second_release_is_a_failed_check, .signal = SIGABRT)
{
	struct block_manager manager;
	block_manager_init(&manager, 2, 1, (struct block_strategies){0});
	uint32_t block = block_manager_pop_free(&manager);
	block_manager_release(&manager, block);
	block_manager_release(&manager, block);
}

Test(block_manager, taking_from_an_empty_pool_is_a_failed_check, .signal = SIGABRT)
{
	struct block_manager manager;
	block_manager_init(&manager, 1, 1, (struct block_strategies){0});
	(void)block_manager_pop_free(&manager);
	(void)block_manager_pop_free(&manager);
}

/* block_manager_check() must itself see damage. Each damage is one trial that has to fail. */
static void body_damage(struct prop *prop, const void *context)
{
	const uint32_t *damage = context;
	const int32_t tokens[] = {1, 2, 3, 4, 5};
	struct block_manager manager;
	struct sequence sequence = {0};
	struct request request = {.prompt = tokens, .prompt_count = 5, .max_tokens = 1};
	(void)prop;
	block_manager_init(&manager, 6, 2, (struct block_strategies){0});
	sequence_init(&sequence, &request, 2);
	block_manager_allocate(&manager, &sequence, 0, sequence.token_count);
	block_manager_register_up_to(&manager, &sequence, 5);
	block_manager_check(&manager);
	switch (*damage) {
	case 0:
		manager.free_count--;
		break;
	case 1:
		manager.cached_free_count++;
		break;
	case 2:
		manager.registered_count++;
		break;
	case 3:
		manager.blocks[0].reference_count = 0;
		break;
	case 4:
		manager.blocks[4].reference_count = 1;
		break;
	case 5:
		manager.blocks[1].is_registered = false;
		break;
	case 6:
		manager.blocks[1].key.low++;
		break;
	case 7:
		manager.links[4].next = 3; /* a circle */
		break;
	case 8:
		manager.links[4].previous = 5;
		break;
	case 9:
		manager.free_tail = 4;
		break;
	case 10:
		manager.blocks[1].is_indexed = false;
		break;
	case 11:
		manager.blocks[2].is_indexed = true;
		break;
	default:
		manager.buckets[sequence.block_keys[1].low & manager.bucket_mask] = BLOCK_NONE;
	}
	block_manager_check(&manager);
}

Test(block_manager, its_check_sees_damage)
{
	for (uint32_t damage = 0; damage <= 12; damage++) {
		struct prop_options options = {.name = "damage",
			.body = body_damage,
			.context = &damage,
			.trials = 1,
			.is_silent = true};
		cr_assert(!prop_holds(&options), "damage %u went unseen", damage);
	}
}
