/* MAP_ANONYMOUS is not C. */
#define _DEFAULT_SOURCE

#include "engine/base/counter_hash.h"
#include "engine/base/text.h"
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

enum { REQUESTS = 5, SCALE = 24, TOKENS = 48 * SCALE, STEPS_MAX = 400000, PERIODS = 3 };

struct bench {
	struct vllm_rules rules;
	uint32_t scale; /* of blocks and prompts, so that what repeats takes as many more steps */
	struct vllm_request requests[REQUESTS];
	int32_t tokens[REQUESTS][TOKENS];
	struct vllm_model model;
	struct vllm_drive drive;
	struct livelock livelock;
};

static void draw_rules(struct prop *prop, struct vllm_rules *rules, uint32_t scale)
{
	static const uint32_t block_sizes[] = {1, 2, 4};

	rules->block_size = scale * block_sizes[prop_below(prop, 3)];
	rules->max_model_len = scale * prop_range(prop, 6, 24);
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
	if (scale > 1) { /* as where most livelocks are, one token after the other */
		rules->num_blocks = 1 + longest;
		rules->max_num_seqs = 2;
		rules->is_priority = true;
		rules->has_prefix_caching = rules->reserves_full_isl = false;
		rules->long_prefill_token_threshold = prop_range(prop, 1, 4);
	}
	prop_log(prop, "%s, %s, block size %u, %u blocks, %u seats, %u tokens, %s%sthreshold %u",
		rules->is_priority ? "priority" : "fcfs", rules->is_async ? "async" : "sync",
		rules->block_size, rules->num_blocks, rules->max_num_seqs,
		rules->max_num_batched_tokens, rules->has_prefix_caching ? "" : "no cache, ",
		rules->reserves_full_isl ? "" : "no gate, ", rules->long_prefill_token_threshold);
}

/* Requests `first` to `end` - 1. Those that come late to a scaled scene are long, so that the one
   before them may run for many steps until they preempt it for good. */
static void add_requests(struct prop *prop, struct bench *bench, uint32_t first, uint32_t end)
{
	uint32_t most = bench->rules.max_model_len - 1;
	uint32_t least = bench->scale > 1 && first > 0 ? most / 2 : 1;

	for (uint32_t id = first; id < end; id++) {
		bench->requests[id] = (struct vllm_request){
			.tokens = bench->tokens[id],
			.prompt_count = prop_range(prop, least, most),
			.max_tokens =
				prop_range(prop, 1, bench->rules.max_model_len / bench->scale),
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

/* Counts of what was met. */
struct proofs {
	uint32_t all, late; /* late: of a state that was kept after others */
};

static void body_livelock(struct prop *prop, const void *context)
{
	struct proofs *proofs = (struct proofs *)(uintptr_t)context;
	struct bench *bench = calloc(1, sizeof(*bench));
	bool is_proven = false;
	uint32_t step = 0;

	require(bench != NULL, "out of memory");
	bench->scale = prop_chance(prop, 1, 2) ? SCALE : 1;
	draw_rules(prop, &bench->rules, bench->scale);
	vllm_model_init(&bench->model, &bench->rules);
	vllm_drive_init(&bench->drive, &bench->rules, VLLM_FORCED);
	uint32_t count = prop_range(prop, 2, REQUESTS),
		 at_once = prop_chance(prop, 1, 2) ? 1 : count;
	add_requests(prop, bench, 0, at_once);
	for (; step < STEPS_MAX && !is_proven && vllm_model_has_work(&bench->model); step++) {
		if (step == 1 && at_once < count) {
			add_requests(prop, bench, at_once, count);
			livelock_reset(&bench->livelock);
		}
		vllm_model_step(&bench->model, step);
		vllm_drive_step(&bench->drive, step);
		is_proven = livelock_look(&bench->livelock, &bench->drive.real);
	}
	require(step < STEPS_MAX, "the run neither ends nor is proven not to");
	if (is_proven) {
		require(bench->livelock.quiet >= LIVELOCK_QUIET, "looked at after %llu steps",
			(unsigned long long)bench->livelock.quiet);
		require_no_end(bench, step);
		__atomic_fetch_add(&proofs->all, 1, __ATOMIC_RELAXED);
		bool is_late = bench->livelock.kept_at > LIVELOCK_QUIET;
		__atomic_fetch_add(&proofs->late, is_late, __ATOMIC_RELAXED);
	}
	livelock_deinit(&bench->livelock);
	vllm_drive_deinit(&bench->drive);
	free(bench);
}

Test(livelock, a_run_ends_or_is_proven_never_to, .timeout = 600)
{
	/* Trials are processes of their own. */
	struct proofs *proofs = mmap(
		NULL, sizeof(*proofs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct prop_options options = {
		.name = "livelock", .body = body_livelock, .context = proofs, .trials = 3000};

	require(proofs != MAP_FAILED, "out of memory");
	cr_assert(prop_holds(&options));
	require(getenv("PROP_TRIALS") != NULL || (proofs->all >= 50 && proofs->late >= 20),
		"only %u livelocks were met, %u of a later state", proofs->all, proofs->late);
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
			strstr(result->err, "no request makes progress: requests ") != NULL &&
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
	require_stuck(&result, " are preempted in a cycle of ");
	process_result_free(&result);
	replay_fixture_close(&fixture);
}

enum { REPLICAS_MAX = 4, ROWS_EACH = 3, LINE_BYTES = 1024 };

/* What the replicas of a fleet get: the rows of above, or some that end; the first `late` ones also
   the row that ends a livelock. The spare one is given nothing at all. */
struct drawn_fleet {
	uint32_t replicas, spare, late; /* spare: `replicas` where there is none */
	bool is_stuck[REPLICAS_MAX];	/* by the order in which the others are sent rows */
	bool joins;			/* the spare one, behind all rows */
};

static uint32_t active_of(const struct drawn_fleet *fleet)
{
	return fleet->replicas - (fleet->spare < fleet->replicas);
}

static void draw_fleet(struct prop *prop, struct drawn_fleet *fleet)
{
	*fleet = (struct drawn_fleet){.replicas = prop_range(prop, 2, REPLICAS_MAX)};
	fleet->spare = (uint32_t)prop_below(prop, fleet->replicas + 1);
	fleet->late = (uint32_t)prop_below(prop, active_of(fleet) + 1);
	fleet->joins = prop_chance(prop, 1, 2);
	for (uint32_t i = 0; i < active_of(fleet); i++) {
		fleet->is_stuck[i] = prop_chance(prop, 1, 2);
		prop_log(prop, "%s%s", fleet->is_stuck[i] ? "stuck" : "easy",
			i < fleet->late ? ", and a late row" : "");
	}
	prop_log(prop, "%u replicas, spare is %u%s", fleet->replicas, fleet->spare,
		fleet->joins ? ", which joins" : "");
}

/* Row after row, each to the next replica that is up. */
static void write_fleet(const struct drawn_fleet *fleet, const char *folder, char *path)
{
	static const char easy[] = "{\"timestamp\": 0, \"input_length\": 2, \"output_length\": 1, "
				   "\"priority\": 1}\n";
	const char *row = rows;
	struct text text = {0};

	for (uint32_t j = 0; j < ROWS_EACH; j++) {
		const char *end = strchr(row, '\n') + 1;
		for (uint32_t i = 0; i < active_of(fleet); i++) {
			text_format(&text, "%.*s",
				fleet->is_stuck[i] ? (int)(end - row) : (int)strlen(easy),
				fleet->is_stuck[i] ? row : easy);
		}
		row = end;
	}
	for (uint32_t i = 0; i < fleet->late; i++) {
		text_add(&text, late_row);
	}
	temporary_write(folder, "t.jsonl", text.bytes, path);
	text_deinit(&text);
}

/* The first replica that is stuck to the end is named by its requests; those of all others end. */
static void require_fleet(
	const struct drawn_fleet *fleet, const char *folder, const struct process_result *result)
{
	uint32_t active = active_of(fleet), stuck = 0, first = 0;
	char named[2][64];

	for (uint32_t i = active; i-- > fleet->late;) {
		first = fleet->is_stuck[i] ? i : first;
		stuck += fleet->is_stuck[i];
	}
	require(result->code == (stuck > 0 ? 2 : 0), "%u are stuck, exit code %d: %s", stuck,
		result->code, result->err);
	cJSON *summary = read_summary(folder);
	const cJSON *requests = cJSON_GetObjectItem(summary, "requests");
	require_equal(cJSON_GetObjectItem(requests, "failed")->valuedouble, 2 * stuck);
	require_equal(cJSON_GetObjectItem(requests, "finished")->valuedouble,
		ROWS_EACH * active + fleet->late - 2 * stuck);
	cJSON_Delete(summary);
	for (uint32_t k = 0; k < 2 && stuck > 0; k++) {
		snprintf(named[k], sizeof(named[k]), "progress: requests %u, %u are preempted",
			k == 0 ? first : 2 * active + first, k == 0 ? 2 * active + first : first);
	}
	require(stuck == 0 || strstr(result->err, named[0]) != NULL ||
			strstr(result->err, named[1]) != NULL,
		"found '%s', expected '%s'", result->err, named[0]);
}

static void body_fleet(struct prop *prop, const void *context)
{
	const struct replay_fixture *fixture = context;
	char path[PATH_BYTES], outages[64] = "", line[LINE_BYTES];
	struct drawn_fleet fleet;

	draw_fleet(prop, &fleet);
	write_fleet(&fleet, fixture->folder, path);
	if (fleet.spare < fleet.replicas) {
		int used = snprintf(outages, sizeof(outages), "--outages drain:%u@0", fleet.spare);
		if (fleet.joins) {
			snprintf(outages + used, sizeof(outages) - (size_t)used, ",join:%u@4.5",
				fleet.spare);
		}
	}
	snprintf(line, sizeof(line),
		"timeout 5 '%s' replay t.jsonl --policy vllm --block-size 4 --kv-blocks 6 "
		"--max-model-len 15 --max-num-seqs 2 --max-num-batched-tokens 22 "
		"--gpu h200-datasheet --scheduling-policy priority --no-enable-prefix-caching "
		"--long-prefill-token-threshold 4 --no-scheduler-reserve-full-isl "
		"--replicas %u --router round-robin %s --out result --force",
		QUIRE_EXECUTABLE, fleet.replicas, outages);
	struct process_result result = shell_run(fixture->folder, "%s", line);
	require_fleet(&fleet, fixture->out, &result);
	process_result_free(&result);
}

/* Whichever replicas are stuck, have nothing to do, or are given a row later: the fleet goes on as
   long as one of those that have work can, or a row may still come, and no longer. */
Test(livelock, ends_a_fleet_whichever_replicas_are_stuck, .timeout = 120)
{
	struct replay_fixture fixture;
	struct prop_options options = {.name = "stuck fleets", .body = body_fleet, .trials = 250};

	replay_fixture_open(&fixture);
	options.context = &fixture;
	bool holds = prop_holds(&options);
	struct process_result removed = shell_run(fixture.folder, "rm -f t.jsonl");
	process_result_free(&removed);
	replay_fixture_close(&fixture);
	cr_assert(holds);
}
