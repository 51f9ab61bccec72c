#include "bench/replay/replay.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/interrupt.h"
#include "engine/base/text.h"
#include "engine/step_record.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"
#include "tests/models/replay_model.h"

/* Compares the replay with a naive one (tests/models/replay_model.h). Both run the same scene; rows
   of requests.tsv and steps.tsv must be the same bytes, so every arrival, start, addition,
   rejection and count of waiting requests is compared. */

enum {
	PATH_BYTES = TEMPORARY_PATH_BYTES + 32,
#define COUNT_COLUMN(column) +1
	STEP_CELLS = 6 STEP_COUNT_LIST(COUNT_COLUMN), /* of steps.tsv: its times and mode first */
#undef COUNT_COLUMN
};

/* ---- text ---- */

static struct text read_text(const char *path)
{
	struct text text = {0};

	text.bytes = file_read(path, &text.byte_count);
	text.capacity = text.byte_count + 1;
	return text;
}

/* ---- scenes ---- */

static void draw_vllm(struct prop *prop, struct engine_config *config, uint32_t longest)
{
	config->policy = &policy_vllm;
	config->is_async = prop_chance(prop, 1, 2);
	config->allocation = policy_vllm.defaults.allocation;
	config->strategies =
		(struct block_strategies){.free_order = policy_vllm.defaults.free_order,
			.equal_blocks = policy_vllm.defaults.equal_blocks,
			.has_null_block = policy_vllm.defaults.has_null_block};
	config->kv_block_count = 1 + longest + prop_range(prop, 0, 2 * longest);
	config->long_prefill_threshold = prop_chance(prop, 1, 3) ? prop_range(prop, 1, 9) : 0;
}

static void draw_config(struct prop *prop, struct engine_config *config)
{
	static const uint32_t block_sizes[] = {4, 1, 2, 3, 8, 16};

	*config = (struct engine_config){
		.policy = prop_chance(prop, 1, 2) ? &policy_prefill_first : &policy_mixed,
		.admission = prop_chance(prop, 1, 3) ? ADMISSION_SEED : ADMISSION_EXACT,
		.block_size = block_sizes[prop_below(prop, 6)],
		.max_num_seqs = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 2 : 6),
		.max_model_len = prop_range(prop, 2, 96),
		.eos_token_id = -1,
	};
	uint32_t longest = (config->max_model_len + config->block_size - 1) / config->block_size;
	config->kv_block_count = prop_range(prop, 1, 4 * longest);
	if (prop_chance(prop, 1, 3)) {
		draw_vllm(prop, config, longest);
	}
	uint32_t least = config->policy != &policy_prefill_first ? config->max_num_seqs
								 : config->max_model_len;
	config->max_num_batched_tokens = least + prop_range(prop, 0, 32);
	prop_log(prop, "%s%s, %u blocks of %u, %u sequences, %u tokens a step, model length %u",
		config->policy->name, config->is_async ? ", asynchronous" : "",
		config->kv_block_count, config->block_size, config->max_num_seqs,
		config->max_num_batched_tokens, config->max_model_len);
}

/* The first fields of a mooncake row, part of whose prompt may count as cached when it arrives. */
static void draw_stored(
	struct prop *prop, struct text *text, uint64_t time_ns, uint32_t input, uint32_t output)
{
	uint32_t stored = prop_chance(prop, 1, 2) ? prop_below(prop, input) : 0;

	text_format(text,
		"{\"timestamp\": %llu.%06llu, \"input_length\": %u, "
		"\"output_length\": %u, \"stored_length\": %u, \"hash_ids\": [",
		(unsigned long long)(time_ns / 1000000), (unsigned long long)(time_ns % 1000000),
		input, output, stored);
	prop_log(prop, "the next row stores %u tokens", stored);
}

/* A row of the trace, which often shares ids of others: a chat that may follow an earlier one, or
   one that may store. */
static void draw_row(struct prop *prop, struct text *text, uint32_t index, uint64_t time_ns,
	uint32_t length_limit, bool may_store)
{
	uint32_t parent = prop_chance(prop, 1, 3) ? prop_range(prop, 0, index) : index;
	uint32_t input = prop_range(prop, 1, length_limit);
	uint32_t output = prop_range(prop, 1, prop_chance(prop, 1, 3) ? 1 : length_limit);
	uint32_t id_count = (input + REPLAY_MODEL_TRACE_BLOCK - 1) / REPLAY_MODEL_TRACE_BLOCK;
	uint32_t family = prop_range(prop, 0, 2);
	char follows[16] = "-1";

	if (parent < index) {
		snprintf(follows, sizeof(follows), "%u", parent);
	}
	if (may_store) {
		draw_stored(prop, text, time_ns, input, output);
	} else {
		text_format(text,
			"{\"chat_id\": %u, \"parent_chat_id\": %s, \"timestamp\": %llu.%09llu, "
			"\"input_length\": %u, \"output_length\": %u, \"type\": \"text\", "
			"\"turn\": 1, \"hash_ids\": [",
			index, follows, (unsigned long long)(time_ns / 1000000000),
			(unsigned long long)(time_ns % 1000000000), input, output);
	}
	for (uint32_t i = 0; i < id_count; i++) {
		/* the same ids for a family, and a tail of its own */
		uint32_t id = i < 3 ? family * 100 + i : 1000 + index * 100 + i;
		text_format(text, "%s%u", i == 0 ? "" : ",", id);
	}
	text_format(text, "]}\n");
	prop_log(prop, "row %u at %llu ns: %u in, %u out, follows %s, family %u", index,
		(unsigned long long)time_ns, input, output, follows, family);
}

static void draw_trace(struct prop *prop, struct replay_scene *scene)
{
	struct text text = {0};
	uint64_t time_ns = 0;
	uint32_t limit = scene->engine.max_model_len < 40 ? scene->engine.max_model_len : 40;
	bool may_store = prop_chance(prop, 1, 3);

	limit = prop_chance(prop, 1, 2) ? (limit + 1) / 2 : limit;
	scene->row_count = prop_range(prop, 1, REPLAY_MODEL_ROWS);
	for (uint32_t i = 0; i < scene->row_count; i++) {
		if (prop_chance(prop, 1, 2)) {
			bool is_far = prop_chance(prop, 1, 5);
			time_ns += prop_below(prop, is_far ? 10000000 : 3000);
			time_ns -= time_ns % scene->unit_ns;
		}
		draw_row(prop, &text, i, time_ns, limit, may_store);
	}
	file_write(scene->trace_path, text.bytes, text.byte_count);
	text_deinit(&text);
}

static void draw_load(struct prop *prop, struct replay_scene *scene)
{
	static const uint64_t speedups[] = {1000000, 2000000, 333333, 7000001, 1};
	struct workload_options *load = &scene->load;

	*load = (struct workload_options){.trace = {.trace_block_size = REPLAY_MODEL_TRACE_BLOCK},
		.speedup_millionths = 1000000};
	if (prop_chance(prop, 1, 3)) {
		load->concurrency = prop_range(prop, 1, prop_chance(prop, 1, 4) ? 60 : 7);
	} else {
		load->speedup_millionths = speedups[prop_below(prop, 5)];
		load->sessions = prop_chance(prop, 1, 3) ? SESSIONS_CLOSED : SESSIONS_OPEN;
	}
	if (prop_chance(prop, 1, 4)) {
		load->max_requests = prop_range(prop, 1, REPLAY_MODEL_ROWS);
	}
	if (prop_chance(prop, 1, 5)) {
		load->duration_ns = scene->unit_ns * (1 + prop_below(prop, 60000 / scene->unit_ns));
	}
	scene->config.warmup = prop_chance(prop, 1, 3) ? prop_range(prop, 1, REPLAY_MODEL_ROWS) : 0;
	prop_log(prop,
		"speedup %llu millionths, concurrency %llu, sessions %s, %llu requests at "
		"most, end at %llu ns, %llu for warm-up",
		(unsigned long long)load->speedup_millionths, (unsigned long long)load->concurrency,
		load->sessions == SESSIONS_CLOSED ? "closed" : "open",
		(unsigned long long)load->max_requests, (unsigned long long)load->duration_ns,
		(unsigned long long)scene->config.warmup);
}

static void draw_scene(struct prop *prop, struct replay_scene *scene)
{
	static const uint64_t elapsed_limits[] = {2000, 1, 100, 100000, 20000000};

	scene->config =
		(struct replay_config){.tokens = TOKENS_FORCED, .seed = prop_below(prop, 100)};
	scene->seed = prop_below(prop, 1000);
	scene->unit_ns = prop_chance(prop, 1, 3) ? 1000 : 1;
	scene->elapsed_limit = elapsed_limits[prop_below(prop, 5)];
	scene->elapsed_limit = scene->unit_ns > 1 ? 4 : scene->elapsed_limit;
	scene->delay_limit = prop_chance(prop, 1, 4) ? 1 + prop_below(prop, 5000) : 0;
	scene->fail_at_step = prop_chance(prop, 1, 5) ? prop_below(prop, 40) : REPLAY_MODEL_NEVER;
	scene->interrupt_at_step = REPLAY_MODEL_NEVER;
	/* start() is not called for a step launched ahead. */
	scene->can_overlap = scene->delay_limit == 0 && prop_chance(prop, 3, 4);
	scene->fails_at_launch = prop_chance(prop, 1, 3);
	draw_config(prop, &scene->engine);
	draw_load(prop, scene);
	draw_trace(prop, scene);
	scene->most_parts = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 6) : 0;
	prop_log(prop,
		"steps take up to %llu ns, start up to %llu ns late, fail at %lld%s%s, up to %u "
		"parts a launch",
		(unsigned long long)scene->elapsed_limit, (unsigned long long)scene->delay_limit,
		(long long)scene->fail_at_step, scene->fails_at_launch ? ", at launch" : "",
		scene->can_overlap ? ", overlapped" : "", scene->most_parts);
}

/* ---- both run ---- */

struct tables {
	struct table_writer requests, steps;
	char requests_path[PATH_BYTES], steps_path[PATH_BYTES];
};

static void open_tables(struct tables *tables, const char *folder, const char *name)
{
	snprintf(tables->requests_path, PATH_BYTES, "%s/%s.requests", folder, name);
	snprintf(tables->steps_path, PATH_BYTES, "%s/%s.steps", folder, name);
	table_file_open(&tables->requests, tables->requests_path, REQUEST_COLUMNS);
	table_file_open(&tables->steps, tables->steps_path, STEP_COLUMNS);
}

static void close_tables(struct tables *tables)
{
	table_file_close(&tables->requests);
	table_file_close(&tables->steps);
}

static void run_replay(struct replay *replay, struct replay_scene *scene, struct runner *runner,
	struct tables *tables)
{
	struct error error = {0};
	const struct replay_options options = {
		.config = &scene->config,
		.workload = &scene->load,
		.trace_path = scene->trace_path,
		.is_checking = true,
		.overlaps = true,
		.vocab_size = REPLAY_MODEL_VOCABULARY,
	};
	FILE *out = NULL;

	*runner = replay_scene_runner(scene, scene->can_overlap);
	struct replay_sinks sinks = {.requests = &tables->requests, .steps = &tables->steps};
	require(replay_open(replay, &options, &scene->engine, runner, &error) == STATUS_OK, "%s",
		error.text);
	if (scene->timeline_path != NULL) {
		out = fopen(scene->timeline_path, "wb");
		require(out != NULL, "%s cannot be written", scene->timeline_path);
		sinks.timeline = perfetto_open(
			out, engine_slot_count(replay->engine), &(struct perfetto_window){0});
	}
	replay_set_sinks(replay, &sinks);
	require(replay_run(replay, &error) == STATUS_OK, "%s", error.text);
	if (scene->timeline_path != NULL) {
		perfetto_end(sinks.timeline, replay->now_ns);
		perfetto_close(sinks.timeline);
		require(fclose(out) == 0, "the timeline cannot be written");
	}
}

/* ---- what must hold ---- */

static void require_same_text(
	const char *what, const struct text *found, const struct text *expected)
{
	size_t at = 0;

	while (found->bytes[at] != '\0' && found->bytes[at] == expected->bytes[at]) {
		at++;
	}
	if (found->byte_count == expected->byte_count && at == found->byte_count) {
		return;
	}
	while (at > 0 && found->bytes[at - 1] != '\n') {
		at--;
	}
	require_failed(__FILE__, __LINE__, "%s: found\n%.300s\nexpected\n%.300s", what,
		found->bytes + at, expected->bytes + at);
}

/* The column of session names is removed, since the naive replay has none. */
static void drop_sessions(struct text *text)
{
	size_t to = 0;
	uint32_t column = 0;

	for (size_t i = 0; i < text->byte_count; i++) {
		char c = text->bytes[i];
		column = c == '\n' ? 0 : column + (c == '\t');
		if (column != 1 || c == '\t') {
			text->bytes[to++] = c;
		}
	}
	text->bytes[to] = '\0';
	text->byte_count = to;
}

static struct text read_requests(const char *path)
{
	struct text text = read_text(path);

	drop_sessions(&text);
	return text;
}

/* Cells of a row as numbers; a cell without one is REPLAY_MODEL_NEVER. Returns the start of the
   next row, or NULL. */
static const char *read_cells(const char *row, uint64_t *cells, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = strcspn(row, "\t\n");
		char cell[32];
		snprintf(cell, sizeof(cell), "%.*s", (int)bytes, row);
		char *end;
		cells[i] = strtoull(cell, &end, 10);
		cells[i] = end == cell || *end != '\0' ? REPLAY_MODEL_NEVER : cells[i];
		require(row[bytes] == (i + 1 == count ? '\n' : '\t'), "a row of another length");
		row += bytes + 1;
	}
	return *row == '\0' ? NULL : row;
}

/* A step does not begin before the one before has ended, and they add up to the busy time. */
static void require_monotone_steps(const struct text *steps, uint64_t busy_ns)
{
	const char *row = strchr(steps->bytes, '\n') + 1;
	uint64_t cells[STEP_CELLS];
	uint64_t step = 0, end_ns = 0, sum_ns = 0;

	while (row != NULL && *row != '\0') {
		row = read_cells(row, cells, STEP_CELLS);
		require_equal(cells[0], step++);
		require(cells[1] >= end_ns, "step %llu starts before the last has ended",
			(unsigned long long)cells[0]);
		end_ns = cells[1] + cells[2];
		sum_ns += cells[2];
	}
	require_equal(sum_ns, busy_ns);
}

/* Times of a request are in their order, every request has one row, and tokens add up. */
static void require_sound_requests(const struct text *requests, const struct metrics *metrics)
{
	enum { ID, NAME, STATUS, ARRIVAL, SCHEDULED, TOKEN, FINISH, PROMPT, CACHED, OUTPUT, END };
	const char *row = strchr(requests->bytes, '\n') + 1;
	bool is_seen[REPLAY_MODEL_ROWS] = {false};
	uint64_t cells[17];
	uint64_t count = 0, output = 0, recorded = 0;

	while (row != NULL && *row != '\0') {
		row = read_cells(row, cells, 17);
		require(cells[ID] < REPLAY_MODEL_ROWS && !is_seen[cells[ID]], "a request twice");
		is_seen[cells[ID]] = true;
		uint64_t before = cells[ARRIVAL];
		for (uint32_t i = SCHEDULED; i <= FINISH; i++) {
			require(cells[i] == REPLAY_MODEL_NEVER || cells[i] >= before,
				"request %llu: time runs backwards", (unsigned long long)cells[ID]);
			before = cells[i] == REPLAY_MODEL_NEVER ? before : cells[i];
		}
		require(cells[FINISH] == REPLAY_MODEL_NEVER || cells[TOKEN] != REPLAY_MODEL_NEVER,
			"no token");
		require(cells[TOKEN] == REPLAY_MODEL_NEVER ||
				cells[SCHEDULED] != REPLAY_MODEL_NEVER,
			"never scheduled");
		count++;
		output += cells[OUTPUT];
	}
	require_equal(count, metrics->submitted);
	require_equal(metrics->submitted,
		metrics->finished + metrics->rejected + metrics->failed + metrics->unfinished);
	for (uint32_t i = 0; i < metrics->distributions->timeline.bin_count; i++) {
		recorded += metrics->distributions->timeline.bins[i].output_tokens;
	}
	require_equal(recorded, output);
	require_equal(metrics->work.output_tokens, output);
}

/* What was done in the window, and how long requests waited in it. */
static void require_same_window(const struct replay *replay, const struct replay_model *model)
{
	struct run_sums found, expected;
	uint64_t start_ns[2], end_ns[2];

	metrics_window(&replay->metrics, replay->now_ns, &found, &start_ns[0], &end_ns[0]);
	metrics_window(&model->metrics, model->now_ns, &expected, &start_ns[1], &end_ns[1]);
	require_equal(start_ns[0], start_ns[1]);
	require_equal(end_ns[0], end_ns[1]);
	require_equal(found.steps, expected.steps);
	require_equal(found.busy_ns, expected.busy_ns);
	require_equal(found.output_tokens, expected.output_tokens);
	require_equal(found.hit_tokens, expected.hit_tokens);
	require(found.running_ns == expected.running_ns, "the running time differs");
	require(memcmp(found.waits.ns, expected.waits.ns, sizeof(found.waits.ns)) == 0,
		"the waits by cause differ");
}

static void require_same_run(
	const struct replay *replay, const struct replay_model *model, const char *folder)
{
	char path[PATH_BYTES];

	require_equal(replay->has_failed, model->has_failed);
	snprintf(path, sizeof(path), "%s/replay.steps", folder);
	struct text steps = read_text(path);
	require_same_text("steps.tsv", &steps, &model->steps);
	snprintf(path, sizeof(path), "%s/replay.requests", folder);
	struct text found = read_requests(path);
	snprintf(path, sizeof(path), "%s/model.requests", folder);
	struct text expected = read_requests(path);
	require_same_text("requests.tsv", &found, &expected);
	require_equal(replay->now_ns, model->now_ns);
	require_equal(replay->metrics.work.busy_ns, model->metrics.work.busy_ns);
	require_same_window(replay, model);
	require_equal(replay->metrics.failed, model->metrics.failed);
	require_equal(replay->metrics.capped, model->metrics.capped);
	require_equal(engine_capped_count(replay->engine), model->metrics.capped);
	require_equal(metrics_result_hash(&replay->metrics), metrics_result_hash(&model->metrics));
	if (model->scene->load.duration_ns == 0 && model->has_backlog) {
		require_equal(replay->backlog_at_last_arrival, model->backlog_at_last_arrival);
	}
	require_monotone_steps(&steps, replay->metrics.work.busy_ns);
	require_sound_requests(&found, &replay->metrics);
	free(steps.bytes);
	free(found.bytes);
	free(expected.bytes);
}

static void body_replay(struct prop *prop, const void *context)
{
	const char *folder = context;
	char trace_path[PATH_BYTES];
	struct replay_scene scene = {.trace_path = trace_path};
	struct runner runner;
	struct replay *replay = calloc(1, sizeof(*replay));
	struct replay_model *model = calloc(1, sizeof(*model));
	struct tables *tables = calloc(1, sizeof(*tables));

	require(replay != NULL && model != NULL && tables != NULL, "out of memory");
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	draw_scene(prop, &scene);
	open_tables(tables, folder, "replay");
	run_replay(replay, &scene, &runner, tables);
	close_tables(tables);
	open_tables(tables, folder, "model");
	replay_model_run(model, &scene, &tables->requests);
	close_tables(tables);
	require_same_run(replay, model, folder);
	replay_close(replay);
	replay_model_close(model);
	free(model);
	free(replay);
	free(tables);
}

Test(replay, runs_equal_those_of_a_naive_replay, .timeout = 600)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct prop_options options = {
		.name = "replay", .body = body_replay, .context = folder, .trials = 1000};

	temporary_folder(folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* ---- an interrupt ---- */

/* Requests one after the other, so that there are more steps than the replay makes between two
   looks for an interrupt. */
static void write_long_trace(const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "cannot write %s", path);
	for (uint32_t i = 0; i < REPLAY_MODEL_ROWS; i++) {
		fprintf(file,
			"{\"chat_id\": %u, \"timestamp\": %u.%u, \"input_length\": 5, "
			"\"output_length\": 60}\n",
			i, i / 10, i % 10);
	}
	fclose(file);
}

static struct text run_long(struct replay_scene *scene, struct replay *replay, const char *folder)
{
	static struct tables tables;
	struct runner runner;

	open_tables(&tables, folder, "replay");
	run_replay(replay, scene, &runner, &tables);
	close_tables(&tables);
	struct text steps = read_text(tables.steps_path);
	struct text requests = read_requests(tables.requests_path);
	require_monotone_steps(&steps, replay->metrics.work.busy_ns);
	require_sound_requests(&requests, &replay->metrics);
	free(requests.bytes);
	return steps;
}

/* One request at a time, many times longer than a poll for interrupts takes. */
static struct replay_scene long_scene(const char *trace_path)
{
	return (struct replay_scene){
		.config = {.tokens = TOKENS_FORCED},
		.load = {.trace = {.trace_block_size = REPLAY_MODEL_TRACE_BLOCK},
			.speedup_millionths = 1000000},
		.engine = {.policy = &policy_mixed,
			.block_size = 4,
			.kv_block_count = 40,
			.max_num_seqs = 1,
			.max_num_batched_tokens = 16,
			.max_model_len = 100,
			.eos_token_id = -1},
		.unit_ns = 1,
		.elapsed_limit = UINT64_C(1) << 25,
		.fail_at_step = REPLAY_MODEL_NEVER,
		.interrupt_at_step = REPLAY_MODEL_NEVER,
		.trace_path = trace_path,
	};
}

Test(replay, an_interrupted_run_is_the_beginning_of_the_whole_one)
{
	static struct replay replay;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES];
	struct replay_scene scene = long_scene(trace_path);

	interrupt_catch();
	interrupt_hold();
	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	write_long_trace(trace_path);
	struct text whole = run_long(&scene, &replay, folder);
	require(!replay.is_interrupted, "it was interrupted");
	require_equal(replay.metrics.finished, REPLAY_MODEL_ROWS);
	replay_close(&replay);

	scene.interrupt_at_step = 1000;
	struct text part = run_long(&scene, &replay, folder);
	interrupt_release();
	require(replay.is_interrupted && !replay.has_failed, "it was not interrupted");
	require(replay.metrics.work.steps > 1000 && replay.metrics.work.steps < 2000,
		"after %llu steps", (unsigned long long)replay.metrics.work.steps);
	require(replay.metrics.finished > 0 && replay.metrics.unfinished > 0,
		"no request is unfinished");
	require(strncmp(whole.bytes, part.bytes, part.byte_count) == 0, "it is no beginning");
	/* One request is served at a time, and the others wait: they are the reported backlog, and
	   each that has arrived has a row, tenths of a second apart. */
	require(replay.backlog_at_last_arrival > 0, "nothing waits");
	require_equal(replay.metrics.submitted,
		u64_min(REPLAY_MODEL_ROWS, replay.now_ns / 100000000 + 1));
	require_equal(
		replay.metrics.submitted, replay.metrics.finished + replay.metrics.unfinished);
	replay_close(&replay);
	free(whole.bytes);
	free(part.bytes);
	temporary_remove(folder);
}

/* Launching ahead makes the same decisions, and stops in order. */
Test(replay, steps_in_flight_change_nothing)
{
	static struct replay replay;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES], timeline_path[PATH_BYTES];
	struct replay_scene scene = long_scene(trace_path);

	scene.elapsed_limit = 100; /* so that there is a time when all have arrived */
	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	write_long_trace(trace_path);
	snprintf(timeline_path, sizeof(timeline_path), "%s/timeline.json", folder);
	scene.timeline_path = timeline_path;
	struct text one_by_one = run_long(&scene, &replay, folder);
	struct text timeline = read_text(timeline_path);
	replay_close(&replay);
	scene.can_overlap = true;
	for (scene.most_parts = 0; scene.most_parts <= 4; scene.most_parts += 4) {
		scene.launch_count = scene.collect_count = scene.overlap_count = 0;
		struct text ahead = run_long(&scene, &replay, folder);
		struct text timeline_ahead = read_text(timeline_path);
		require_same_text("steps.tsv", &ahead, &one_by_one);
		require_same_text("the timeline", &timeline_ahead, &timeline);
		require(scene.overlap_count > 0, "no step was launched ahead");
		require_equal(scene.launch_count, scene.collect_count);
		require((scene.left_count > 0) == (scene.most_parts > 0),
			"%llu steps were collected in mid-launch",
			(unsigned long long)scene.left_count);
		replay_close(&replay);
		free(timeline_ahead.bytes);
		free(ahead.bytes);
	}
	free(timeline.bytes);
	free(one_by_one.bytes);
	temporary_remove(folder);
}

/* A step that fails while another is in flight leaves the same files as without overlap. */
Test(replay, a_step_that_fails_in_flight_brings_no_tokens)
{
	static struct replay replay;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES], requests_path[PATH_BYTES];
	struct replay_scene scene = long_scene(trace_path);
	struct text plain = {0}, plain_requests = {0};

	/* In the midst of the last request, when all have arrived. */
	scene.elapsed_limit = 100;
	scene.fail_at_step = REPLAY_MODEL_ROWS * 60 - 50;
	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	snprintf(requests_path, sizeof(requests_path), "%s/replay.requests", folder);
	write_long_trace(trace_path);
	for (uint32_t i = 0; i < 4; i++) {
		scene.can_overlap = i > 0;
		scene.fails_at_launch = i >= 2;
		scene.most_parts = i == 3 ? 4 : 0;
		scene.parts_left = 0;
		scene.launch_count = scene.collect_count = scene.overlap_count = 0;
		struct text steps = run_long(&scene, &replay, folder);
		struct text requests = read_text(requests_path);
		require(replay.has_failed && replay.metrics.failed == 1, "it did not fail");
		require_equal(replay.metrics.finished, REPLAY_MODEL_ROWS - 1);
		require_equal(replay.metrics.work.output_tokens, (REPLAY_MODEL_ROWS - 1) * 60 + 10);
		require(i == 0 || scene.overlap_count > 0, "no step was launched ahead");
		if (i == 0) {
			plain = steps;
			plain_requests = requests;
		} else {
			require_same_text("steps.tsv", &steps, &plain);
			require_same_text("requests.tsv", &requests, &plain_requests);
			free(steps.bytes);
			free(requests.bytes);
		}
		replay_close(&replay);
	}
	free(plain.bytes);
	free(plain_requests.bytes);
	temporary_remove(folder);
}

/* Steps that were launched before the one before them had ended. */
static uint64_t count_ahead(struct replay_scene *scene, const char *folder, uint64_t *step_count)
{
	static struct replay replay;

	scene->can_overlap = true;
	scene->launch_count = scene->collect_count = scene->overlap_count = 0;
	struct text steps = run_long(scene, &replay, folder);
	*step_count = replay.metrics.work.steps;
	require_equal(replay.metrics.finished, REPLAY_MODEL_ROWS);
	replay_close(&replay);
	free(steps.bytes);
	return scene->overlap_count;
}

/* A closed loop waits for a step's end only at the start, as long as requests come only when others
   finish; nor does an open loop wait while every arrival has to queue. */
Test(replay, runs_ahead_where_a_steps_time_decides_nothing)
{
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES];
	struct replay_scene scene = long_scene(trace_path);
	uint64_t steps;

	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	write_long_trace(trace_path);
	scene.elapsed_limit = 100;
	scene.engine.max_num_seqs = 4;
	for (uint64_t concurrency = 1; concurrency <= 9; concurrency++) {
		scene.load.concurrency = concurrency;
		uint64_t ahead = count_ahead(&scene, folder, &steps);
		/* Requests beyond the engine's room are unknown to it: a free seat goes to one that
		   waits there, and then another may arrive. */
		require(concurrency > 4 ? ahead > steps / 2 : ahead == steps - 1,
			"%llu of %llu steps with %llu at once", (unsigned long long)ahead,
			(unsigned long long)steps, (unsigned long long)concurrency);
	}
	/* Where the loop has an end, which rows come for departures depends on when. */
	scene.load.concurrency = 4;
	scene.load.duration_ns = UINT64_C(1) << 40;
	uint64_t ahead = count_ahead(&scene, folder, &steps);
	require(ahead < steps - 1 && ahead > steps / 2, "%llu of %llu", (unsigned long long)ahead,
		(unsigned long long)steps);
	/* Everything arrives within the first steps, and one at a time is served. */
	scene.load.concurrency = 0;
	scene.load.duration_ns = 0;
	scene.engine.max_num_seqs = 1;
	scene.elapsed_limit = UINT64_C(1) << 25;
	ahead = count_ahead(&scene, folder, &steps);
	require(ahead > steps * 9 / 10, "%llu of %llu", (unsigned long long)ahead,
		(unsigned long long)steps);
	temporary_remove(folder);
}
