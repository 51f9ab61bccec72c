#include "bench/replay/replay.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/counter_hash.h"
#include "engine/base/interrupt.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* How runs end, and what their outcome then says: by an interrupt, a failure, or both at once, with
   steps in flight and without. */

enum { NEVER = 1 << 30 };

/* A runner that looks for interrupts in every round, as those that compute do. */
struct act {
	uint64_t interrupt_at, fail_at; /* steps, when they are collected or executed */
	bool has_idle;			/* it measures how long its GPU idles */
	uint64_t launched, collected;
	struct step_counts in_flight[2];
	float temperature; /* of the first row of the latest step */
	/* idle times between two decode steps, as they should come out */
	bool was_decode;
	uint64_t idle_count, idle_max;
	u128 idle_sum;
};

static void note_idle(struct act *act, const struct step_counts *counts, struct step_time *time)
{
	bool is_decode = counts->prefill_rows == 0;

	/* Some steps follow at once. */
	time->idle_ns =
		act->has_idle ? counter_hash(counter_key(3, 5), act->collected) % 5 * 1000 : 0;
	if (is_decode && act->was_decode && time->idle_ns > 0) {
		act->idle_count++;
		act->idle_sum += time->idle_ns;
		act->idle_max = time->idle_ns > act->idle_max ? time->idle_ns : act->idle_max;
	}
	act->was_decode = is_decode;
}

static enum status finish_step(struct act *act, const struct step_counts *counts,
	struct step_time *time, struct error *error)
{
	uint64_t step = act->collected++;

	if (step == act->interrupt_at) {
		raise(SIGINT);
	}
	if (step == act->fail_at) {
		return error_set(error, STATUS_DEVICE, "step %u fails", (unsigned)step);
	}
	time->elapsed_ns = 1000000;
	note_idle(act, counts, time);
	return STATUS_OK;
}

static enum status act_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct act *act = state;

	act->temperature = batch->temperature[0];
	memset(token_ids, 0, batch->counts.sampled_rows * sizeof(*token_ids));
	return finish_step(act, &batch->counts, time, error);
}

static enum status act_launch(void *state, const struct batch *batch, struct error *error)
{
	struct act *act = state;
	(void)error;

	act->in_flight[act->launched++ % 2] = batch->counts;
	return STATUS_OK;
}

static enum status act_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct act *act = state;
	const struct step_counts *counts = &act->in_flight[act->collected % 2];

	memset(token_ids, 0, counts->sampled_rows * sizeof(*token_ids));
	return finish_step(act, counts, time, error);
}

/* ---- a run ---- */

static char folder[TEMPORARY_PATH_BYTES], trace_path[TEMPORARY_PATH_BYTES];
static struct replay replay;

static void set_up(void)
{
	interrupt_catch();
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(replay_end, .init = set_up, .fini = tear_down);

/* Ten requests at once, of 5 tokens in and 20 out, and one after 1,000 s. */
static void write_trace(void)
{
	char text[4096];
	size_t used = 0;

	for (uint32_t i = 0; i <= 10; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			"{\"timestamp\": %u, \"input_length\": 5, \"output_length\": 20}\n",
			i < 10 ? 0 : 1000000);
	}
	temporary_write(folder, "trace.jsonl", text, trace_path);
}

struct run_scene {
	bool overlaps, is_async;
	uint64_t max_requests, temperature; /* in millionths */
	uint64_t duration_ns;
	uint32_t max_num_seqs;
};

static struct run_outcome run_act(struct act *act, const struct run_scene *scene)
{
	const struct replay_config config = {
		.tokens = TOKENS_FORCED, .temperature = scene->temperature};
	const struct workload_options load = {.speedup_millionths = 1000000,
		.max_requests = scene->max_requests,
		.duration_ns = scene->duration_ns};
	const struct engine_config engine = {
		.policy = scene->is_async ? &policy_vllm : &policy_mixed,
		.is_async = scene->is_async,
		.block_size = 4,
		.kv_block_count = 100,
		.max_num_seqs = scene->max_num_seqs,
		.max_num_batched_tokens = 16,
		.max_model_len = 50,
		.eos_token_id = -1};
	const struct runner runner = {.name = "act",
		.state = act,
		.is_computing = true,
		.execute = act_execute,
		.launch = scene->overlaps ? act_launch : NULL,
		.collect = scene->overlaps ? act_collect : NULL};
	const struct replay_options options = {.config = &config,
		.workload = &load,
		.trace_path = trace_path,
		.overlaps = true,
		.vocab_size = 1000};
	struct run_outcome outcome;
	struct error error = {0};

	require(replay_open(&replay, &options, &engine, &runner, &error) == STATUS_OK, "%s",
		error.text);
	interrupt_hold();
	require(replay_run(&replay, &error) == STATUS_OK, "%s", error.text);
	replay_outcome(&replay, &outcome);
	replay_close(&replay);
	interrupt_release();
	return outcome;
}

/* ---- interrupts ---- */

/* One step may be in flight when the interrupt comes and one launched behind it, no more. */
Test(replay_end, an_interrupt_ends_the_run_though_steps_are_in_flight)
{
	write_trace();
	for (uint32_t i = 0; i < 2; i++) {
		const struct run_scene scene = {.overlaps = i == 1, .max_num_seqs = 1};
		struct act act = {.interrupt_at = 30, .fail_at = NEVER};
		struct run_outcome outcome = run_act(&act, &scene);
		require_equal(outcome.end, RUN_INTERRUPTED);
		require(outcome.work.steps >= 31 && outcome.work.steps <= 33, "it made %u steps",
			(unsigned)outcome.work.steps);
		require_equal(act.collected, outcome.work.steps);
		require_equal(act.launched, i == 1 ? act.collected : 0);
		/* Twenty steps a request: one has finished, and one is half way. */
		require_equal(outcome.finished, 1);
		require_equal(outcome.unfinished, outcome.submitted - 1);
	}
}

/* A run that is cut short before its last arrival counts what waited in its last step. */
Test(replay_end, a_run_that_is_cut_short_says_how_many_waited)
{
	write_trace();
	for (uint32_t i = 0; i < 4; i++) {
		const struct run_scene scene = {.overlaps = i % 2 == 1, .max_num_seqs = 1};
		struct act act = {
			.interrupt_at = i < 2 ? 30 : NEVER, .fail_at = i < 2 ? NEVER : 30};
		struct run_outcome outcome = run_act(&act, &scene);
		require_equal(outcome.end, i < 2 ? RUN_INTERRUPTED : RUN_FAILED);
		/* Of ten, one has finished and one runs. */
		require_equal(outcome.backlog_at_last_arrival, 8);
		require_equal(outcome.verdict, VERDICT_BACKLOGGED);
	}
	/* A whole run has served them all when the last one arrives. */
	struct act act = {.interrupt_at = NEVER, .fail_at = NEVER};
	struct run_outcome outcome = run_act(&act, &(struct run_scene){.max_num_seqs = 1});
	require_equal(outcome.end, RUN_COMPLETE);
	require_equal(outcome.backlog_at_last_arrival, 0);
}

/* However steps are executed, the first that fails is the last, but for one in flight behind it. */
Test(replay_end, the_failure_of_a_step_ends_the_run)
{
	write_trace();
	for (uint32_t i = 0; i < 4; i++) {
		const struct run_scene scene = {
			.overlaps = i % 2 == 1, .is_async = i >= 2, .max_num_seqs = 1};
		for (uint64_t fail_at = 0; fail_at < 45; fail_at += 11) {
			struct act act = {.interrupt_at = NEVER, .fail_at = fail_at};
			struct run_outcome outcome = run_act(&act, &scene);
			require_equal(outcome.end, RUN_FAILED);
			require(act.collected <= fail_at + 2, "scene %u: %u steps", i,
				(unsigned)act.collected);
			require_equal(outcome.finished + outcome.failed, outcome.submitted);
			require_equal(outcome.failed > 0, true);
		}
	}
}

/* A step that fails after the interrupt came is a failure: its requests are lost. */
Test(replay_end, a_failure_counts_for_more_than_an_interrupt)
{
	write_trace();
	const struct run_scene scene = {.overlaps = true, .max_num_seqs = 1};
	struct act act = {.interrupt_at = 30, .fail_at = 31};
	struct run_outcome outcome = run_act(&act, &scene);
	require_equal(outcome.end, RUN_FAILED);
	require_equal(outcome.failure.status, STATUS_DEVICE);
	cr_expect_str_eq(outcome.failure.text, "step 31 fails");
	require_equal(outcome.work.steps, 31);
	require(outcome.failed > 0, "no request has failed");
	require_equal(outcome.unfinished, 0);
}

/* ---- the trace ---- */

/* A trace of over 256 KiB, which no buffer holds. */
static void write_large_trace(void)
{
	write_trace();
	FILE *file = fopen(trace_path, "ab");
	require(file != NULL, "cannot write %s", trace_path);
	for (uint32_t i = 0; i < 20000; i++) {
		fprintf(file, "{\"timestamp\": %u, \"input_length\": 5, \"output_length\": 1}\n",
			1000000 + i);
	}
	fclose(file);
}

/* Whatever part of it was read, the hash is that of the whole file. */
Test(replay_end, the_hash_of_the_trace_is_that_of_the_whole_file)
{
	static const struct {
		uint64_t interrupt_at, fail_at, max_requests;
		enum run_end end;
	} cases[] = {
		{NEVER, NEVER, 3, RUN_COMPLETE},
		{NEVER, 20, 0, RUN_FAILED},
		{20, NEVER, 0, RUN_INTERRUPTED},
	};
	size_t byte_count = 0;

	write_large_trace();
	char *bytes = file_read(trace_path, &byte_count);
	require(byte_count > 1 << 19, "only %zu bytes", byte_count);
	uint64_t expected = XXH64(bytes, byte_count, 0);
	free(bytes);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct act act = {
			.interrupt_at = cases[i].interrupt_at, .fail_at = cases[i].fail_at};
		const struct run_scene scene = {
			.max_num_seqs = 2, .max_requests = cases[i].max_requests};
		struct run_outcome outcome = run_act(&act, &scene);
		require_equal(outcome.end, cases[i].end);
		require_equal(outcome.trace_xxh64, expected);
	}
}

/* A trace has run out where a limit asks for more than its eleven requests, the last of which comes
   at 1,000 s. Twenty steps a request: the last one is served by the steps 200 to 219. A run that
   does not come to its end says nothing of it, though every request has come. */
Test(replay_end, only_a_whole_run_says_that_the_trace_ran_out)
{
	static const uint64_t last_ns = UINT64_C(1000000000000);
	static const struct {
		uint64_t max_requests, duration_ns;
		bool has_last, wants_more;
	} limits[] = {{0, 0, true, false}, {10, 0, false, false}, {11, 0, true, false},
		{12, 0, true, true}, {0, last_ns, false, false}, {0, last_ns + 1, true, true},
		{12, last_ns, false, false}, {12, last_ns + 1, true, true},
		{11, last_ns + 1, true, false}};
	static const uint64_t ends[] = {NEVER, 30, 205, 219};

	write_trace();
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) * 4 * 4; i++) {
		uint64_t end_at = ends[i % 4], limit = i / 16;
		bool fails = i / 8 % 2 == 1;
		const struct run_scene scene = {.overlaps = i / 4 % 2 == 1,
			.max_num_seqs = 1,
			.max_requests = limits[limit].max_requests,
			.duration_ns = limits[limit].duration_ns};
		struct act act = {
			.interrupt_at = fails ? NEVER : end_at, .fail_at = fails ? end_at : NEVER};
		struct run_outcome outcome = run_act(&act, &scene);
		bool is_whole = end_at == NEVER || (end_at >= 200 && !limits[limit].has_last);
		require_equal(outcome.end, is_whole ? RUN_COMPLETE
					   : fails  ? RUN_FAILED
						    : RUN_INTERRUPTED);
		require_equal(outcome.has_run_out, is_whole && limits[limit].wants_more);
		if (is_whole || end_at > 200) {
			require_equal(outcome.submitted, limits[limit].has_last ? 11 : 10);
			require_equal(
				outcome.last_arrival_ns, limits[limit].has_last ? last_ns : 0);
		}
	}
}

/* ---- the GPU's idle times ---- */

/* Gaps between two decode steps count. Those beside prompts, and steps that follow at once, do
   not. */
Test(replay_end, idle_times_are_those_between_decode_steps)
{
	write_trace();
	for (uint32_t i = 0; i < 2; i++) {
		const struct run_scene scene = {.overlaps = i == 1, .max_num_seqs = 3};
		struct act act = {.interrupt_at = NEVER, .fail_at = NEVER, .has_idle = true};
		struct run_outcome outcome = run_act(&act, &scene);
		require(act.idle_count > 20 && act.idle_count < outcome.work.steps - 5, "%u gaps",
			(unsigned)act.idle_count);
		require_equal(outcome.gpu_idle.count, act.idle_count);
		require_equal(outcome.gpu_idle.ns[STATISTIC_MAX], act.idle_max);
		require_equal(outcome.gpu_idle.ns[STATISTIC_MEAN], act.idle_sum / act.idle_count);
	}
	struct act act = {.interrupt_at = NEVER, .fail_at = NEVER};
	struct run_outcome outcome = run_act(&act, &(struct run_scene){.max_num_seqs = 3});
	require_equal(outcome.gpu_idle.count, 0);
}

/* ---- what a runner is given ---- */

Test(replay_end, requests_have_the_temperature_of_the_configuration)
{
	static const struct {
		uint64_t millionths;
		float temperature;
	} cases[] = {{0, 0}, {1000000, 1}, {1500000, 1.5F}, {100000000, 100}, {250000, 0.25F}};

	write_trace();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct act act = {.interrupt_at = NEVER, .fail_at = NEVER};
		run_act(&act, &(struct run_scene){.max_num_seqs = 3,
				      .max_requests = 2,
				      .temperature = cases[i].millionths});
		cr_expect_float_eq(
			act.temperature, cases[i].temperature, 1e-6, "%f", (double)act.temperature);
	}
}
