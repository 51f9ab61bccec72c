#include "bench/replay/loop.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/replay/fleet.h"
#include "engine/base/interrupt.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* The order of what happens at one moment, worked by hand: every step takes 10 ms, a request of n
   tokens n steps. Steps end, replicas fail and join, waiting and new requests are sent, steps
   begin. */

enum { MS = 1000000, ROWS_MAX = 8, PATH_BYTES = TEMPORARY_PATH_BYTES + 32 };

static enum status take_ten_ms(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)state;
	(void)batch;
	(void)token_ids;
	(void)error;
	*time = (struct step_time){
		.elapsed_ns = 10 * MS, .gpu_ns = 10 * MS, .mode = STEP_MODE_NONE};
	return STATUS_OK;
}

struct request_line {
	uint32_t time_ms, output;
};

/* What became of a request. replica 9: none. */
struct expected {
	uint32_t replica, finish_ms;
};

struct loop_case {
	const char *name;
	struct request_line rows[ROWS_MAX]; /* up to one without output */
	const char *outages;
	uint32_t replica_limit, router_queue;
	struct expected expected[ROWS_MAX];
	uint64_t retries;
};

static const struct loop_case cases[] = {
	{"an arrival sees the steps that end at its moment", {{0, 2}, {0, 1}, {10, 1}}, NULL, 0, 0,
		{{0, 20}, {1, 10}, {1, 20}}, 0},
	{"a request in mid-step waits for the step's end", {{0, 2}, {0, 3}, {5, 1}}, NULL, 0, 0,
		{{0, 20}, {1, 30}, {0, 20}}, 0},
	{"requests that wait at the router are sent in their order, before new ones",
		{{0, 2}, {0, 1}, {0, 1}, {5, 1}, {10, 1}}, NULL, 1, 0,
		{{0, 20}, {1, 10}, {1, 20}, {0, 30}, {1, 30}}, 0},
	{"a full queue refuses", {{0, 2}, {0, 2}, {0, 1}, {5, 1}, {30, 1}}, NULL, 1, 1,
		{{0, 20}, {1, 20}, {0, 30}, {9, 0}, {0, 40}}, 0},
	{"a step that ends when its replica fails has ended", {{0, 1}, {0, 3}},
		"fail:0@0.01,fail:1@0.01,join:0@0.02", 0, 0, {{0, 10}, {0, 50}}, 1},
	{"a request starts anew, from its first token, before those that wait",
		{{0, 5}, {0, 1}, {12, 1}, {13, 1}}, "fail:0@0.015", 1, 0,
		{{1, 72}, {1, 10}, {1, 22}, {1, 82}}, 1},
	{"an arrival is sent to a replica that joins at its moment", {{0, 5}, {10, 1}},
		"join:1@0.01", 0, 0, {{0, 50}, {1, 20}}, 0},
	{"a replica that drains ends what it has", {{0, 1}, {0, 3}, {5, 1}}, "drain:0@0.004", 0, 0,
		{{0, 10}, {1, 30}, {1, 20}}, 0},
};

static void write_trace(const struct loop_case *row, const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "no trace");
	for (uint32_t i = 0; i < ROWS_MAX && row->rows[i].output > 0; i++) {
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": 4, \"output_length\": %u, "
			"\"hash_ids\": [%u]}\n",
			row->rows[i].time_ms, row->rows[i].output, i);
	}
	require(fclose(file) == 0, "no trace");
}

/* Fields 1, 7 and the last of requests.tsv: id, finish_ns, replica. */
static void require_requests(const struct loop_case *row, const char *path)
{
	char *text = file_read(path, NULL);
	uint32_t found = 0, expected = 0;

	while (expected < ROWS_MAX && row->rows[expected].output > 0) {
		expected++;
	}
	for (char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
		char finish[32], last[32];
		unsigned id;
		require(sscanf(line, "%u\t%*s\t%*s\t%*s\t%*s\t%*s\t%31s", &id, finish) == 2, "%s",
			line);
		size_t bytes = strcspn(line, "\n");
		const char *tab = line + bytes;
		while (tab[-1] != '\t') {
			tab--;
		}
		snprintf(last, sizeof(last), "%.*s", (int)(line + bytes - tab), tab);
		const struct expected *wanted = &row->expected[id];
		bool is_nowhere = wanted->replica == 9;
		uint64_t finish_ms = strtoull(finish, NULL, 10) / MS;
		require(is_nowhere ? strcmp(last, "-") == 0
				   : strtoul(last, NULL, 10) == wanted->replica &&
					     finish_ms == wanted->finish_ms,
			"%s: request %u ended on %s at %llu ms, expected %u at %u", row->name, id,
			last, (unsigned long long)finish_ms, wanted->replica, wanted->finish_ms);
		found++;
	}
	require_equal(found, expected);
	free(text);
}

static void open_fleet(struct fleet *fleet, const struct replay_options *options,
	const struct runner *runner, uint32_t max_num_seqs)
{
	struct error error = {0};

	fleet_init(fleet, 2);
	for (uint32_t i = 0; i < 2; i++) {
		fleet->runners[i] = *runner;
		fleet->configs[i] = (struct engine_config){.policy = &policy_mixed,
			.block_size = 4,
			.kv_block_count = 100,
			.max_num_seqs = max_num_seqs,
			.max_num_batched_tokens = 64,
			.max_model_len = 50,
			.eos_token_id = -1};
	}
	require(fleet_open(fleet, options, &error) == STATUS_OK, "%s", error.text);
}

static void run_case(const struct loop_case *row, const char *folder)
{
	static struct table_writer requests;
	static const struct runner runner = {.name = "ten ms", .execute = take_ten_ms};
	struct replay_config config;
	struct fleet fleet;
	struct run_outcome outcome;
	struct error error = {0};
	const struct workload_options load = {.speedup_millionths = 1000000};
	char trace[PATH_BYTES], path[PATH_BYTES];

	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	write_trace(row, trace);
	replay_config_default(&config);
	config.replicas = 2;
	config.outages = row->outages;
	config.replica_limit = row->replica_limit;
	config.router_queue = row->router_queue > 0 ? row->router_queue : NO_ROUTER_QUEUE_LIMIT;
	const struct replay_options options = {.config = &config,
		.workload = &load,
		.trace_path = trace,
		.is_checking = true,
		.vocab_size = 1000};
	open_fleet(&fleet, &options, &runner, 4);
	table_file_open(&requests, path, REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN);
	fleet_set_sinks(&fleet, &(struct replay_sinks){.requests = &requests});
	require(fleet_run(&fleet, &error) == STATUS_OK, "%s", error.text);
	table_file_close(&requests);
	fleet_outcome(&fleet, &outcome);
	require_requests(row, path);
	require_equal(outcome.fleet.retries, row->retries);
	fleet_close(&fleet);
}

Test(loop, moments_have_the_order_that_was_worked_by_hand)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		run_case(&cases[i], folder);
	}
	temporary_remove(folder);
}

/* ---- who waits when the run ends ---- */

/* An interrupt, or a failure, at a step that is executed. */
struct cut {
	uint32_t interrupt_at, fail_at, steps;
};

enum { NEVER = 1000 };

static enum status take_cut(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct cut *cut = state;
	uint32_t step = cut->steps++;

	memset(token_ids, 0, batch->counts.sampled_rows * sizeof(*token_ids));
	if (step == cut->interrupt_at) {
		raise(SIGINT);
	}
	if (step == cut->fail_at) {
		return error_set(error, STATUS_DEVICE, "step %u fails", step);
	}
	/* Replicas end at different times. */
	uint64_t elapsed_ns = (step % 2 == 0 ? 10 : 13) * MS;
	*time = (struct step_time){
		.elapsed_ns = elapsed_ns, .gpu_ns = elapsed_ns, .mode = STEP_MODE_NONE};
	return STATUS_OK;
}

/* Two run, and the others wait: in a replica, before it, or at the router. */
static const struct loop_case crowd = {
	.rows = {{0, 3}, {0, 3}, {0, 2}, {5, 2}, {12, 1}, {15, 1}, {15, 1}, {15, 1}}};

/* Field 13 of requests.tsv. */
static u128 sum_queue_ns(const char *path)
{
	char *text = file_read(path, NULL);
	u128 sum = 0;

	for (char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
		char cell[32];
		require(sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %31s",
				cell) == 1,
			"%s", line);
		sum += strtoull(cell, NULL, 10);
	}
	free(text);
	return sum;
}

/* The time for which requests waited is the same by cause and by request, however the run ends. */
static void run_crowd(const char *folder, struct cut cut, uint32_t replica_limit)
{
	static struct table_writer requests;
	const struct runner runner = {
		.name = "cut", .state = &cut, .is_computing = true, .execute = take_cut};
	const struct workload_options load = {.speedup_millionths = 1000000};
	char trace[PATH_BYTES], path[PATH_BYTES];
	struct run_outcome outcome;
	struct replay_config config;
	struct error error = {0};
	struct fleet fleet;
	u128 sum = 0;

	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	write_trace(&crowd, trace);
	replay_config_default(&config);
	config.replicas = 2;
	config.replica_limit = replica_limit;
	const struct replay_options options = {
		.config = &config, .workload = &load, .trace_path = trace, .vocab_size = 1000};
	open_fleet(&fleet, &options, &runner, 1);
	table_file_open(&requests, path, REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN);
	fleet_set_sinks(&fleet, &(struct replay_sinks){.requests = &requests});
	interrupt_hold();
	require(fleet_run(&fleet, &error) == STATUS_OK, "%s", error.text);
	interrupt_release();
	table_file_close(&requests);
	fleet_outcome(&fleet, &outcome);
	bool is_whole = cut.interrupt_at == NEVER && cut.fail_at == NEVER;
	require_equal(outcome.end, is_whole		  ? RUN_COMPLETE
				   : cut.fail_at == NEVER ? RUN_INTERRUPTED
							  : RUN_FAILED);
	for (uint32_t i = 0; i < WAIT_CAUSE_COUNT; i++) {
		sum += outcome.work.waits.ns[i];
	}
	require(sum == sum_queue_ns(path), "cut at %u or %u: %llu ns by cause, %llu by request",
		cut.interrupt_at, cut.fail_at, (unsigned long long)sum,
		(unsigned long long)sum_queue_ns(path));
	require_equal(outcome.unfinished > 0, outcome.end == RUN_INTERRUPTED);
	require_equal(outcome.failed > 0, outcome.end == RUN_FAILED);
	if (is_whole) {
		require_equal(outcome.backlog_at_last_arrival, 6);
	}
	fleet_close(&fleet);
}

Test(loop, who_waits_at_the_end_is_counted)
{
	char folder[TEMPORARY_PATH_BYTES];

	interrupt_catch();
	temporary_folder(folder);
	for (uint32_t limit = 0; limit <= 2; limit++) {
		for (uint32_t step = 0; step < 8; step++) {
			run_crowd(folder, (struct cut){step, NEVER, 0}, limit);
			run_crowd(folder, (struct cut){NEVER, step, 0}, limit);
		}
		run_crowd(folder, (struct cut){NEVER, NEVER, 0}, limit);
	}
	temporary_remove(folder);
}

/* ---- the progress line ---- */

/* Ten seconds of the trace in ten milliseconds. */
static enum status take_ten_s(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct timespec wait = {.tv_nsec = 10 * MS};

	(void)state;
	(void)error;
	memset(token_ids, 0, batch->counts.sampled_rows * sizeof(*token_ids));
	nanosleep(&wait, NULL);
	*time = (struct step_time){.elapsed_ns = 10000 * (uint64_t)MS, .mode = STEP_MODE_NONE};
	return STATUS_OK;
}

/* Each line counts what is over, and has the time of the latest replica and the steps of both. */
static uint32_t require_lines(char *text)
{
	uint32_t lines = 0;

	for (char *line = strtok(text, "\r"); line != NULL; line = strtok(NULL, "\r")) {
		unsigned steps, time_s;
		if (strcmp(line, "\033[K") == 0) {
			continue;
		}
		require(sscanf(line,
				"\033[K1 of 5 requests (20.0 %%), %u steps, %u s of the trace in",
				&steps, &time_s) == 2,
			"found %s", line);
		/* 10 s a step, of two replicas side by side. */
		require(steps >= 2 && time_s / 10 >= (steps - 1) / 2 &&
				time_s / 10 <= steps / 2 + 1,
			"found %s", line);
		lines++;
	}
	return lines;
}

/* A request that is rejected, and four that end together. */
Test(loop, progress_is_that_of_all_replicas)
{
	static const struct loop_case load_case = {
		.rows = {{0, 80}, {0, 30}, {0, 30}, {0, 30}, {0, 30}}};
	static const struct runner runner = {
		.name = "ten s", .is_computing = true, .execute = take_ten_s};
	const struct workload_options load = {.speedup_millionths = 1000000};
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES];
	struct replay_config config;
	struct error error = {0};
	struct capture capture;
	struct fleet fleet;

	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	write_trace(&load_case, trace);
	replay_config_default(&config);
	config.replicas = 2;
	const struct replay_options options = {.config = &config,
		.workload = &load,
		.trace_path = trace,
		.vocab_size = 1000,
		.progress = PROGRESS_TERMINAL};
	open_fleet(&fleet, &options, &runner, 4);
	capture_begin(&capture, STDERR_FILENO);
	enum status status = fleet_run(&fleet, &error);
	char *text = capture_end(&capture);
	require(status == STATUS_OK, "%s", error.text);
	require(require_lines(text) >= 2, "nothing shown");
	free(text);
	fleet_close(&fleet);
	temporary_remove(folder);
}
