/* MAP_ANONYMOUS is not C. */
#define _DEFAULT_SOURCE

#include "engine/base/counter_hash.h"
#include "engine/livelock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/harness/property.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"
#include "tests/models/vllm_drive.h"

/* Small pools that hold the longest request just so, where requests preempt each other a lot. A run
   must end, or be proven never to; and after a proof the model of vLLM's rules, which shares no
   code with the engine, must go on without a token and without an end. */

enum { REQUESTS = 5, TOKENS = 64, STEPS_MAX = 20000, PERIODS = 3 };

struct bench {
	struct vllm_rules rules;
	struct vllm_request requests[REQUESTS];
	int32_t tokens[REQUESTS][TOKENS];
	struct vllm_model model;
	struct vllm_drive drive;
	struct livelock livelock;
};

static void draw_rules(struct prop *prop, struct vllm_rules *rules)
{
	static const uint32_t block_sizes[] = {1, 2, 4};

	rules->block_size = block_sizes[prop_below(prop, 3)];
	rules->max_model_len = prop_range(prop, 6, 24);
	rules->max_num_seqs = prop_range(prop, 2, 4);
	rules->max_num_batched_tokens = rules->max_num_seqs + prop_range(prop, 0, 20);
	uint32_t longest = (rules->max_model_len + rules->block_size - 1) / rules->block_size;
	rules->num_blocks = 1 + longest + prop_range(prop, 0, 3);
	rules->is_priority = prop_chance(prop, 3, 4);
	rules->is_async = prop_chance(prop, 1, 2);
	rules->has_prefix_caching = prop_chance(prop, 1, 2);
	rules->has_chunked_prefill = true;
	rules->long_prefill_token_threshold = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 4) : 0;
	rules->reserves_full_isl = prop_chance(prop, 1, 4);
	prop_log(prop, "%s, %s, block size %u, %u blocks, %u seats, %u tokens, %s%sthreshold %u",
		rules->is_priority ? "priority" : "fcfs", rules->is_async ? "async" : "sync",
		rules->block_size, rules->num_blocks, rules->max_num_seqs,
		rules->max_num_batched_tokens, rules->has_prefix_caching ? "" : "no cache, ",
		rules->reserves_full_isl ? "" : "no gate, ", rules->long_prefill_token_threshold);
}

static void add_requests(struct prop *prop, struct bench *bench)
{
	uint32_t count = prop_range(prop, 2, REQUESTS);

	for (uint32_t id = 0; id < count; id++) {
		bench->requests[id] = (struct vllm_request){
			.tokens = bench->tokens[id],
			.prompt_count = prop_range(prop, 1, bench->rules.max_model_len - 1),
			.max_tokens = prop_range(prop, 1, bench->rules.max_model_len),
			.ignore_eos = true,
			.priority = (int32_t)prop_below(prop, 3),
			.arrival_time = (double)prop_below(prop, 3),
		};
		for (uint32_t i = 0; i < TOKENS; i++) {
			bench->tokens[id][i] = (int32_t)(1 + id * TOKENS + i);
		}
		vllm_model_add(&bench->model, id, &bench->requests[id]);
		vllm_drive_add(&bench->drive, id, &bench->requests[id]);
		prop_log(prop, "request %u: %u tokens, %u at most, priority %d", id,
			bench->requests[id].prompt_count, bench->requests[id].max_tokens,
			bench->requests[id].priority);
	}
}

/* What the model's latest step did. */
static uint64_t digest_of(const struct vllm_step *now)
{
	uint64_t digest = counter_key(now->row_count, now->preempted.count);

	for (uint32_t i = 0; i < now->row_count; i++) {
		const struct vllm_row *row = &now->rows[i];
		digest = counter_hash(digest, row->request);
		digest = counter_hash(digest, row->first);
		digest = counter_hash(digest, row->count);
	}
	for (uint32_t i = 0; i < now->preempted.count; i++) {
		digest = counter_hash(digest, now->preempted.items[i]);
	}
	return digest;
}

/* Named are those that the model preempts, each once, as many as there is room for. */
static void require_named(const struct bench *bench, const bool *is_preempted)
{
	uint64_t named[REQUESTS], first[2] = {0, UINT64_MAX};
	uint32_t count = 0, expected = 0;

	count = livelock_preempted(&bench->livelock, &bench->drive.real, named, REQUESTS);
	for (uint32_t id = 0; id < REQUESTS; id++) {
		expected += is_preempted[id];
	}
	require(expected > 0 && vllm_model_has_work(&bench->model), "nothing repeats");
	require_equal(count, expected);
	for (uint32_t i = 0; i < count; i++) {
		require(named[i] < REQUESTS && is_preempted[named[i]], "%llu is not preempted",
			(unsigned long long)named[i]);
		require(i == 0 || named[i] != named[i - 1], "one is named twice");
	}
	require_equal(livelock_preempted(&bench->livelock, &bench->drive.real, first, 1), count);
	require(first[0] == named[0] && first[1] == UINT64_MAX, "more than there is room for");
}

/* The model alone, without anything of the engine: each step is that of a period before. */
static void require_no_end(struct bench *bench, uint32_t step)
{
	uint64_t period = bench->livelock.period;
	uint64_t *digests = calloc(period, sizeof(*digests));
	bool is_preempted[REQUESTS] = {false};

	require(digests != NULL, "out of memory");
	for (uint64_t i = 0; i < PERIODS * period; i++) {
		vllm_model_step(&bench->model, step++);
		const struct vllm_step *now = &bench->model.now;
		require(now->finished.count == 0, "a request ends after all");
		for (uint32_t j = 0; j < now->row_count; j++) {
			require(!now->rows[j].is_sampled, "a token is sampled after all");
		}
		for (uint32_t j = 0; j < now->preempted.count; j++) {
			is_preempted[now->preempted.items[j]] = true;
		}
		require(i < period || digests[i % period] == digest_of(now), "no repetition");
		digests[i % period] = digest_of(now);
	}
	require_named(bench, is_preempted);
	free(digests);
}

static void body_livelock(struct prop *prop, const void *context)
{
	uint32_t *proofs = (uint32_t *)(uintptr_t)context;
	struct bench *bench = calloc(1, sizeof(*bench));
	bool is_proven = false;
	uint32_t step = 0;

	require(bench != NULL, "out of memory");
	draw_rules(prop, &bench->rules);
	vllm_model_init(&bench->model, &bench->rules);
	vllm_drive_init(&bench->drive, &bench->rules, VLLM_FORCED);
	add_requests(prop, bench);
	for (; step < STEPS_MAX && !is_proven && vllm_model_has_work(&bench->model); step++) {
		vllm_model_step(&bench->model, step);
		vllm_drive_step(&bench->drive, step);
		is_proven = livelock_look(&bench->livelock, &bench->drive.real);
	}
	require(step < STEPS_MAX, "the run neither ends nor is proven not to");
	if (is_proven) {
		require(bench->livelock.quiet >= LIVELOCK_QUIET, "looked at after %llu steps",
			(unsigned long long)bench->livelock.quiet);
		require_no_end(bench, step);
		__atomic_fetch_add(proofs, 1, __ATOMIC_RELAXED);
	}
	livelock_deinit(&bench->livelock);
	vllm_drive_deinit(&bench->drive);
	free(bench);
}

Test(livelock, a_run_ends_or_is_proven_never_to, .timeout = 600)
{
	/* Trials are processes of their own. */
	uint32_t *proofs = mmap(
		NULL, sizeof(*proofs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct prop_options options = {
		.name = "livelock", .body = body_livelock, .context = proofs, .trials = 1500};

	require(proofs != MAP_FAILED, "out of memory");
	cr_assert(prop_holds(&options));
	require(getenv("PROP_TRIALS") != NULL || *proofs >= 10, "only %u livelocks were met",
		*proofs);
}

/* ---- the program ---- */

static const char rows[] = "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 7, "
			   "\"priority\": 2}\n"
			   "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 7, "
			   "\"priority\": 1}\n"
			   "{\"timestamp\": 0, \"input_length\": 12, \"output_length\": 12, "
			   "\"priority\": 2}\n";
static const char late_row[] = "{\"timestamp\": 3000, \"input_length\": 2, \"output_length\": 1, "
			       "\"priority\": 1}\n";

#define REPLAY(...)                                                                                \
	RUN(path, "--policy", "vllm", "--block-size", "4", "--kv-blocks", "6", "--max-model-len",  \
		"15", "--max-num-seqs", "2", "--max-num-batched-tokens", "22", "--gpu",            \
		"h200-datasheet", "--scheduling-policy", "priority", "--no-enable-prefix-caching", \
		"--long-prefill-token-threshold", "4", "--out", fixture.out, "--force",            \
		__VA_ARGS__)

static void require_stuck(const struct process_result *result, const char *named)
{
	require(result->code == 2 &&
			strstr(result->err, "nobody would be served any more: requests ") != NULL &&
			strstr(result->err, named) != NULL,
		"exit code %d: %s", result->code, result->err);
}

/* The run fails in one line, keeps what it measured, and does not fail without the option that the
   line names. */
Test(livelock, ends_a_replay_in_one_line)
{
	struct replay_fixture fixture;
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "t.jsonl", rows, path);
	struct process_result result = REPLAY("--no-scheduler-reserve-full-isl");
	require_stuck(&result, "; leaving out --no-scheduler-reserve-full-isl, more --kv-blocks");
	char *summary = read_in(fixture.out, "summary.json");
	require(summary != NULL && strstr(summary, "\"failed\"") != NULL, "no summary");
	free(summary);
	process_result_free(&result);
	result = REPLAY("--check");
	require(result.code == 0, "%s", result.err);
	process_result_free(&result);
	replay_fixture_close(&fixture);
}

/* The two that preempt each other need a third, which comes three seconds later. */
Test(livelock, waits_for_a_row_that_may_end_it)
{
	struct replay_fixture fixture;
	char path[PATH_BYTES], text[sizeof(rows) + sizeof(late_row)];

	replay_fixture_open(&fixture);
	snprintf(text, sizeof(text), "%s%s", rows, late_row);
	temporary_write(fixture.folder, "t.jsonl", text, path);
	struct process_result result = REPLAY("--no-scheduler-reserve-full-isl");
	require(result.code == 0, "%s", result.err);
	process_result_free(&result);
	replay_fixture_close(&fixture);
}

/* A fleet fails when no replica that has work can go on. */
Test(livelock, ends_a_fleet)
{
	struct replay_fixture fixture;
	char path[PATH_BYTES], text[3 * sizeof(rows)];
	char *at = text;

	replay_fixture_open(&fixture);
	/* Each replica gets the rows in their order, the other one the same. */
	for (const char *row = rows; *row != '\0'; row = strchr(row, '\n') + 1) {
		int bytes = (int)(strchr(row, '\n') + 1 - row);
		at += sprintf(at, "%.*s%.*s", bytes, row, bytes, row);
	}
	temporary_write(fixture.folder, "t.jsonl", text, path);
	struct process_result result = REPLAY(
		"--no-scheduler-reserve-full-isl", "--replicas", "2", "--router", "round-robin");
	require_stuck(&result, "are preempted again and again");
	process_result_free(&result);
	replay_fixture_close(&fixture);
}
