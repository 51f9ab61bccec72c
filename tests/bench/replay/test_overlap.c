#include "bench/replay/overlap.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "engine/base/text.h"
#include "engine/policy.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Steps that end while the next one is being launched, on a host and a GPU that are played. A step
   with prompts takes the host longer to launch than the GPU takes for a decode step:

       host   launch k+1: │ part │ part │ part │ collect k │ part │ ... │ part │
       GPU    ──── decode step k ────┘└──────────── step k+1 ─────── ... ──────────
 */

enum {
	PARTS = 28,
	PART_NS = 43000,
	FILL_NS = 10000,
	GRAPH_NS = 5000,
	DECODE_NS = 650000,
	ROWS = 24,
	CONCURRENCY = 2,
};

static char folder[TEMPORARY_PATH_BYTES], trace_path[TEMPORARY_PATH_BYTES];
static struct replay replay;

struct stage {
	bool launches_whole;
	uint64_t layer_ns; /* of a step with prompts, on the GPU */

	uint64_t host_ns;	  /* the host's clock */
	uint64_t gpu_ns;	  /* when the GPU has computed what was launched */
	uint64_t handed_ns;	  /* when the tokens of the latest step were handed on */
	uint64_t latest_ns;	  /* the most that tokens were handed on behind their step's end */
	uint64_t ends_ns[2];	  /* of the steps in flight */
	uint64_t launch_steps[2]; /* their numbers */
	uint64_t samples[2];
	uint64_t launched, collected;
	uint64_t token_count; /* handed on */
	uint32_t parts_left;
	uint64_t left_count; /* steps handed on in mid-launch */
};

static void play_part(struct stage *stage)
{
	stage->host_ns += PART_NS;
	stage->gpu_ns = u64_max(stage->gpu_ns, stage->host_ns) + stage->layer_ns;
	stage->parts_left--;
	stage->ends_ns[(stage->launched - 1) % 2] = stage->gpu_ns;
}

static enum status stage_launch(void *state, const struct batch *batch, struct error *error)
{
	struct stage *stage = state;
	bool is_eager = batch->counts.prefill_rows > 0;
	uint64_t slot = stage->launched % 2;

	(void)error;
	require(stage->parts_left == 0, "the step before is not launched whole");
	require(stage->launched - stage->collected < 2, "more than two steps in flight");
	stage->launched++;
	stage->launch_steps[slot] = batch->step;
	stage->samples[slot] = batch->counts.sampled_rows;
	if (!is_eager) {
		stage->host_ns += GRAPH_NS;
		stage->gpu_ns = u64_max(stage->gpu_ns, stage->host_ns) + DECODE_NS;
		stage->ends_ns[slot] = stage->gpu_ns;
		return STATUS_OK;
	}
	stage->host_ns += FILL_NS;
	stage->ends_ns[slot] = UINT64_MAX;
	stage->parts_left = PARTS;
	while (stage->launches_whole && stage->parts_left > 0) {
		play_part(stage);
	}
	return STATUS_OK;
}

/* The launch goes on when the tokens of the step before are handed on and recorded, and before the
   next step is decided. */
static enum status stage_launch_part(void *state, bool *is_whole, struct error *error)
{
	struct stage *stage = state;

	(void)error;
	if (stage->parts_left > 0) {
		require_equal(replay.metrics.work.output_tokens, stage->token_count);
		require_equal(engine_batch(replay.engine)->step,
			stage->launch_steps[(stage->launched - 1) % 2]);
		play_part(stage);
	}
	*is_whole = stage->parts_left == 0;
	return STATUS_OK;
}

static bool stage_has_ended(void *state)
{
	const struct stage *stage = state;

	return stage->host_ns >= stage->ends_ns[stage->collected % 2];
}

static enum status stage_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct stage *stage = state;
	uint64_t end_ns = stage->ends_ns[stage->collected % 2];

	(void)error;
	require(end_ns != UINT64_MAX, "a step is collected that is not launched whole");
	require(stage->collected < stage->launched, "nothing is in flight");
	memset(token_ids, 0, ROWS * sizeof(*token_ids));
	stage->left_count += stage->parts_left > 0;
	stage->host_ns = u64_max(stage->host_ns, end_ns);
	stage->latest_ns = u64_max(stage->latest_ns, stage->host_ns - end_ns);
	time->elapsed_ns = stage->host_ns - stage->handed_ns;
	time->gpu_ns = time->elapsed_ns;
	stage->handed_ns = stage->host_ns;
	stage->token_count += stage->samples[stage->collected++ % 2];
	return STATUS_OK;
}

static enum status stage_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	bool is_whole = false;

	TRY(stage_launch(state, batch, error));
	while (!is_whole) {
		TRY(stage_launch_part(state, &is_whole, error));
	}
	return stage_collect(state, token_ids, time, error);
}

/* ---- runs ---- */

static void set_up(void)
{
	char text[ROWS * 80];
	size_t used = 0;

	temporary_folder(folder);
	for (uint32_t i = 0; i < ROWS; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			"{\"timestamp\": 0, \"input_length\": 30, \"output_length\": %u}\n",
			2 + i * 7 % 9);
	}
	temporary_write(folder, "trace.jsonl", text, trace_path);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(overlap, .init = set_up, .fini = tear_down);

/* Returns the result hash. */
static uint64_t run_stage(struct stage *stage, bool is_async)
{
	const struct replay_config config = {.tokens = TOKENS_FORCED};
	const struct workload_options load = {
		.speedup_millionths = 1000000, .concurrency = CONCURRENCY};
	const struct engine_config engine = {.policy = is_async ? &policy_vllm : &policy_mixed,
		.is_async = is_async,
		.block_size = 16,
		.kv_block_count = 100,
		.max_num_seqs = ROWS,
		.max_num_batched_tokens = 64,
		.max_model_len = 64,
		.eos_token_id = -1};
	const struct runner runner = {.name = "stage",
		.state = stage,
		.is_computing = true,
		.execute = stage_execute,
		.launch = stage_launch,
		.launch_part = stage->launches_whole ? NULL : stage_launch_part,
		.has_ended = stage->launches_whole ? NULL : stage_has_ended,
		.collect = stage_collect};
	const struct replay_options options = {.config = &config,
		.workload = &load,
		.trace_path = trace_path,
		.is_checking = true,
		.overlaps = true,
		.vocab_size = 1000};
	struct error error = {0};

	require(replay_open(&replay, &options, &engine, &runner, &error) == STATUS_OK, "%s",
		error.text);
	require(replay_run(&replay, &error) == STATUS_OK, "%s", error.text);
	require(!replay.has_failed, "%s", replay.failure.text);
	require_equal(replay.metrics.finished, ROWS);
	require_equal(replay.now_ns, stage->handed_ns);
	require_equal(stage->launched, stage->collected);
	uint64_t hash = metrics_result_hash(&replay.metrics);
	replay_close(&replay);
	return hash;
}

/* Tokens wait for the end of a launch, or for one part of it. Nothing else changes: not what is
   decided, and not when the run ends. */
Test(overlap, tokens_are_handed_on_in_mid_launch)
{
	static const uint64_t layers_ns[] = {150000, 1000};

	for (uint32_t i = 0; i < 4; i++) {
		struct stage whole = {.launches_whole = true, .layer_ns = layers_ns[i % 2]};
		struct stage parts = {.layer_ns = layers_ns[i % 2]};
		uint64_t hash_whole = run_stage(&whole, i >= 2);
		uint64_t hash_parts = run_stage(&parts, i >= 2);
		require_equal(hash_parts, hash_whole);
		require_equal(parts.handed_ns, whole.handed_ns);
		require(whole.latest_ns > PARTS * PART_NS / 3, "run %u: tokens %llu ns late", i,
			(unsigned long long)whole.latest_ns);
		require(parts.latest_ns <= PART_NS, "run %u: tokens %llu ns late", i,
			(unsigned long long)parts.latest_ns);
		require(parts.left_count > 0, "run %u: none in mid-launch", i);
	}
}

/* ---- prices of steps that are launched ahead ---- */

/* A step that is launched ahead begins when the one before it on its engine ends. One that begins
   after idle time, or the first one of a replica that failed and joined again, has nothing before
   it that hides its launch. On an engine with one seat no arrival changes the next step of a
   request, so each decode step behind another is launched ahead; on an asynchronous one each step
   behind another. */

#define PRICED "--model", "qwen3-0.6b", "--gpu", "h200-qwen3-0.6b", "--steps", "--force", "--out"

enum { REPLICAS_MOST = 3 };

static char *steps_of(struct process_result outcome, const char *out)
{
	require(outcome.code == 0, "%s", outcome.err);
	process_result_free(&outcome);
	char *table = read_in(out, "steps.tsv");
	require(table != NULL, "no steps");
	return table;
}

struct read_step {
	uint64_t start_ns, elapsed_ns, host_ns, decode_rows, prefill_rows;
};

static struct read_step read_step(const char *row)
{
	unsigned long long start, elapsed, host, decodes, prompts;

	require(sscanf(row, "%*u %llu %llu %*u %llu %*s %llu %llu", &start, &elapsed, &host,
			&decodes, &prompts) == 5,
		"no step: %.60s", row);
	return (struct read_step){start, elapsed, host, decodes, prompts};
}

/* The least time of the host for a step that is not launched ahead, less a tenth. */
static uint64_t host_alone(void)
{
	char path[PATH_BYTES], out[PATH_BYTES];
	uint64_t least_ns = UINT64_MAX;

	temporary_write(folder, "one.jsonl",
		"{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 3}\n", path);
	path_in(out, folder, "one");
	char *table = steps_of(RUN(path, "--overlap", "off", PRICED, out), out);
	for (const char *row = strchr(table, '\n') + 1; *row != '\0'; row = strchr(row, '\n') + 1) {
		least_ns = u64_min(least_ns, read_step(row).host_ns);
	}
	free(table);
	return least_ns - least_ns / 10;
}

/* Bursts, so that some wait, and idle times between them. */
static void draw_arrivals(struct prop *prop, const char *path)
{
	FILE *file = fopen(path, "w");
	uint64_t time_ms = 0;

	require(file != NULL, "cannot write %s", path);
	for (uint32_t i = prop_range(prop, 2, 14); i > 0; i--) {
		fprintf(file,
			"{\"timestamp\": %llu, \"input_length\": %u, \"output_length\": %u}\n",
			(unsigned long long)time_ms, prop_range(prop, 1, 60),
			prop_range(prop, 1, 8));
		time_ms += prop_chance(prop, 1, 3) ? prop_range(prop, 20, 60) : prop_below(prop, 4);
	}
	fclose(file);
}

/* Each replica but the last fails, in a step or idle, and joins again. */
static void draw_outages(struct prop *prop, uint32_t replicas, struct text *text)
{
	for (uint32_t i = 0; i + 1 < replicas; i++) {
		uint32_t fail_us = prop_range(prop, 1, 40000);
		uint32_t join_us = fail_us + prop_range(prop, 1, 30000);
		text_format(text, "%sfail:%u@0.%06u,join:%u@0.%06u", i == 0 ? "" : ",", i, fail_us,
			i, join_us);
	}
}

/* How many steps are launched with nothing before them. */
static uint32_t count_alone(const char *table, bool is_fleet, bool is_async, uint64_t least_ns)
{
	uint64_t ends_ns[REPLICAS_MOST] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	uint32_t alone = 0;

	for (const char *row = strchr(table, '\n') + 1, *end; *row != '\0'; row = end + 1) {
		struct read_step step = read_step(row);
		end = strchr(row, '\n');
		uint32_t replica = is_fleet ? (uint32_t)(end[-1] - '0') : 0;
		require(replica < REPLICAS_MOST, "no replica: %.200s", row);
		bool is_next = ends_ns[replica] == step.start_ns;
		bool is_ahead = step.host_ns < least_ns;
		bool must = is_async || step.prefill_rows == 0;
		ends_ns[replica] = step.start_ns + step.elapsed_ns;
		if (step.decode_rows + step.prefill_rows == 0) {
			continue; /* of an asynchronous engine that learns that all is done */
		}
		require(is_ahead ? is_next : !(is_next && must),
			"replica %u: a step at %llu ns, %d behind another, has %llu ns of the host",
			replica, (unsigned long long)step.start_ns, is_next,
			(unsigned long long)step.host_ns);
		alone += !is_ahead;
	}
	return alone;
}

static void body_prices(struct prop *prop, const void *context)
{
	const uint64_t *least_ns = context;
	char path[PATH_BYTES], out[PATH_BYTES], replicas[16];
	struct text outages = {0};
	uint32_t count = prop_range(prop, 1, REPLICAS_MOST);
	bool is_async = count == 1 && prop_chance(prop, 1, 2);

	path_in(path, folder, "drawn.jsonl");
	path_in(out, folder, "drawn");
	draw_arrivals(prop, path);
	draw_outages(prop, count, &outages);
	snprintf(replicas, sizeof(replicas), "%u", count);
	prop_log(prop, "%u replicas, async %d, %s", count, is_async, outages.bytes);
	struct process_result outcome =
		is_async    ? RUN(path, "--policy", "vllm", PRICED, out)
		: count > 1 ? RUN(path, "--max-num-seqs", "1", "--replicas", replicas, "--outages",
				      outages.bytes, PRICED, out)
			    : RUN(path, "--max-num-seqs", "1", PRICED, out);
	char *table = steps_of(outcome, out);
	require(count_alone(table, count > 1, is_async, *least_ns) > 0,
		"no step is launched alone");
	free(table);
	text_deinit(&outages);
}

Test(overlap, a_step_is_priced_as_launched_ahead_behind_another, .timeout = 600)
{
	uint64_t least_ns = host_alone();
	const struct prop_options options = {
		.name = "launches", .body = body_prices, .context = &least_ns, .trials = 100};

	cr_assert(prop_holds(&options));
}
