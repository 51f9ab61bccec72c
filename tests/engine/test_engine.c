#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine_internal.h"
#include "engine/policy.h"
#include "tests/models/kv_oracle.h"
#include "tests/harness/require.h"

/* Edge cases of the engine, by example. */

enum { REQUEST_LIMIT = 32 };

struct bench {
	struct engine_config config;
	struct kv_oracle oracle;
	struct runner runner;
	struct engine *engine;
};

static void open_bench(struct bench *bench, const struct policy *policy, uint32_t block_size,
	uint32_t blocks, uint32_t seqs)
{
	struct error error = {0};
	bench->config = (struct engine_config){.policy = policy,
		.block_size = block_size,
		.kv_block_count = blocks,
		.max_num_seqs = seqs,
		.max_num_batched_tokens = 64,
		.max_model_len = 64,
		.eos_token_id = -1};
	kv_oracle_init(&bench->oracle, &bench->config, REQUEST_LIMIT, 1000, 1);
	bench->runner = kv_oracle_runner(&bench->oracle);
	cr_assert_eq(engine_open(&bench->engine, &bench->config, &bench->runner, &error), STATUS_OK,
		"%s", error.text);
}

static void close_bench(struct bench *bench)
{
	engine_close(bench->engine);
	kv_oracle_deinit(&bench->oracle);
}

/* A request that shares no tokens with others. */
static enum fit add(struct bench *bench, uint64_t id, uint32_t prompt_count, uint32_t max_tokens)
{
	int32_t prompt[64];
	for (uint32_t i = 0; i < prompt_count && i < 64; i++) {
		prompt[i] = (int32_t)(id * 1000 + i);
	}
	struct request request = {.id = id,
		.prompt = prompt,
		.prompt_count = prompt_count,
		.max_tokens = max_tokens,
		.ignore_eos = true};
	enum fit fit = engine_add(bench->engine, &request, NULL);
	if (fit == FIT_OK) {
		kv_oracle_add(&bench->oracle, &request);
	}
	return fit;
}

static void step(struct bench *bench)
{
	struct step_time time;
	struct error error = {0};
	cr_assert_eq(engine_step(bench->engine, &time, &error), STATUS_OK);
	engine_check(bench->engine);
}

/* The latest step's events as text: one letter a kind and the request's number. */
static void events_as_text(const struct bench *bench, char *text, size_t text_bytes)
{
	static const char letters[] = {[EVENT_REJECT] = 'R',
		[EVENT_ADMIT] = 'A',
		[EVENT_BLOCK_GIVEN] = 'b',
		[EVENT_CHUNK] = 'c',
		[EVENT_PREEMPT] = 'P',
		[EVENT_FINISH] = 'F'};
	const struct event_list *list = engine_decisions(bench->engine).events;
	size_t length = 0;
	text[0] = '\0';
	for (size_t i = 0; i < list->count && length + 8 < text_bytes; i++) {
		length += (size_t)snprintf(text + length, text_bytes - length, "%s%c%u",
			i == 0 ? "" : " ", letters[list->events[i].kind],
			(unsigned)list->events[i].request);
	}
}

static void expect_step(struct bench *bench, const char *expected)
{
	char text[512];
	step(bench);
	events_as_text(bench, text, sizeof(text));
	cr_assert_str_eq(text, expected);
}

static const struct sequence *take(struct bench *bench)
{
	return engine_take_finished(bench->engine);
}

/* ---- configuration ---- */

static void refuses(struct engine_config config, const char *name, const char *other)
{
	struct error error = {0};
	cr_assert_eq(engine_config_validate(&config, &error), STATUS_USAGE);
	cr_assert(strstr(error.text, name) != NULL, "\"%s\" does not name %s", error.text, name);
	cr_assert(strstr(error.text, other) != NULL, "\"%s\" does not name %s", error.text, other);
	cr_assert(strchr(error.text, '\n') == NULL);
}

Test(engine, a_configuration_is_refused_by_name)
{
	struct error error = {0};
	const struct engine_config good = {.policy = &policy_mixed,
		.block_size = 65536,
		.kv_block_count = 1U << 28,
		.max_num_seqs = 65536,
		.max_num_batched_tokens = 1U << 28,
		.max_model_len = 1U << 28,
		.eos_token_id = -1};
	cr_assert_eq(engine_config_validate(&good, &error), STATUS_OK, "%s", error.text);
	struct engine_config config = good;
	config.block_size = 0;
	refuses(config, "block-size", "0");
	config.block_size = 65537;
	refuses(config, "block-size", "65537");
	config = good;
	config.kv_block_count = 0;
	refuses(config, "kv-blocks", "0");
	config.kv_block_count = (1U << 28) + 1;
	refuses(config, "kv-blocks", "268435457");
	config = good;
	config.max_num_seqs = 0;
	refuses(config, "max-num-seqs", "0");
	config = good;
	config.max_num_batched_tokens = 0;
	refuses(config, "max-num-batched-tokens", "0");
	config = good;
	config.max_model_len = 0;
	refuses(config, "max-model-len", "0");
	config.max_model_len = UINT32_MAX;
	refuses(config, "max-model-len", "4294967295");
}

Test(engine, a_policy_names_both_limits_that_it_wants_otherwise)
{
	struct engine_config config = {.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 4,
		.max_num_seqs = 8,
		.max_num_batched_tokens = 7,
		.max_model_len = 100,
		.eos_token_id = -1};
	struct error error = {0};
	refuses(config, "max-num-batched-tokens", "max-num-seqs");
	config.max_num_batched_tokens = 8;
	cr_assert_eq(engine_config_validate(&config, &error), STATUS_OK, "%s", error.text);
	config.policy = &policy_prefill_first;
	config.max_num_batched_tokens = 99;
	refuses(config, "max-num-batched-tokens", "max-model-len");
	config.max_num_batched_tokens = 100;
	cr_assert_eq(engine_config_validate(&config, &error), STATUS_OK, "%s", error.text);
}

Test(engine, an_engine_that_did_not_open_can_be_closed)
{
	struct engine *engine;
	struct error error = {0};
	struct engine_config config = {.policy = &policy_mixed};
	struct runner runner = {.name = "none"};
	cr_assert_eq(engine_open(&engine, &config, &runner, &error), STATUS_USAGE);
	engine_close(engine);
}

Test(engine, policies_have_names_of_their_own)
{
	uint32_t count = 0;

	for (; policy_at(count) != NULL; count++) {
		for (uint32_t i = 0; i < count; i++) {
			cr_assert_str_neq(policy_at(i)->name, policy_at(count)->name);
		}
	}
	cr_assert_geq(count, 3);
	cr_assert_null(policy_at(UINT32_MAX));
}

/* ---- fitting ---- */

/* Policies that serve a request whole or not at all. */
static const struct policy *const whole[] = {&policy_mixed, &policy_prefill_first};

enum { WHOLE_COUNT = sizeof(whole) / sizeof(whole[0]) };

Test(engine, the_last_token_needs_no_place)
{
	struct engine_config config = {
		.policy = &policy_mixed, .block_size = 4, .kv_block_count = 2, .max_model_len = 20};
	cr_assert_eq(engine_config_fit(&config, 8, 1), FIT_OK);
	cr_assert_eq(engine_config_fit(&config, 9, 1), FIT_NEVER);
	cr_assert_eq(engine_config_fit(&config, 1, 8), FIT_OK);
	cr_assert_eq(engine_config_fit(&config, 1, 9), FIT_NEVER);
	cr_assert_eq(engine_config_fit(&config, 19, 1), FIT_NEVER);
	cr_assert_eq(engine_config_fit(&config, 20, 1), FIT_TOO_LONG);
	cr_assert_eq(engine_config_fit(&config, 1, 20), FIT_TOO_LONG);
	cr_assert_eq(engine_config_fit(&config, UINT32_MAX, UINT32_MAX), FIT_TOO_LONG);
	config.kv_block_count = 100;
	cr_assert_eq(engine_config_fit(&config, 19, 1), FIT_OK);
}

/* Policy vllm serves every prompt that leaves room for a token, and ends its answer there. */
Test(engine, an_answer_is_capped_at_the_longest_sequence)
{
	struct engine_config config = {.policy = &policy_vllm,
		.block_size = 4,
		.kv_block_count = 6,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 8,
		.max_model_len = 20,
		.strategies = {.has_null_block = true}};
	struct error error = {0};
	cr_assert_eq(engine_config_validate(&config, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(engine_config_fit(&config, 19, 1000), FIT_OK);
	cr_assert_eq(engine_config_fit(&config, 20, 1), FIT_TOO_LONG);
	cr_assert_eq(engine_config_answer_limit(&config, 19, 1000), 1);
	cr_assert_eq(engine_config_answer_limit(&config, 12, 8), 8);
	cr_assert_eq(engine_config_answer_limit(&config, 12, 9), 8);
	config.kv_block_count = 5; /* with the null block */
	cr_assert_eq(engine_config_validate(&config, &error), STATUS_USAGE);
	config.kv_block_count = 6;
	config.has_whole_prompts = true;
	error = (struct error){0};
	cr_assert_eq(engine_config_validate(&config, &error), STATUS_USAGE);
}

Test(engine, is_asynchronous_by_policy_vllm_alone)
{
	static const struct policy *const policies[] = {
		&policy_vllm, &policy_mixed, &policy_prefill_first};

	for (uint32_t i = 0; i < 3; i++) {
		const struct engine_config config = {.policy = policies[i],
			.block_size = 4,
			.kv_block_count = 8,
			.max_num_seqs = 2,
			.max_num_batched_tokens = 20,
			.max_model_len = 20,
			.strategies = {.has_null_block = i == 0},
			.is_async = true};
		struct error error = {0};
		char line[100];
		snprintf(line, sizeof(line),
			"policy %s has no asynchronous scheduling; policy vllm has",
			policies[i]->name);
		cr_assert_eq(engine_config_validate(&config, &error),
			i == 0 ? STATUS_OK : STATUS_USAGE, "%s", error.text);
		cr_assert(i == 0 || strcmp(error.text, line) == 0, "%s", error.text);
	}
}

/* Rejections lead the events of the next step, and the run goes on. */
Test(engine, what_cannot_be_served_is_rejected_and_the_run_goes_on)
{
	struct bench bench;
	open_bench(&bench, &policy_mixed, 4, 4, 4);
	cr_assert_eq(add(&bench, 0, 60, 5), FIT_TOO_LONG);
	cr_assert_eq(add(&bench, 1, 17, 1), FIT_NEVER);
	cr_assert_not(engine_has_work(bench.engine));
	cr_assert_eq(add(&bench, 2, 16, 1), FIT_OK);
	expect_step(&bench, "R0 R1 A2 b2 b2 b2 b2 c2 F2");
	const struct event_list *events = engine_decisions(bench.engine).events;
	cr_assert_eq(events->events[0].a, FIT_TOO_LONG);
	cr_assert_eq(events->events[0].b, 65);
	cr_assert_null(events->events[0].sequence);
	cr_assert_eq(events->events[1].a, FIT_NEVER);
	cr_assert_eq(events->events[1].b, 18);
	cr_assert_eq(take(&bench)->request, 2);
	cr_assert_null(take(&bench));
	close_bench(&bench);
}

/* ---- small worlds ---- */

Test(engine, an_empty_engine_has_nothing_to_do)
{
	struct bench bench;
	open_bench(&bench, &policy_mixed, 4, 4, 4);
	cr_assert_not(engine_has_work(bench.engine));
	cr_assert(engine_has_room(bench.engine));
	cr_assert_null(engine_schedule(bench.engine));
	cr_assert_null(engine_schedule(bench.engine));
	cr_assert_null(take(&bench));
	cr_assert_eq(engine_decisions(bench.engine).events->count, 0);
	engine_check(bench.engine);
	close_bench(&bench);
}

/* One token in, one token out, one block of one token, one sequence. */
Test(engine, the_smallest_request_in_the_smallest_engine)
{
	for (uint32_t i = 0; i < WHOLE_COUNT; i++) {
		struct bench bench;
		open_bench(&bench, whole[i], 1, 1, 1);
		cr_assert_eq(add(&bench, 0, 1, 1), FIT_OK);
		cr_assert_eq(add(&bench, 1, 1, 2), FIT_NEVER);
		expect_step(&bench, "R1 A0 b0 c0 F0");
		const struct sequence *sequence = take(&bench);
		cr_assert_eq(sequence_completion_count(sequence), 1);
		cr_assert_eq(sequence->status, SEQUENCE_FINISHED);
		cr_assert_not(engine_has_work(bench.engine));
		cr_assert_eq(bench.engine->scheduler.blocks.free_count, 1);
		/* The same again: its only block is cached, and yet it is computed again. */
		cr_assert_eq(add(&bench, 2, 1, 1), FIT_OK);
		expect_step(&bench, "A2 b2 c2 F2");
		close_bench(&bench);
	}
}

Test(engine, a_lone_sequence_grows_to_the_whole_pool)
{
	for (uint32_t i = 0; i < WHOLE_COUNT; i++) {
		struct bench bench;
		open_bench(&bench, whole[i], 2, 3, 2);
		cr_assert_eq(add(&bench, 0, 1, 6), FIT_OK);
		expect_step(&bench, "A0 b0 c0");
		expect_step(&bench, "");
		expect_step(&bench, "b0");
		expect_step(&bench, "");
		expect_step(&bench, "b0");
		cr_assert_eq(bench.engine->scheduler.blocks.free_count, 0);
		expect_step(&bench, "F0");
		cr_assert_eq(sequence_completion_count(take(&bench)), 6);
		cr_assert_eq(bench.engine->scheduler.blocks.free_count, 3);
		close_bench(&bench);
	}
}

/* Two sequences that each may need the whole pool: the older one proceeds, the newer one is
   preempted as often as needed, and its first block is hit again. */
Test(engine, a_full_pool_preempts_back_and_forth_and_ends)
{
	struct bench bench;
	open_bench(&bench, &policy_mixed, 2, 4, 2);
	cr_assert_eq(add(&bench, 0, 3, 6), FIT_OK);
	cr_assert_eq(add(&bench, 1, 3, 6), FIT_OK);
	expect_step(&bench, "A0 b0 b0 c0 A1 b1 b1 c1");
	expect_step(&bench, "");
	/* Both are at the end of their blocks and none is free. */
	expect_step(&bench, "P1 b0");
	cr_assert_eq(engine_decisions(bench.engine).events->events[0].a, 4);
	cr_assert_eq(engine_decisions(bench.engine).events->events[0].b, 2);
	/* Three blocks are needed, one is free. */
	expect_step(&bench, "");
	expect_step(&bench, "b0");
	expect_step(&bench, "F0");
	cr_assert_eq(bench.engine->scheduler.blocks.free_count, 4);
	expect_step(&bench, "A1 b1 b1 b1 c1");
	const struct event *admitted = &engine_decisions(bench.engine).events->events[0];
	cr_assert_eq(admitted->a % 2, 0);
	cr_assert_eq(admitted->b, 5);
	uint32_t steps = 0;
	while (engine_has_work(bench.engine)) {
		step(&bench);
		steps++;
	}
	cr_assert_eq(steps, 3);
	cr_assert_eq(take(&bench)->preemption_count, 0);
	const struct sequence *second = take(&bench);
	cr_assert_eq(second->preemption_count, 1);
	cr_assert_eq(second->computed_high, 4);
	cr_assert_eq(sequence_completion_count(second), 6);
	close_bench(&bench);
}

/* Equal prompts in one step: the second shares the blocks that the first fills in that step. */
Test(engine, twins_of_one_step_share)
{
	struct bench bench;
	open_bench(&bench, &policy_mixed, 4, 8, 4);
	int32_t prompt[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	for (uint64_t id = 0; id < 2; id++) {
		struct request request = {
			.id = id, .prompt = prompt, .prompt_count = 9, .max_tokens = 2};
		cr_assert_eq(engine_add(bench.engine, &request, NULL), FIT_OK);
		kv_oracle_add(&bench.oracle, &request);
	}
	const struct batch *batch = engine_schedule(bench.engine);
	cr_assert_eq(batch->counts.cached_tokens, 8);
	cr_assert_eq(batch->counts.prefill_tokens, 10);
	cr_assert_eq(batch->counts.used_blocks, 4);
	cr_assert_eq(batch->counts.prefill_shared_tokens, 8);
	cr_assert_eq(batch->counts.shared_tokens, 0);
	cr_assert_eq(batch->counts.reread_tokens, 0);
	struct step_time time;
	struct error error = {0};
	cr_assert_eq(engine_execute(bench.engine, &time, &error), STATUS_OK);
	engine_postprocess(bench.engine);
	batch = engine_schedule(bench.engine);
	cr_assert_eq(batch->counts.decode_rows, 2);
	cr_assert_eq(batch->counts.prefill_shared_tokens, 0);
	cr_assert_eq(batch->counts.shared_tokens, 8);
	cr_assert_eq(batch->counts.reread_tokens, 4);
	cr_assert_eq(batch->counts.repeat_tokens, 0);
	cr_assert_eq(engine_execute(bench.engine, &time, &error), STATUS_OK);
	engine_postprocess(bench.engine);
	cr_assert_eq(bench.engine->scheduler.blocks.free_count, 8);
	close_bench(&bench);
}

/* One reading of a block serves two rows, as the runner says: a third needs a second one, which
   serves a fourth too. The prompt that joins them has no decode row yet, and shares with no other
   prompt. */
Test(engine, a_block_is_read_again_for_each_two_rows_that_hold_it)
{
	static const uint64_t repeats[] = {0, 0, 0, 8, 8};
	struct bench bench;
	open_bench(&bench, &policy_mixed, 4, 16, 5);
	int32_t prompt[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	for (uint64_t id = 0; id < 5; id++) {
		struct request request = {
			.id = id, .prompt = prompt, .prompt_count = 9, .max_tokens = 8};
		cr_assert_eq(engine_add(bench.engine, &request, NULL), FIT_OK);
		kv_oracle_add(&bench.oracle, &request);
		const struct batch *batch = engine_schedule(bench.engine);
		cr_assert_eq(batch->counts.decode_rows, id);
		cr_assert_eq(batch->counts.prefill_rows, 1);
		cr_assert_eq(batch->counts.shared_tokens, id == 0 ? 0 : 8 * (id - 1));
		require_equal(batch->counts.repeat_tokens, repeats[id]);
		cr_assert_eq(batch->counts.prefill_shared_tokens, 0);
		struct step_time time;
		struct error error = {0};
		cr_assert_eq(engine_execute(bench.engine, &time, &error), STATUS_OK);
		engine_postprocess(bench.engine);
	}
	close_bench(&bench);
}

/* The cache is lost with the requests; steps are counted on, and the log of blocks goes on. */
Test(engine, a_restarted_engine_is_empty_and_counts_its_steps_on)
{
	struct bench bench;
	struct block_log log = {0};

	open_bench(&bench, &policy_mixed, 4, 16, 4);
	engine_set_block_log(bench.engine, &log);
	cr_assert_eq(add(&bench, 1, 17, 9), FIT_OK);
	cr_assert_eq(add(&bench, 2, 9, 9), FIT_OK);
	step(&bench);
	step(&bench);
	cr_assert_eq(engine_batch(bench.engine)->step, 1);
	cr_assert_eq(log.count, 4 + 2);
	engine_restart(bench.engine);
	engine_check(bench.engine);
	cr_assert(!engine_has_work(bench.engine) && engine_has_room(bench.engine));
	cr_assert_eq(engine_used_block_count(bench.engine), 0);
	log.count = 0;
	int32_t prompt[17];
	for (int32_t i = 0; i < 17; i++) {
		prompt[i] = 1000 + i;
	}
	const struct request again = {
		.id = 3, .prompt = prompt, .prompt_count = 17, .max_tokens = 2};
	cr_assert_eq(engine_add(bench.engine, &again, NULL), FIT_OK);
	kv_oracle_add(&bench.oracle, &again);
	step(&bench);
	const struct batch *batch = engine_batch(bench.engine);
	cr_assert_eq(batch->step, 2);
	cr_assert_eq(batch->counts.prefill_tokens, 17);
	cr_assert_eq(batch->counts.cached_tokens, 0);
	cr_assert_eq(log.count, 4);
	close_bench(&bench);
	free(log.changes);
}

static enum status refuse_batch(void *state, const struct batch *batch, struct error *error)
{
	(void)state;
	(void)batch;
	return error_set(error, STATUS_DEVICE, "nothing to launch");
}

static enum status refuse_to_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	(void)state;
	(void)token_ids;
	(void)time;
	return error_set(error, STATUS_DEVICE, "nothing to collect");
}

static enum status refuse_to_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)batch;
	return refuse_to_collect(state, token_ids, time, error);
}

/* The runner does not hear of a step without rows, as that of an engine before its first one. */
Test(engine, a_step_without_rows_takes_no_time)
{
	const struct engine_config config = {.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 8,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 8,
		.max_model_len = 16};
	const struct runner runner = {.name = "refuses",
		.execute = refuse_to_execute,
		.launch = refuse_batch,
		.collect = refuse_to_collect};
	const struct step_time none = {0};
	struct step_time time;
	struct engine *engine;
	struct error error = {0};

	cr_assert_eq(engine_open(&engine, &config, &runner, &error), STATUS_OK);
	memset(&time, 0xff, sizeof(time));
	cr_assert_eq(engine_execute(engine, &time, &error), STATUS_OK);
	cr_assert_arr_eq(&time, &none, sizeof(none));
	memset(&time, 0xff, sizeof(time));
	cr_assert_eq(engine_launch(engine, &error), STATUS_OK);
	cr_assert_eq(engine_collect(engine, &time, &error), STATUS_OK);
	cr_assert_arr_eq(&time, &none, sizeof(none));
	engine_close(engine);
}

/* ---- launches in parts ---- */

enum { LAUNCH_PARTS = 5 };

/* A runner whose step before ends when so many parts of the next are launched. */
struct parts_runner {
	uint32_t ends_after, fails_at; /* parts of the latest step */
	uint32_t parts, whole_count, collect_count;
};

static enum status parts_launch(void *state, const struct batch *batch, struct error *error)
{
	struct parts_runner *own = state;

	(void)batch;
	(void)error;
	require(own->parts == 0 || own->parts == LAUNCH_PARTS, "%u parts are launched", own->parts);
	own->parts = 0;
	return STATUS_OK;
}

static enum status parts_launch_part(void *state, bool *is_whole, struct error *error)
{
	struct parts_runner *own = state;

	require(own->parts < LAUNCH_PARTS, "a part too many");
	if (++own->parts == own->fails_at) {
		return error_set(error, STATUS_DEVICE, "part %u fails", own->parts);
	}
	*is_whole = own->parts == LAUNCH_PARTS;
	own->whole_count += *is_whole;
	return STATUS_OK;
}

static bool parts_has_ended(void *state)
{
	const struct parts_runner *own = state;

	return own->parts >= own->ends_after;
}

static enum status parts_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct parts_runner *own = state;

	(void)token_ids;
	(void)time;
	(void)error;
	require(own->collect_count < own->whole_count, "a step that is not launched whole");
	own->collect_count++;
	return STATUS_OK;
}

static struct engine *open_parts(struct runner *runner, struct parts_runner *parts)
{
	static const int32_t prompt[4] = {1, 2, 3, 4};
	static const int32_t forced[9];
	const struct engine_config config = {.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 8,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 8,
		.max_model_len = 16,
		.eos_token_id = -1};
	const struct request request = {.prompt = prompt,
		.prompt_count = 4,
		.forced = forced,
		.max_tokens = 9,
		.ignore_eos = true};
	struct engine *engine;
	struct error error = {0};

	*runner = (struct runner){.name = "parts",
		.state = parts,
		.launch = parts_launch,
		.launch_part = parts_launch_part,
		.has_ended = parts_has_ended,
		.collect = parts_collect};
	cr_assert_eq(engine_open(&engine, &config, runner, &error), STATUS_OK);
	cr_assert_eq(engine_add(engine, &request, NULL), FIT_OK);
	return engine;
}

static enum status launch_next(struct engine *engine, struct error *error)
{
	cr_assert(engine_schedule(engine) != NULL);
	enum status status = engine_launch(engine, error);
	engine_postprocess(engine);
	return status;
}

/* A launch stops at the end of the step in flight before it, and only there. Whatever is called
   next launches the rest first. */
Test(engine, launches_until_the_step_before_has_ended)
{
	for (uint32_t ends_after = 0; ends_after <= LAUNCH_PARTS + 1; ends_after++) {
		struct parts_runner parts = {.ends_after = ends_after};
		struct runner runner;
		struct step_time time;
		struct error error = {0};
		struct engine *engine = open_parts(&runner, &parts);
		uint32_t stop = ends_after < LAUNCH_PARTS ? ends_after : LAUNCH_PARTS;

		/* nothing is in flight */
		cr_assert_eq(launch_next(engine, &error), STATUS_OK);
		cr_assert_eq(parts.parts, LAUNCH_PARTS);
		/* the caller launches the rest, then a collection, then a launch */
		for (uint32_t i = 0; i < 3; i++) {
			cr_assert_eq(launch_next(engine, &error), STATUS_OK);
			cr_assert_eq(parts.parts, stop);
			cr_assert_eq(engine_collect(engine, &time, &error), STATUS_OK);
			cr_assert_eq(parts.parts, stop);
			if (i == 0) {
				cr_assert_eq(engine_launch_rest(engine, &error), STATUS_OK);
				cr_assert_eq(parts.parts, LAUNCH_PARTS);
				cr_assert_eq(engine_launch_rest(engine, &error), STATUS_OK);
			} else if (i == 1) {
				cr_assert_eq(engine_collect(engine, &time, &error), STATUS_OK);
				cr_assert_eq(parts.parts, LAUNCH_PARTS);
				cr_assert_eq(launch_next(engine, &error), STATUS_OK);
				cr_assert_eq(parts.parts, LAUNCH_PARTS);
			}
		}
		cr_assert_eq(launch_next(engine, &error), STATUS_OK);
		cr_assert_eq(parts.whole_count, 5 + (stop == LAUNCH_PARTS));
		engine_close(engine);
	}
}

/* A part that fails is the launch that fails; nothing is launched behind it. The step before can be
   collected all the same. */
Test(engine, a_part_that_fails_ends_the_launch)
{
	for (uint32_t fails_at = 1; fails_at <= LAUNCH_PARTS; fails_at++) {
		struct parts_runner parts = {.ends_after = 3};
		struct runner runner;
		struct step_time time;
		struct error error = {0}, none = {0};
		struct engine *engine = open_parts(&runner, &parts);

		cr_assert_eq(launch_next(engine, &error), STATUS_OK);
		parts.fails_at = fails_at;
		enum status status = launch_next(engine, &error);
		cr_assert_eq(status, fails_at <= 3 ? STATUS_DEVICE : STATUS_OK);
		cr_assert_eq(engine_collect(engine, &time, &none), STATUS_OK);
		cr_assert_eq(engine_launch_rest(engine, &error),
			fails_at <= 3 ? STATUS_OK : STATUS_DEVICE);
		cr_assert_eq(error.status, STATUS_DEVICE);
		cr_assert_eq(parts.parts, fails_at);
		cr_assert_eq(engine_launch_rest(engine, &none), STATUS_OK);
		engine_close(engine);
	}
}

/* Of a prompt's blocks an engine tells those that it has, and those that sequences hold. A longer
   prompt holds four; when it has ended they stay cached, and a shorter one holds two of them. */
Test(engine, cached_blocks_are_held_or_not)
{
	struct bench bench;
	int32_t prompt[20];
	struct block_key keys[5] = {{0, 0}};
	const struct {
		uint32_t cached, held;
	} expected[] = {{0, 0}, {4, 4}, {4, 0}, {4, 2}, {4, 0}};
	const struct request requests[] = {
		{.id = 0, .prompt = prompt, .prompt_count = 17, .max_tokens = 2},
		{.id = 1, .prompt = prompt, .prompt_count = 9, .max_tokens = 2}};

	open_bench(&bench, &policy_mixed, 4, 8, 4);
	for (int32_t i = 0; i < 20; i++) {
		prompt[i] = 40 + i;
	}
	for (uint32_t i = 0; i < 5; i++) {
		struct block_key before = i == 0 ? (struct block_key){0, 0} : keys[i - 1];
		keys[i] = block_key_of_tokens(before, prompt + 4 * i, 4);
	}
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t held = 99;
		uint32_t cached = engine_cached_prefix(bench.engine, keys, 5, 5, &held);
		require_equal(cached, expected[i].cached);
		require_equal(held, expected[i].held);
		require_equal(engine_cached_prefix(bench.engine, keys, 1, 1, &held), cached > 0);
		require_equal(held, expected[i].held > 0);
		require_equal(engine_cached_prefix(bench.engine, keys, 5, 1, &held), cached);
		require_equal(held, expected[i].held > 0);
		if (i == 0 || i == 2) {
			cr_assert_eq(engine_add(bench.engine, &requests[i / 2], NULL), FIT_OK);
			kv_oracle_add(&bench.oracle, &requests[i / 2]);
		}
		if (i < 4) {
			step(&bench);
		}
	}
	close_bench(&bench);
}

/* What a request says is stored is a hit like any other: the runner gets the blocks, and computes
   what is behind them. Both find what either stored. */
Test(engine, stored_tokens_are_hits_that_nothing_computed)
{
	struct bench bench;
	int32_t prompt[30];

	open_bench(&bench, &policy_mixed, 4, 12, 4);
	for (int32_t i = 0; i < 30; i++) {
		prompt[i] = i;
	}
	for (uint32_t id = 0; id < 2; id++) {
		struct request request = {.id = id,
			.prompt = prompt,
			.prompt_count = id == 0 ? 22 : 30,
			.max_tokens = 2,
			.stored_count = id == 0 ? 19 : 27,
			.ignore_eos = true};
		cr_assert_eq(engine_add(bench.engine, &request, NULL), FIT_OK);
		engine_check(bench.engine);
		require_equal(engine_used_block_count(bench.engine), 0);
	}
	const struct batch *batch = engine_schedule(bench.engine);
	require_equal(batch->counts.cached_tokens, 20 + 24);
	require_equal(batch->counts.prefill_tokens, 2 + 6);
	require_equal(batch->counts.used_blocks, 6 + 3);
	require_equal(batch->counts.prefill_attention_pairs,
		batch_attention_pairs(20, 2) + batch_attention_pairs(24, 6));
	require_equal(batch->position[0], 20);
	require_equal(batch->position[2], 24);
	require_equal(batch->context_length[1], 30);
	/* Every entry of both block tables is given; the first five blocks are the same. */
	require_equal(batch->addition_count, 6 + 8);
	for (uint32_t i = 0; i < 8; i++) {
		const struct block_addition *second = &batch->additions[6 + i];
		require_equal(second->index, i);
		require_equal(i < 5, i < 6 && second->block == batch->additions[i].block);
	}
	engine_check(bench.engine);
	close_bench(&bench);
}

/* Where the pool has no room beside those that run, it is computed as any prompt. */
Test(engine, stored_tokens_without_room_are_computed)
{
	struct bench bench;

	open_bench(&bench, &policy_mixed, 4, 6, 4);
	add(&bench, 0, 12, 1);
	step(&bench);
	engine_take_finished(bench.engine);
	add(&bench, 1, 12, 4);
	step(&bench);
	int32_t prompt[17] = {77};
	struct request request = {
		.id = 2, .prompt = prompt, .prompt_count = 17, .max_tokens = 1, .stored_count = 16};
	cr_assert_eq(engine_add(bench.engine, &request, NULL), FIT_OK);
	engine_check(bench.engine);
	kv_oracle_add(&bench.oracle, &request);
	while (engine_has_work(bench.engine)) {
		step(&bench); /* the oracle refuses what nothing computed */
	}
	close_bench(&bench);
}

/* ---- tokens ---- */

/* Forced tokens end at an EOS among them, unless the sequence ignores it. */
Test(engine, forced_tokens_end_where_they_say)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct engine *engine;
		struct error error = {0};
		uint64_t seed = 0;
		struct runner runner = counting_runner(&seed);
		struct engine_config config = {.policy = &policy_mixed,
			.block_size = 4,
			.kv_block_count = 8,
			.max_num_seqs = 2,
			.max_num_batched_tokens = 16,
			.max_model_len = 16,
			.eos_token_id = 7};
		const int32_t prompt[] = {7, 7};
		const int32_t forced[] = {1, 2, 7, 4, 7};
		cr_assert_eq(engine_open(&engine, &config, &runner, &error), STATUS_OK);
		cr_assert_eq(engine_add(engine,
				     &(struct request){.prompt = prompt,
					     .prompt_count = 2,
					     .forced = forced,
					     .max_tokens = 5,
					     .ignore_eos = i == 1},
				     NULL),
			FIT_OK);
		uint32_t steps = 0;
		struct step_time time;
		while (engine_has_work(engine)) {
			cr_assert_eq(engine_step(engine, &time, &error), STATUS_OK);
			engine_check(engine);
			steps++;
		}
		const struct sequence *sequence = engine_take_finished(engine);
		cr_assert_eq(steps, i == 0 ? 3 : 5);
		cr_assert_eq(sequence_completion_count(sequence), steps);
		cr_assert_arr_eq(sequence->token_ids + 2, forced, steps * sizeof(int32_t));
		engine_close(engine);
	}
}

/* A sequence that was not visited for some passes still has all its tokens. */
Test(engine, the_count_of_tokens_holds_for_a_sequence_at_rest)
{
	struct engine *engine;
	struct error error = {0};
	uint64_t seed = 0;
	struct runner runner = counting_runner(&seed);
	struct engine_config config = {.policy = &policy_mixed,
		.block_size = 64,
		.kv_block_count = 8,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 64,
		.max_model_len = 64,
		.eos_token_id = -1};
	int32_t tokens[40] = {0};
	cr_assert_eq(engine_open(&engine, &config, &runner, &error), STATUS_OK);
	/* The second one joins after some decode passes. */
	for (uint32_t round = 0; round < 2; round++) {
		cr_assert_eq(engine_add(engine,
				     &(struct request){.id = round,
					     .prompt = tokens,
					     .prompt_count = 5,
					     .forced = tokens,
					     .max_tokens = 40},
				     NULL),
			FIT_OK);
		for (uint32_t i = 1; i <= 40; i++) {
			const struct sequence *sequence = engine->scheduler.waiting.head;
			sequence = sequence == NULL ? engine->scheduler.running.head : sequence;
			struct step_time time;
			cr_assert_eq(engine_step(engine, &time, &error), STATUS_OK);
			cr_assert_eq(engine_token_count(engine, sequence), 5 + i);
		}
	}
	engine_close(engine);
}

/* ---- queues and room ---- */

/* There is room for max_num_seqs waiting sequences in every state of the engine. */
Test(engine, room_is_guaranteed_while_few_wait)
{
	struct bench bench;
	open_bench(&bench, &policy_prefill_first, 1, 8, 2);
	uint64_t id = 0;
	while (id < REQUEST_LIMIT || engine_has_work(bench.engine)) {
		while (id < REQUEST_LIMIT && bench.engine->scheduler.waiting.count < 2) {
			cr_assert(engine_has_room(bench.engine));
			cr_assert_eq(add(&bench, id++, 1, 8), FIT_OK);
		}
		cr_assert_not(id < REQUEST_LIMIT && engine_has_room(bench.engine));
		step(&bench);
		while (take(&bench) != NULL) {
		}
	}
	close_bench(&bench);
}

/* Finished sequences that the caller still reads do not reduce the room for others, not even while
   the next step is in flight. */
Test(engine, room_is_guaranteed_while_some_are_taken)
{
	struct bench bench;
	struct step_time time;
	struct error error = {0};

	open_bench(&bench, &policy_mixed, 4, 16, 2);
	for (uint64_t id = 0; id < REQUEST_LIMIT; id += 2) {
		const struct sequence *taken[2];
		add(&bench, id, 1, 1);
		add(&bench, id + 1, 1, 1);
		cr_assert_not(engine_has_room(bench.engine));
		engine_schedule(bench.engine);
		cr_assert_eq(engine_execute(bench.engine, &time, &error), STATUS_OK);
		if (id > 0) {
			/* The next sequences are added, and the finished ones are still valid. */
			cr_assert_eq(bench.engine->scheduler.given.head->request, id - 2);
			cr_assert_eq(bench.engine->scheduler.given.tail->request, id - 1);
		}
		engine_postprocess(bench.engine);
		engine_check(bench.engine);
		taken[0] = take(&bench);
		taken[1] = take(&bench);
		cr_assert_null(take(&bench));
		cr_assert_eq(taken[0]->request, id);
		cr_assert_eq(taken[1]->token_ids[0], (int32_t)((id + 1) * 1000));
	}
	cr_assert_leq(bench.engine->scheduler.pool_count, bench.engine->scheduler.pool_capacity);
	close_bench(&bench);
}

/* A request rejected while a step is in progress precedes the step's other events, after earlier
   rejections. */
Test(engine, a_rejection_comes_in_front_of_what_was_decided)
{
	struct bench bench;
	char text[512];
	struct step_time time;
	struct error error = {0};

	open_bench(&bench, &policy_mixed, 4, 16, 2);
	add(&bench, 0, 1, 1);
	cr_assert_neq(add(&bench, 1, 60, 60), FIT_OK);
	engine_schedule(bench.engine);
	cr_assert_neq(add(&bench, 2, 60, 60), FIT_OK);
	cr_assert_neq(add(&bench, 3, 60, 60), FIT_OK);
	cr_assert_eq(engine_execute(bench.engine, &time, &error), STATUS_OK);
	engine_postprocess(bench.engine);
	events_as_text(&bench, text, sizeof(text));
	cr_assert_str_eq(text, "R1 R2 R3 A0 b0 c0 F0");
	close_bench(&bench);
}

/* Arrivals change the next step only while a request behind the present ones could be admitted. */
Test(engine, next_step_depends_on_arrivals_while_one_could_be_admitted)
{
	static const struct policy *const policies[] = {&policy_mixed, &policy_prefill_first};

	for (uint32_t i = 0; i < 2; i++) {
		struct bench bench;
		bool is_mixed = i == 0;
		open_bench(&bench, policies[i], 2, 8, 2);
		cr_assert(engine_next_step_depends_on_arrivals(bench.engine));
		add(&bench, 0, 1, 8);
		cr_assert(engine_next_step_depends_on_arrivals(bench.engine));
		add(&bench, 1, 1, 8);
		cr_assert_not(engine_next_step_depends_on_arrivals(
			bench.engine)); /* both seats will be occupied */
		step(&bench);
		/* prefill-first has max_num_seqs seats in each step; here blocks are free too. */
		cr_assert_eq(engine_next_step_depends_on_arrivals(bench.engine), !is_mixed);
		add(&bench, 2, 1, 8);
		cr_assert_eq(engine_next_step_depends_on_arrivals(bench.engine), !is_mixed);
		close_bench(&bench);
	}
}

/* With no free block, no arrival can be admitted until a sequence ends. */
Test(engine, does_not_depend_on_arrivals_without_a_free_block)
{
	for (uint32_t i = 0; i < WHOLE_COUNT; i++) {
		struct bench bench;
		open_bench(&bench, whole[i], 4, 2, 4);
		add(&bench, 0, 4, 4);
		step(&bench);
		cr_assert(engine_next_step_depends_on_arrivals(bench.engine));
		step(&bench); /* the completion begins the second block */
		cr_assert_not(engine_next_step_depends_on_arrivals(bench.engine));
		close_bench(&bench);
	}
}

/* More sequences than a machine word has bits: each has a row of its own, the lowest that is free.
 */
Test(engine, many_sequences_have_rows_of_their_own)
{
	struct engine *engine;
	struct error error = {0};
	struct step_time time;
	uint64_t seed = 0;
	struct runner runner = counting_runner(&seed);
	struct engine_config config = {.policy = &policy_mixed,
		.block_size = 1,
		.kv_block_count = 2000,
		.max_num_seqs = 200,
		.max_num_batched_tokens = 200,
		.max_model_len = 16,
		.eos_token_id = -1};
	const int32_t tokens[8] = {0};
	cr_assert_eq(engine_open(&engine, &config, &runner, &error), STATUS_OK);
	for (uint64_t id = 0; id < 200; id++) {
		cr_assert_eq(engine_add(engine,
				     &(struct request){.id = id,
					     .prompt = tokens,
					     .prompt_count = 1,
					     .forced = tokens,
					     .max_tokens = id == 70 ? 1 : 8},
				     NULL),
			FIT_OK);
	}
	cr_assert_eq(engine_step(engine, &time, &error), STATUS_OK);
	engine_check(engine);
	uint32_t expected = 0;
	for (const struct sequence *s = engine->scheduler.running.head; s != NULL; s = s->next) {
		expected += expected == 70;
		cr_assert_eq(s->row, expected++);
	}
	cr_assert_eq(expected, 200);
	cr_assert_eq(engine_add(engine,
			     &(struct request){.id = 200,
				     .prompt = tokens,
				     .prompt_count = 1,
				     .forced = tokens,
				     .max_tokens = 8},
			     NULL),
		FIT_OK);
	cr_assert_eq(engine_step(engine, &time, &error), STATUS_OK);
	cr_assert_eq(engine->scheduler.running.tail->row, 70);
	engine_check(engine);
	engine_close(engine);
}

Test(engine, its_check_reaches_the_blocks, .signal = SIGABRT)
{
	struct bench bench;
	open_bench(&bench, &policy_mixed, 4, 16, 2);
	bench.engine->scheduler.blocks.free_count--;
	engine_check(bench.engine);
}

enum { CORRUPTIONS = 12 };

/* What no step leaves behind, in an engine of two running sequences and a waiting one. */
static void corrupt(struct scheduler *scheduler, uint32_t which)
{
	struct sequence *first = scheduler->running.head, *last = scheduler->running.tail;

	switch (which) {
	case 0:
		scheduler->blocks.blocks[first->block_table[0]].reference_count++;
		break;
	case 1:
		scheduler->blocks.blocks[first->block_table[0]].reference_count--;
		break;
	case 2:
		first->block_table[0] = last->block_table[0];
		break;
	case 3:
		first->row = last->row;
		break;
	case 4:
		scheduler->free_rows[0] = ~UINT64_C(0);
		break;
	case 5:
		scheduler->waiting.count++;
		break;
	case 6:
		scheduler->running.tail = first;
		break;
	case 7:
		last->previous = NULL;
		break;
	case 8:
		scheduler->waiting.head->status = SEQUENCE_RUNNING;
		break;
	case 9:
		first->cached_count++;
		break;
	case 10:
		last->block_count--;
		break;
	default:
		first->token_count = first->computed_count;
	}
}

Test(engine, its_check_finds_what_no_step_leaves_behind)
{
	struct bench bench;

	open_bench(&bench, &policy_mixed, 4, 16, 2);
	for (uint64_t id = 0; id < 3; id++) {
		add(&bench, id, 9, 8);
	}
	expect_step(&bench, "A0 b0 b0 b0 c0 A1 b1 b1 b1 c1");
	engine_check(bench.engine);
	for (uint32_t which = 0; which < CORRUPTIONS; which++) {
		int state = 0;
		pid_t child = fork();
		if (child == 0) {
			require(freopen("/dev/null", "w", stderr) != NULL, "no /dev/null");
			signal(SIGABRT, SIG_DFL);
			corrupt(&bench.engine->scheduler, which);
			engine_check(bench.engine);
			_exit(0);
		}
		require(child > 0 && waitpid(child, &state, 0) == child, "no child");
		require(WIFSIGNALED(state) && WTERMSIG(state) == SIGABRT, "corruption %u", which);
	}
	close_bench(&bench);
}

/* Finished sequences come out in order, stay valid until the next is taken, and are used again. */
Test(engine, finished_sequences_come_out_once_and_in_order)
{
	struct bench bench;
	open_bench(&bench, &policy_mixed, 4, 16, 3);
	add(&bench, 0, 3, 2);
	add(&bench, 1, 3, 1);
	add(&bench, 2, 3, 1);
	expect_step(&bench, "A0 b0 c0 A1 b1 c1 A2 b2 c2 F1 F2");
	expect_step(&bench, "F0");
	const uint64_t expected[] = {1, 2, 0};
	for (uint32_t i = 0; i < 3; i++) {
		const struct sequence *sequence = take(&bench);
		cr_assert_eq(sequence->request, expected[i]);
		cr_assert_eq(sequence->token_ids[0], (int32_t)expected[i] * 1000);
		cr_assert_eq(sequence->block_count, 0);
	}
	cr_assert_null(take(&bench));
	add(&bench, 3, 3, 1);
	expect_step(&bench, "A3 b3 c3 F3");
	cr_assert_eq(take(&bench)->request, 3);
	close_bench(&bench);
}

/* ---- a runner that fails ---- */

static enum status fail_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)state;
	(void)batch;
	(void)token_ids;
	(void)time;
	return error_set(error, STATUS_DEVICE, "the device is gone");
}

Test(engine, a_failure_of_the_runner_reaches_the_caller)
{
	struct engine *engine;
	struct error error = {0};
	struct step_time time;
	struct runner runner = {.name = "failing", .execute = fail_execute};
	struct engine_config config = {.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 8,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 16,
		.max_model_len = 16,
		.eos_token_id = -1};
	const int32_t tokens[] = {1, 2, 3};
	cr_assert_eq(engine_open(&engine, &config, &runner, &error), STATUS_OK);
	cr_assert_eq(engine_add(engine,
			     &(struct request){.prompt = tokens,
				     .prompt_count = 2,
				     .forced = tokens,
				     .max_tokens = 1},
			     NULL),
		FIT_OK);
	cr_assert_eq(engine_step(engine, &time, &error), STATUS_DEVICE);
	cr_assert_str_eq(error.text, "the device is gone");
	cr_assert_null(engine_take_finished(engine));
	engine_close(engine);
}

/* ---- room ---- */

/* Adds requests of one token until as many wait as may. */
static void fill_queue(struct bench *bench, uint64_t *id)
{
	while (engine_waiting_count(bench->engine) < bench->config.max_num_seqs) {
		cr_assert(engine_has_room(bench->engine), "no room for request %u", (unsigned)*id);
		cr_assert_eq(add(bench, (*id)++, 2, 1), FIT_OK);
	}
}

/* Room is guaranteed while fewer than max_num_seqs wait, also when as many run and as many
   finished in the step before. */
Test(engine, has_room_beside_all_that_run_and_all_that_finished)
{
	static const struct policy *const policies[] = {&policy_mixed, &policy_prefill_first};

	for (size_t p = 0; p < 2; p++) {
		struct bench bench;
		struct step_time time;
		struct error error = {0};
		uint64_t id = 0, finished = 0;
		open_bench(&bench, policies[p], 4, 64, 4);
		for (uint32_t i = 0; i < 5; i++) {
			fill_queue(&bench, &id);
			engine_schedule(bench.engine);
			fill_queue(&bench, &id);
			cr_assert_eq(engine_execute(bench.engine, &time, &error), STATUS_OK);
			engine_postprocess(bench.engine);
			engine_check(bench.engine);
			while (take(&bench) != NULL) {
				finished++;
			}
		}
		cr_expect_eq(finished, 5 * 4);
		close_bench(&bench);
	}
}

/* ---- what is computed again ---- */

enum { AGAIN_REQUESTS = 5 };

/* Follows one request through its events. */
struct progress {
	uint64_t high;	/* the most tokens that it had before a preemption */
	bool fell_back; /* preempted with fewer tokens than before, in mid-prompt */
};

/* Compares the step's chunks with what the events before them say; returns how many of them come
   after a request fell back. */
static uint32_t require_recomputed(const struct bench *bench, struct progress *progress)
{
	const struct event_list *list = engine_decisions(bench->engine).events;
	uint32_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct event *event = &list->events[i];
		struct progress *own = &progress[event->request];
		if (event->kind == EVENT_PREEMPT) {
			own->fell_back = own->fell_back || event->a < own->high;
			own->high = event->a > own->high ? event->a : own->high;
		}
		if (event->kind != EVENT_CHUNK) {
			continue;
		}
		uint64_t known = 0;
		for (uint64_t token = event->a; token < event->a + event->b; token++) {
			known += token < own->high;
		}
		cr_assert_eq(event->recomputed, known, "request %u: tokens from %u on",
			(unsigned)event->request, (unsigned)event->a);
		count += own->fell_back && known > 0;
	}
	return count;
}

/* A token counts as recomputed if it was computed before any preemption, and not only before the
   latest one: a long prompt is preempted in its midst again and again, at other tokens. */
Test(engine, tokens_are_recomputed_that_were_computed_before_any_preemption)
{
	uint32_t seen = 0;

	for (uint32_t blocks = 34; blocks < 60; blocks++) {
		struct bench bench;
		struct progress progress[AGAIN_REQUESTS] = {0};
		struct error error = {0};
		bench.config = (struct engine_config){.policy = &policy_mixed,
			.block_size = 1,
			.kv_block_count = blocks,
			.max_num_seqs = AGAIN_REQUESTS,
			.max_num_batched_tokens = AGAIN_REQUESTS + 2,
			.max_model_len = 64,
			.eos_token_id = -1};
		kv_oracle_init(&bench.oracle, &bench.config, REQUEST_LIMIT, 1000, 1);
		bench.runner = kv_oracle_runner(&bench.oracle);
		cr_assert_eq(engine_open(&bench.engine, &bench.config, &bench.runner, &error),
			STATUS_OK);
		/* Four that decode for long, each at another pace, and one that needs the room. */
		for (uint32_t id = 0; id + 1 < AGAIN_REQUESTS; id++) {
			add(&bench, id, 1 + id, 10 + 7 * id);
		}
		add(&bench, AGAIN_REQUESTS - 1, 26, 4);
		while (engine_has_work(bench.engine)) {
			step(&bench);
			seen += require_recomputed(&bench, progress);
			while (take(&bench) != NULL) {
			}
		}
		close_bench(&bench);
	}
	cr_assert(seen > 0, "no request fell back in the midst of its prompt");
}
