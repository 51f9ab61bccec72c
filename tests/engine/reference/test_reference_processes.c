#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/policy.h"
#include "engine/reference/packed_batch.h"
#include "engine/reference/reference_ranks.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/reference_run.h"

/* The reference runner as a process for each rank, against one process that computes all shares in
   turn. Failures of ranks are in tests/engine/ranks and tests/bench/replay. */

enum { REQUESTS = 16, PROMPT_MAX = 60, SHARED = 30, VOCABULARY = 211 };

struct scene {
	int32_t prompts[REQUESTS][PROMPT_MAX];
	struct request requests[REQUESTS];
};

/* Prompts that share prefixes; a third of the requests is greedy. */
static void scene_init(struct scene *scene)
{
	for (uint32_t i = 0; i < REQUESTS; i++) {
		for (uint32_t t = 0; t < PROMPT_MAX; t++) {
			uint64_t stream = t < SHARED ? i % 2 : 50 + i;
			scene->prompts[i][t] = (int32_t)counter_below(
				(uint32_t)counter_hash(stream, t), VOCABULARY);
		}
		scene->requests[i] = (struct request){
			.id = i,
			.prompt = scene->prompts[i],
			.prompt_count = 12 + i * 3,
			.max_tokens = 1 + (i * 7) % 20,
			.temperature = (float)(i % 3) * 0.7f,
			.ignore_eos = i % 2 == 0,
		};
	}
}

/* So small that it preempts and cuts prompts into chunks. */
static const struct engine_config small_engine = {
	.policy = &policy_mixed,
	.block_size = 4,
	.kv_block_count = 40,
	.max_num_seqs = 8,
	.max_num_batched_tokens = 16,
	.max_model_len = 100,
	.eos_token_id = 3,
};

static void compare(
	const struct engine_config *engine, uint32_t ranks, enum rounding rounding, bool is_tied)
{
	struct model_config model = tiny_model_of_8_heads(VOCABULARY);
	struct scene *scene = memory_take(1, sizeof(*scene));
	struct reference_run in_turn, processes;

	model.tie_word_embeddings = is_tied;
	struct weights *weights = open_weights(&model, "dummy:1");
	struct reference_run_options options = {
		.weights = weights,
		.engine = engine,
		.rounding = rounding,
		.seed = 77,
		.ranks.count = ranks,
		.is_fed_back = true,
	};
	scene_init(scene);
	reference_run(&in_turn, scene->requests, REQUESTS, &options);
	require(engine != &small_engine || (in_turn.preemptions > 0 && in_turn.chunks > 0 &&
						   in_turn.cached_tokens > 0),
		"too little happened");
	options.has_processes = true;
	reference_run(&processes, scene->requests, REQUESTS, &options);
	require_same_answers(&in_turn, &processes, "processes");
	require_equal(processes.event_hash, in_turn.event_hash);
	reference_run_deinit(&in_turn);
	reference_run_deinit(&processes);
	weights_close(weights);
	free(scene);
}

Test(reference_processes, have_the_tokens_and_decisions_of_all_shares_in_turn, .timeout = 120)
{
	compare(&small_engine, 2, ROUNDING_BF16, false);
	compare(&small_engine, 4, ROUNDING_NONE, true);
	compare(&small_engine, 8, ROUNDING_BF16, true);
}

/* All prompts in one step, which has the most tokens, rows and new blocks that the options
   allow. */
Test(reference_processes, pass_on_the_largest_step, .timeout = 60)
{
	struct engine_config engine = small_engine;

	engine.prefix_caching = PREFIX_CACHING_OFF;
	engine.max_num_seqs = REQUESTS;
	engine.kv_block_count = 400;
	engine.max_num_batched_tokens = 0;
	for (uint32_t i = 0; i < REQUESTS; i++) {
		engine.max_num_batched_tokens += 12 + i * 3;
	}
	compare(&engine, 2, ROUNDING_BF16, false);
}

/* Opening fails for a pool that no rank can hold, and for heads that ranks cannot share. */
static void require_refusal(uint32_t ranks, uint32_t block_size, uint32_t kv_heads)
{
	struct model_config model = tiny_model_of_8_heads(VOCABULARY);
	const struct engine_config engine = {
		.policy = &policy_mixed,
		.block_size = block_size,
		.kv_block_count = 1 << 28,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 16,
		.max_model_len = 100,
	};
	struct error in_turn = {0}, processes = {0};
	struct runner runner = {0};

	model.num_key_value_heads = kv_heads;
	struct weights *weights = open_weights(&model, "dummy:1");
	struct reference_options options = {
		.weights = weights, .engine = &engine, .ranks = {.count = ranks, .here = ranks}};
	require(reference_runner_open(&runner, &options, &in_turn) != STATUS_OK, "it opened");
	require(reference_ranks_open(&runner, &options, &processes) == in_turn.status,
		"another status: %s", processes.text);
	require(strstr(processes.text, in_turn.text) != NULL, "%s", processes.text);
	require(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a rank is still there");
	require(runner.state == NULL, "there is a runner");
	weights_close(weights);
}

Test(reference_processes, end_when_they_cannot_open, .timeout = 60)
{
	require_refusal(2, 4096, 8);
	require_refusal(4, 4096, 8);
	require_refusal(8, 1, 4);
}

/* ---- batches ---- */

static void draw_batch(struct prop *prop, struct batch *batch)
{
	batch_clear(batch, prop_below(prop, 1000));
	batch->counts.decode_rows = prop_below(prop, 99);
	batch->counts.preemptions = prop_below(prop, 99);
	batch->row_count = prop_range(prop, 0, batch->row_capacity);
	batch->token_count = prop_range(prop, 0, batch->token_capacity);
	for (uint32_t r = 0; r < batch->row_count; r++) {
		batch->row[r] = prop_range(prop, 0, 1000);
		batch->query_start[r] = prop_range(prop, 0, 1000);
		batch->context_length[r] = prop_range(prop, 0, 1000);
		batch->is_sampled[r] = prop_chance(prop, 1, 2);
		batch->request[r] = prop_below(prop, UINT64_C(1) << 60);
		batch->sample_position[r] = prop_range(prop, 0, 1000);
		batch->temperature[r] = (float)prop_below(prop, 100) / 7;
	}
	batch->query_start[batch->row_count] = batch->token_count;
	for (uint32_t t = 0; t < batch->token_count; t++) {
		batch->token_id[t] = (int32_t)prop_range(prop, 0, 1000) - 1;
		batch->position[t] = prop_range(prop, 0, 1000);
		batch->slot[t] = (int64_t)prop_below(prop, UINT64_C(1) << 40) - 1;
	}
	for (uint32_t i = prop_range(prop, 0, 5); i > 0; i--) {
		batch_add_addition(batch, i, prop_range(prop, 0, 1000), prop_range(prop, 0, 1000));
	}
}

#define SAME(list, count)                                                                          \
	require(memcmp(a->list, b->list, (count) * sizeof(*a->list)) == 0, #list " differs")

static void require_same_batch(const struct batch *a, const struct batch *b)
{
	require_equal(a->step, b->step);
	require(memcmp(&a->counts, &b->counts, sizeof(a->counts)) == 0, "the counts differ");
	require_equal(a->row_count, b->row_count);
	require_equal(a->token_count, b->token_count);
	require_equal(a->addition_count, b->addition_count);
	SAME(row, a->row_count);
	SAME(query_start, a->row_count + 1);
	SAME(context_length, a->row_count);
	SAME(is_sampled, a->row_count);
	SAME(request, a->row_count);
	SAME(sample_position, a->row_count);
	SAME(temperature, a->row_count);
	SAME(token_id, a->token_count);
	SAME(position, a->token_count);
	SAME(slot, a->token_count);
	if (a->addition_count > 0) {
		SAME(additions, a->addition_count);
	}
}

static void body_packed(struct prop *prop, const void *context)
{
	static uint64_t memory[1000];
	struct batch batch, found;

	(void)context; /* all it needs is drawn */
	batch_init(&batch, 9, 20);
	draw_batch(prop, &batch);
	size_t most = packed_batch_bytes(9, 20, 5);
	require(most < sizeof(memory), "%zu bytes", most);
	size_t bytes = packed_batch_write(memory, &batch);
	require(bytes <= most, "%zu of at most %zu bytes", bytes, most);
	packed_batch_read(&found, memory);
	require_same_batch(&batch, &found);
	batch_deinit(&batch);
}

Test(packed_batch, is_read_as_it_was_written)
{
	const struct prop_options options = {
		.name = "packed batches", .body = body_packed, .trials = 200};

	cr_assert(prop_holds(&options));
}
