#include "bench/replay/replay.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/counter_hash.h"
#include "engine/base/text.h"
#include "engine/step_record.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/conversations.h"

/* The replay beside a naive one that holds the whole trace in memory, knows of every row when it
   arrives, and looks at all of them before each step. Both drive an engine and metrics of their own
   with the same runner; rows of requests.tsv and steps.tsv must be the same bytes, so every
   arrival, every start, every hand-over, rejection and count of those who wait is compared. */

enum {
	ROWS_MAX = 48,
	LENGTH_MAX = 64,
	TRACE_BLOCK = 4,
	VOCABULARY = 1000,
	PATH_BYTES = TEMPORARY_PATH_BYTES + 32,
#define COUNT_COLUMN(column) +1
	STEP_CELLS = 6 STEP_COUNT_LIST(COUNT_COLUMN), /* of steps.tsv: its times and mode first */
#undef COUNT_COLUMN
};

#define NOBODY UINT32_MAX
#define NEVER UINT64_MAX

/* What is simulated: options, a trace, and how the runner behaves. */
struct scene {
	const char *timeline_path; /* NULL: no such file */
	struct replay_config config;
	struct workload_options load;
	struct engine_config engine;
	uint32_t row_count;
	uint64_t seed;	  /* of the runner */
	uint64_t unit_ns; /* of times: coarse ones meet each other often */
	uint64_t elapsed_limit;
	uint64_t delay_limit;  /* of its starts; 0: it has no start function */
	uint64_t fail_at_step; /* NEVER: it does not */
	uint64_t interrupt_at_step;
	const char *trace_path;
	bool can_overlap;     /* steps are launched and collected */
	bool fails_at_launch; /* the step that fails */
	uint64_t launched[2];
	uint64_t launch_count, collect_count, overlap_count;
};

static enum status time_of(
	const struct scene *scene, uint64_t step, struct step_time *time, struct error *error)
{
	uint64_t key = counter_key(scene->seed, 1);

	if (step == scene->fail_at_step) {
		return error_set(error, STATUS_DEVICE, "the device is on fire");
	}
	if (step == scene->interrupt_at_step) {
		raise(SIGINT);
	}
	time->elapsed_ns = counter_hash(key, step) % scene->elapsed_limit * scene->unit_ns;
	time->gpu_ns = time->elapsed_ns / 2;
	time->host_ns = time->elapsed_ns / 3;
	time->mode = STEP_MODE_EAGER;
	return STATUS_OK;
}

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)token_ids;
	return time_of(state, batch->step, time, error);
}

static enum status launch(void *state, const struct batch *batch, struct error *error)
{
	struct scene *scene = state;

	if (scene->fails_at_launch && batch->step == scene->fail_at_step) {
		return error_set(error, STATUS_DEVICE, "the device does not listen");
	}
	require(scene->launch_count - scene->collect_count < 2, "more than two steps in flight");
	scene->overlap_count += scene->launch_count > scene->collect_count;
	scene->launched[scene->launch_count++ % 2] = batch->step;
	return STATUS_OK;
}

static enum status collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct scene *scene = state;

	(void)token_ids;
	require(scene->collect_count < scene->launch_count, "nothing is in flight");
	return time_of(state, scene->launched[scene->collect_count++ % 2], time, error);
}
static enum status delay_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	const struct scene *scene = state;
	(void)error;

	*start_ns = earliest_ns +
		    counter_hash(counter_key(scene->seed, 2), earliest_ns) % scene->delay_limit;
	return STATUS_OK;
}

static struct runner runner_of(struct scene *scene)
{
	return (struct runner){.name = "scene",
		.state = scene,
		.execute = take_time,
		.start = scene->delay_limit > 0 ? delay_start : NULL};
}

/* ---- text ---- */

static struct text read_text(const char *path)
{
	struct text text = {0};

	text.bytes = file_read(path, &text.size);
	text.capacity = text.size + 1;
	return text;
}

/* ---- the naive replay ---- */

struct naive_row {
	struct trace_row row; /* its pointers are not used */
	int32_t tokens[2 * LENGTH_MAX];
	uint32_t parent; /* row that it follows, closed sessions only, or NOBODY */
	uint64_t time_ns;
	bool has_arrived, was_handed;
	uint64_t arrival_ns;
	uint64_t left_ns; /* NEVER until it has finished or was turned away */
};

struct naive {
	struct scene *scene;
	struct runner runner;
	struct engine *engine;
	struct metrics metrics;
	struct naive_row rows[ROWS_MAX];
	uint32_t row_count;
	uint64_t leaves_ns[ROWS_MAX]; /* of a closed loop, in order */
	uint32_t leave_count;
	uint32_t turned_away[ROWS_MAX]; /* since the last step ended */
	uint32_t turned_away_count;
	uint64_t now_ns;
	bool has_failed;
	bool knows_backlog;
	uint64_t backlog_at_last_arrival;
	struct text steps;
	uint64_t busy_ns;
};

static bool is_closed_loop(const struct naive *naive)
{
	return naive->scene->load.concurrency > 0;
}

static void load_rows(struct naive *naive)
{
	struct scene *scene = naive->scene;
	struct trace *trace;
	struct error error = {0};
	const struct token_source source = {.seed = scene->config.seed,
		.vocab_size = VOCABULARY,
		.trace_block_size = TRACE_BLOCK};
	uint64_t limit = scene->load.max_requests;

	require(trace_open(&trace, scene->trace_path, &scene->load.trace, &error) == STATUS_OK,
		"%s", error.text);
	struct conversations *conversations = conversations_open(TRACE_BLOCK);
	while (limit == 0 || naive->row_count < limit) {
		struct naive_row *own = &naive->rows[naive->row_count];
		bool has_row;
		require(trace_next(trace, &own->row, &has_row, &error) == STATUS_OK, "%s",
			error.text);
		if (!has_row) {
			break;
		}
		conversations_add(conversations, &own->row);
		tokens_prompt(&source, &own->row, own->tokens);
		tokens_forced(&source, &own->row, own->tokens + own->row.input_length);
		own->row.session = NULL;
		uint64_t parent = NO_TURN;
		if (own->row.turn_index != NO_TURN) {
			parent = conversations_turn(conversations, own->row.turn_index)->parent;
		}
		bool follows = scene->load.sessions == SESSIONS_CLOSED && parent != NO_TURN;
		own->parent =
			follows ? (uint32_t)conversations_turn(conversations, parent)->row : NOBODY;
		own->time_ns = (uint64_t)((u128)own->row.arrival_ns * 1000000 /
					  scene->load.speedup_millionths);
		own->left_ns = NEVER;
		naive->row_count++;
	}
	conversations_close(conversations);
	trace_close(trace);
}

/* When a row arrives, as far as is known now. */
static uint64_t arrival_of(const struct naive *naive, uint32_t index)
{
	const struct naive_row *own = &naive->rows[index];
	uint64_t concurrency = naive->scene->load.concurrency;

	if (is_closed_loop(naive)) {
		if (index < concurrency) {
			return 0;
		}
		return index - concurrency < naive->leave_count
			       ? naive->leaves_ns[index - concurrency]
			       : NEVER;
	}
	if (own->parent == NOBODY) {
		return own->time_ns;
	}
	uint64_t left_ns = naive->rows[own->parent].left_ns;
	return left_ns != NEVER && left_ns < own->time_ns ? own->time_ns : left_ns;
}

/* The first row that has not been handed over and has arrived by a time, or NOBODY. */
static uint32_t next_row(const struct naive *naive, uint64_t by_ns)
{
	uint64_t duration_ns = naive->scene->load.duration_ns;
	uint32_t next = NOBODY;
	uint64_t next_ns = NEVER;

	for (uint32_t i = 0; i < naive->row_count; i++) {
		uint64_t at_ns = arrival_of(naive, i);
		bool comes = at_ns <= by_ns && (duration_ns == 0 || at_ns < duration_ns);
		if (!naive->rows[i].was_handed && comes && at_ns < next_ns) {
			next = i;
			next_ns = at_ns;
		}
	}
	return next;
}

static bool fits(const struct naive *naive, uint32_t index)
{
	const struct naive_row *own = &naive->rows[index];

	return engine_config_fit(&naive->scene->engine, own->row.input_length,
		       own->row.output_length) == FIT_OK;
}

static void hand_over(struct naive *naive, uint32_t index)
{
	struct naive_row *own = &naive->rows[index];
	const struct request request = {
		.id = index,
		.prompt = own->tokens,
		.prompt_count = own->row.input_length,
		.forced = own->tokens + own->row.input_length,
		.max_tokens = own->row.output_length,
		.ignore_eos = true,
	};
	own->arrival_ns = arrival_of(naive, index);
	own->was_handed = true;
	const struct metrics_arrival arrival = {
		.id = index,
		.session = own->row.session,
		.arrival_ns = own->arrival_ns,
		.prompt_tokens = own->row.input_length,
		.max_tokens = own->row.output_length,
	};
	uint32_t slot;
	enum fit fit = engine_add(naive->engine, &request, &slot);
	if (fit == FIT_OK) {
		metrics_arrive(&naive->metrics, slot, &arrival);
	} else {
		metrics_reject(&naive->metrics, fit, &arrival);
		naive->turned_away[naive->turned_away_count++] = index;
	}
}

static void hand_over_all(struct naive *naive)
{
	uint32_t index;

	while (engine_has_room(naive->engine) &&
		(index = next_row(naive, naive->now_ns)) != NOBODY) {
		hand_over(naive, index);
	}
}

static void leave(struct naive *naive, uint32_t index)
{
	naive->rows[index].left_ns = naive->now_ns;
	naive->leaves_ns[naive->leave_count++] = naive->now_ns;
}

static void turned_away_leave(struct naive *naive)
{
	for (uint32_t i = 0; i < naive->turned_away_count; i++) {
		leave(naive, naive->turned_away[i]);
	}
	naive->turned_away_count = 0;
}

static bool has_arrived(const struct naive *naive, uint32_t index)
{
	uint64_t duration_ns = naive->scene->load.duration_ns;
	uint64_t at_ns = arrival_of(naive, index);

	return at_ns <= naive->now_ns && (duration_ns == 0 || at_ns < duration_ns);
}

/* Rows that have arrived and will be served, but have not been handed over; all_arrived: no row is
   left that has not arrived. */
static uint64_t count_backlog(const struct naive *naive, bool *all_arrived)
{
	uint64_t count = 0;

	*all_arrived = true;
	for (uint32_t i = 0; i < naive->row_count; i++) {
		bool is_here = has_arrived(naive, i);
		count += is_here && !naive->rows[i].was_handed && fits(naive, i);
		*all_arrived = *all_arrived && is_here;
	}
	return count;
}

static void write_step(struct naive *naive, uint64_t waiting, const struct step_time *time)
{
	const struct batch *batch = engine_batch(naive->engine);
	struct step_counts counts = batch->counts;

	counts.waiting = waiting;
	text_format(&naive->steps, "%llu\t%llu\t%llu\t%llu\t%llu\teager",
		(unsigned long long)batch->step, (unsigned long long)naive->now_ns,
		(unsigned long long)time->elapsed_ns, (unsigned long long)time->gpu_ns,
		(unsigned long long)time->host_ns);
#define WRITE_COUNT(column) text_format(&naive->steps, "\t%llu", (unsigned long long)counts.column);
	STEP_COUNT_LIST(WRITE_COUNT)
#undef WRITE_COUNT
	text_format(&naive->steps, "\n");
}

static void naive_step(struct naive *naive)
{
	struct engine *engine = naive->engine;
	struct step_time time;
	struct error error = {0};
	bool all_arrived;
	const struct sequence *sequence;

	uint64_t backlog = count_backlog(naive, &all_arrived);
	const struct batch *batch = engine_schedule(engine);
	uint64_t waiting = batch->counts.waiting + backlog;
	if (all_arrived && !naive->knows_backlog) {
		naive->knows_backlog = true;
		naive->backlog_at_last_arrival = waiting;
	}
	if (engine_execute(engine, &time, &error) != STATUS_OK) {
		naive->has_failed = true;
		return;
	}
	engine_postprocess(engine);
	write_step(naive, waiting, &time);
	naive->busy_ns += time.elapsed_ns;
	const struct step_decisions decisions = engine_decisions(engine);
	metrics_step(&naive->metrics, engine, &decisions, naive->now_ns,
		naive->now_ns + time.elapsed_ns, waiting);
	naive->now_ns += time.elapsed_ns;
	turned_away_leave(naive);
	while ((sequence = engine_take_finished(engine)) != NULL) {
		leave(naive, (uint32_t)sequence->request);
	}
}

/* To the end of the trace or to the step that fails. */
static void naive_run(struct naive *naive)
{
	struct error error = {0};

	while (!naive->has_failed) {
		hand_over_all(naive);
		if (!engine_has_work(naive->engine)) {
			if (naive->turned_away_count > 0) {
				turned_away_leave(naive);
				continue;
			}
			uint32_t next = next_row(naive, NEVER - 1);
			if (next == NOBODY) {
				break;
			}
			naive->now_ns = arrival_of(naive, next);
			continue;
		}
		if (naive->runner.start != NULL) {
			require_equal(naive->runner.start(naive->runner.state, naive->now_ns,
					      &naive->now_ns, &error),
				STATUS_OK);
			hand_over_all(naive);
		}
		naive_step(naive);
	}
	if (!naive->has_failed) {
		metrics_flush_events(&naive->metrics, naive->engine);
	}
	metrics_end(&naive->metrics, naive->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED);
}

/* ---- scenes ---- */

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
	uint32_t least =
		config->policy == &policy_mixed ? config->max_num_seqs : config->max_model_len;
	config->max_num_batched_tokens = least + prop_range(prop, 0, 32);
	prop_log(prop, "%s, %u blocks of %u, %u sequences, %u tokens a step, model length %u",
		config->policy->name, config->kv_block_count, config->block_size,
		config->max_num_seqs, config->max_num_batched_tokens, config->max_model_len);
}

/* A row of the trace: a chat that may follow an earlier one, and often shares its ids. */
static void draw_row(struct prop *prop, struct text *text, uint32_t index, uint64_t time_ns,
	uint32_t length_limit)
{
	uint32_t parent = prop_chance(prop, 1, 3) ? prop_range(prop, 0, index) : index;
	uint32_t input = prop_range(prop, 1, length_limit);
	uint32_t output = prop_range(prop, 1, prop_chance(prop, 1, 3) ? 1 : length_limit);
	uint32_t id_count = (input + TRACE_BLOCK - 1) / TRACE_BLOCK;
	uint32_t family = prop_range(prop, 0, 2);
	char follows[16] = "-1";

	if (parent < index) {
		snprintf(follows, sizeof(follows), "%u", parent);
	}
	text_format(text,
		"{\"chat_id\": %u, \"parent_chat_id\": %s, \"timestamp\": %llu.%09llu, "
		"\"input_length\": %u, \"output_length\": %u, \"type\": \"text\", \"turn\": 1, "
		"\"hash_ids\": [",
		index, follows, (unsigned long long)(time_ns / 1000000000),
		(unsigned long long)(time_ns % 1000000000), input, output);
	for (uint32_t i = 0; i < id_count; i++) {
		/* the same ids for a family, and a tail of its own */
		uint32_t id = i < 3 ? family * 100 + i : 1000 + index * 100 + i;
		text_format(text, "%s%u", i == 0 ? "" : ",", id);
	}
	text_format(text, "]}\n");
	prop_log(prop, "row %u at %llu ns: %u in, %u out, follows %s, family %u", index,
		(unsigned long long)time_ns, input, output, follows, family);
}

static void draw_trace(struct prop *prop, struct scene *scene)
{
	struct text text = {0};
	uint64_t time_ns = 0;
	uint32_t limit = scene->engine.max_model_len < 40 ? scene->engine.max_model_len : 40;

	limit = prop_chance(prop, 1, 2) ? (limit + 1) / 2 : limit;
	scene->row_count = prop_range(prop, 1, ROWS_MAX);
	for (uint32_t i = 0; i < scene->row_count; i++) {
		if (prop_chance(prop, 1, 2)) {
			bool is_far = prop_chance(prop, 1, 5);
			time_ns += prop_below(prop, is_far ? 10000000 : 3000);
			time_ns -= time_ns % scene->unit_ns;
		}
		draw_row(prop, &text, i, time_ns, limit);
	}
	file_write(scene->trace_path, text.bytes, text.size);
	text_deinit(&text);
}

static void draw_load(struct prop *prop, struct scene *scene)
{
	static const uint64_t speedups[] = {1000000, 2000000, 333333, 7000001, 1};
	struct workload_options *load = &scene->load;

	*load = (struct workload_options){
		.trace = {.trace_block_size = TRACE_BLOCK}, .speedup_millionths = 1000000};
	if (prop_chance(prop, 1, 3)) {
		load->concurrency = prop_range(prop, 1, prop_chance(prop, 1, 4) ? 60 : 7);
	} else {
		load->speedup_millionths = speedups[prop_below(prop, 5)];
		load->sessions = prop_chance(prop, 1, 3) ? SESSIONS_CLOSED : SESSIONS_OPEN;
	}
	if (prop_chance(prop, 1, 4)) {
		load->max_requests = prop_range(prop, 1, ROWS_MAX);
	}
	if (prop_chance(prop, 1, 5)) {
		load->duration_ns = scene->unit_ns * (1 + prop_below(prop, 60000 / scene->unit_ns));
	}
	scene->config.warmup = prop_chance(prop, 1, 3) ? prop_range(prop, 1, ROWS_MAX) : 0;
	prop_log(prop,
		"speedup %llu millionths, concurrency %llu, sessions %s, %llu requests at "
		"most, end at %llu ns, %llu for warm-up",
		(unsigned long long)load->speedup_millionths, (unsigned long long)load->concurrency,
		load->sessions == SESSIONS_CLOSED ? "closed" : "open",
		(unsigned long long)load->max_requests, (unsigned long long)load->duration_ns,
		(unsigned long long)scene->config.warmup);
}

static void draw_scene(struct prop *prop, struct scene *scene)
{
	static const uint64_t elapsed_limits[] = {2000, 1, 100, 100000, 20000000};

	scene->config =
		(struct replay_config){.tokens = TOKENS_FORCED, .seed = prop_below(prop, 100)};
	scene->seed = prop_below(prop, 1000);
	scene->unit_ns = prop_chance(prop, 1, 3) ? 1000 : 1;
	scene->elapsed_limit = elapsed_limits[prop_below(prop, 5)];
	scene->elapsed_limit = scene->unit_ns > 1 ? 4 : scene->elapsed_limit;
	scene->delay_limit = prop_chance(prop, 1, 4) ? 1 + prop_below(prop, 5000) : 0;
	scene->fail_at_step = prop_chance(prop, 1, 5) ? prop_below(prop, 40) : NEVER;
	scene->interrupt_at_step = NEVER;
	/* Nobody asks when a step in flight starts. */
	scene->can_overlap = scene->delay_limit == 0 && prop_chance(prop, 3, 4);
	scene->fails_at_launch = prop_chance(prop, 1, 3);
	draw_config(prop, &scene->engine);
	draw_load(prop, scene);
	draw_trace(prop, scene);
	prop_log(prop, "steps take up to %llu ns, start up to %llu ns late, fail at %lld%s%s",
		(unsigned long long)scene->elapsed_limit, (unsigned long long)scene->delay_limit,
		(long long)scene->fail_at_step, scene->fails_at_launch ? ", at launch" : "",
		scene->can_overlap ? ", overlapped" : "");
}

/* ---- both run ---- */

struct tables {
	struct table_writer requests, steps;
	char requests_path[PATH_BYTES], steps_path[PATH_BYTES];
};

static void open_tables(struct tables *tables, const char *folder, const char *name)
{
	struct error error = {0};

	snprintf(tables->requests_path, PATH_BYTES, "%s/%s.requests", folder, name);
	snprintf(tables->steps_path, PATH_BYTES, "%s/%s.steps", folder, name);
	require(table_open(&tables->requests, tables->requests_path, REQUEST_COLUMNS, &error) ==
			STATUS_OK,
		"%s", error.text);
	require(table_open(&tables->steps, tables->steps_path, STEP_COLUMNS, &error) == STATUS_OK,
		"%s", error.text);
}

static void close_tables(struct tables *tables)
{
	struct error error = {0};

	require(table_close(&tables->requests, &error) == STATUS_OK, "%s", error.text);
	require(table_close(&tables->steps, &error) == STATUS_OK, "%s", error.text);
}

static void run_naive(struct naive *naive, struct scene *scene, struct tables *tables)
{
	struct error error = {0};
	const struct metrics_options options = {.warmup = scene->config.warmup};

	naive->scene = scene;
	naive->runner = runner_of(scene);
	load_rows(naive);
	require(engine_open(&naive->engine, &scene->engine, &naive->runner, &error) == STATUS_OK,
		"%s", error.text);
	metrics_init(
		&naive->metrics, &options, engine_slot_count(naive->engine), &tables->requests);
	text_add(&naive->steps, STEP_COLUMNS "\n");
	naive_run(naive);
}

static void run_replay(
	struct replay *replay, struct scene *scene, struct runner *runner, struct tables *tables)
{
	struct error error = {0};
	const struct replay_options options = {
		.config = &scene->config,
		.workload = &scene->load,
		.trace_path = scene->trace_path,
		.is_checking = true,
		.overlaps = true,
		.vocab_size = VOCABULARY,
	};

	*runner = runner_of(scene);
	if (scene->can_overlap) {
		runner->launch = launch;
		runner->collect = collect;
	}
	struct replay_sinks sinks = {.requests = &tables->requests, .steps = &tables->steps};
	require(replay_open(replay, &options, &scene->engine, runner, &error) == STATUS_OK, "%s",
		error.text);
	if (scene->timeline_path != NULL) {
		require(perfetto_open(&sinks.timeline, scene->timeline_path,
				engine_slot_count(replay->engine), &error) == STATUS_OK,
			"%s", error.text);
	}
	replay_set_sinks(replay, &sinks);
	require(replay_run(replay, &error) == STATUS_OK, "%s", error.text);
	if (scene->timeline_path != NULL) {
		require(perfetto_commit(sinks.timeline, replay->now_ns, &error) == STATUS_OK, "%s",
			error.text);
		perfetto_close(sinks.timeline);
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
	if (found->size == expected->size && at == found->size) {
		return;
	}
	while (at > 0 && found->bytes[at - 1] != '\n') {
		at--;
	}
	require_failed(__FILE__, __LINE__, "%s: found\n%.300s\nexpected\n%.300s", what,
		found->bytes + at, expected->bytes + at);
}

/* The session's name is no business of this test: its column is taken out. */
static void drop_sessions(struct text *text)
{
	size_t to = 0;
	uint32_t column = 0;

	for (size_t i = 0; i < text->size; i++) {
		char c = text->bytes[i];
		column = c == '\n' ? 0 : column + (c == '\t');
		if (column != 1 || c == '\t') {
			text->bytes[to++] = c;
		}
	}
	text->bytes[to] = '\0';
	text->size = to;
}

static struct text read_requests(const char *path)
{
	struct text text = read_text(path);

	drop_sessions(&text);
	return text;
}

/* Cells of a row as numbers; what is none is NEVER. Returns the start of the next row, or NULL. */
static const char *read_cells(const char *row, uint64_t *cells, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = strcspn(row, "\t\n");
		char cell[32];
		snprintf(cell, sizeof(cell), "%.*s", (int)bytes, row);
		char *end;
		cells[i] = strtoull(cell, &end, 10);
		cells[i] = end == cell || *end != '\0' ? NEVER : cells[i];
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
	bool is_seen[ROWS_MAX] = {false};
	uint64_t cells[17];
	uint64_t count = 0, output = 0, recorded = 0;

	while (row != NULL && *row != '\0') {
		row = read_cells(row, cells, 17);
		require(cells[ID] < ROWS_MAX && !is_seen[cells[ID]], "a request twice");
		is_seen[cells[ID]] = true;
		uint64_t before = cells[ARRIVAL];
		for (uint32_t i = SCHEDULED; i <= FINISH; i++) {
			require(cells[i] == NEVER || cells[i] >= before,
				"request %llu: time runs backwards", (unsigned long long)cells[ID]);
			before = cells[i] == NEVER ? before : cells[i];
		}
		require(cells[FINISH] == NEVER || cells[TOKEN] != NEVER, "no token");
		require(cells[TOKEN] == NEVER || cells[SCHEDULED] != NEVER, "never scheduled");
		count++;
		output += cells[OUTPUT];
	}
	require_equal(count, metrics->submitted);
	require_equal(metrics->submitted,
		metrics->finished + metrics->rejected + metrics->failed + metrics->unfinished);
	for (uint32_t i = 0; i < metrics->timeline.bin_count; i++) {
		recorded += metrics->timeline.bins[i].output_tokens;
	}
	require_equal(recorded, output);
	require(metrics->options.warmup > 0 || metrics->output_tokens == output,
		"tokens do not add up");
}

static void require_same_run(
	const struct replay *replay, const struct naive *naive, const char *folder)
{
	char path[PATH_BYTES];

	require_equal(replay->has_failed, naive->has_failed);
	snprintf(path, sizeof(path), "%s/replay.steps", folder);
	struct text steps = read_text(path);
	require_same_text("steps.tsv", &steps, &naive->steps);
	snprintf(path, sizeof(path), "%s/replay.requests", folder);
	struct text found = read_requests(path);
	snprintf(path, sizeof(path), "%s/naive.requests", folder);
	struct text expected = read_requests(path);
	require_same_text("requests.tsv", &found, &expected);
	require_equal(replay->now_ns, naive->now_ns);
	require_equal(replay->metrics.busy_ns, naive->metrics.busy_ns);
	require_equal(replay->metrics.output_tokens, naive->metrics.output_tokens);
	require_equal(replay->metrics.failed, naive->metrics.failed);
	require_equal(metrics_result_hash(&replay->metrics), metrics_result_hash(&naive->metrics));
	if (naive->scene->load.duration_ns == 0 && naive->knows_backlog) {
		require_equal(replay->backlog_at_last_arrival, naive->backlog_at_last_arrival);
	}
	require_monotone_steps(&steps, replay->metrics.busy_ns);
	require_sound_requests(&found, &replay->metrics);
	free(steps.bytes);
	free(found.bytes);
	free(expected.bytes);
}

static void body_replay(struct prop *prop, const void *context)
{
	const char *folder = context;
	char trace_path[PATH_BYTES];
	struct scene scene = {.trace_path = trace_path};
	struct runner runner;
	struct replay *replay = calloc(1, sizeof(*replay));
	struct naive *naive = calloc(1, sizeof(*naive));
	struct tables *tables = calloc(1, sizeof(*tables));

	require(replay != NULL && naive != NULL && tables != NULL, "out of memory");
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	draw_scene(prop, &scene);
	open_tables(tables, folder, "replay");
	run_replay(replay, &scene, &runner, tables);
	close_tables(tables);
	open_tables(tables, folder, "naive");
	run_naive(naive, &scene, tables);
	close_tables(tables);
	require_same_run(replay, naive, folder);
	replay_close(replay);
	metrics_deinit(&naive->metrics);
	engine_close(naive->engine);
	free(naive->steps.bytes);
	free(naive);
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
	for (uint32_t i = 0; i < ROWS_MAX; i++) {
		fprintf(file,
			"{\"chat_id\": %u, \"timestamp\": %u.%u, \"input_length\": 5, "
			"\"output_length\": 60}\n",
			i, i / 10, i % 10);
	}
	fclose(file);
}

static struct text run_long(struct scene *scene, struct replay *replay, const char *folder)
{
	static struct tables tables;
	struct runner runner;

	open_tables(&tables, folder, "replay");
	run_replay(replay, scene, &runner, &tables);
	close_tables(&tables);
	struct text steps = read_text(tables.steps_path);
	struct text requests = read_requests(tables.requests_path);
	require_monotone_steps(&steps, replay->metrics.busy_ns);
	require_sound_requests(&requests, &replay->metrics);
	free(requests.bytes);
	return steps;
}

/* One request at a time, many times longer than a poll for interrupts takes. */
static struct scene long_scene(const char *trace_path)
{
	return (struct scene){
		.config = {.tokens = TOKENS_FORCED},
		.load = {.trace = {.trace_block_size = TRACE_BLOCK}, .speedup_millionths = 1000000},
		.engine = {.policy = &policy_mixed,
			.block_size = 4,
			.kv_block_count = 40,
			.max_num_seqs = 1,
			.max_num_batched_tokens = 16,
			.max_model_len = 100,
			.eos_token_id = -1},
		.unit_ns = 1,
		.elapsed_limit = UINT64_C(1) << 25,
		.fail_at_step = NEVER,
		.interrupt_at_step = NEVER,
		.trace_path = trace_path,
	};
}

Test(replay, an_interrupted_run_is_the_beginning_of_the_whole_one)
{
	static struct replay replay;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES];
	struct scene scene = long_scene(trace_path);
	sigset_t interrupts;
	const struct timespec at_once = {0};

	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupts, NULL);
	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	write_long_trace(trace_path);
	struct text whole = run_long(&scene, &replay, folder);
	require(!replay.is_interrupted, "nobody interrupted it");
	require_equal(replay.metrics.finished, ROWS_MAX);
	replay_close(&replay);

	scene.interrupt_at_step = 1000;
	struct text part = run_long(&scene, &replay, folder);
	require(sigtimedwait(&interrupts, NULL, &at_once) == SIGINT, "the interrupt is gone");
	require(replay.is_interrupted && !replay.has_failed, "it was not interrupted");
	require(replay.metrics.steps > 1000 && replay.metrics.steps < 2000, "after %llu steps",
		(unsigned long long)replay.metrics.steps);
	require(replay.metrics.finished > 0 && replay.metrics.unfinished > 0, "no one is left");
	require(strncmp(whole.bytes, part.bytes, part.size) == 0, "it is no beginning");
	/* One at a time is served, and the others wait: that many it tells. */
	require(replay.backlog_at_last_arrival > 0, "nobody waits");
	replay_close(&replay);
	free(whole.bytes);
	free(part.bytes);
	temporary_remove(folder);
}

/* Whoever launches ahead decides the same, and stops in order. */
Test(replay, steps_in_flight_change_nothing)
{
	static struct replay replay;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES], timeline_path[PATH_BYTES];
	struct scene scene = long_scene(trace_path);

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
	struct text ahead = run_long(&scene, &replay, folder);
	struct text timeline_ahead = read_text(timeline_path);
	require_same_text("steps.tsv", &ahead, &one_by_one);
	require_same_text("the timeline", &timeline_ahead, &timeline);
	free(timeline.bytes);
	free(timeline_ahead.bytes);
	scene.timeline_path = NULL;
	require(scene.overlap_count > 0, "no step was launched ahead");
	require_equal(scene.launch_count, scene.collect_count);
	replay_close(&replay);
	free(ahead.bytes);
	free(one_by_one.bytes);
	temporary_remove(folder);
}

/* A step that fails while another is in flight leaves what one leaves that fails alone. */
Test(replay, a_step_that_fails_in_flight_brings_no_tokens)
{
	static struct replay replay;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES], requests_path[PATH_BYTES];
	struct scene scene = long_scene(trace_path);
	struct text alone = {0}, alone_requests = {0};

	/* In the midst of the last request, when all have arrived. */
	scene.elapsed_limit = 100;
	scene.fail_at_step = ROWS_MAX * 60 - 50;
	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	snprintf(requests_path, sizeof(requests_path), "%s/replay.requests", folder);
	write_long_trace(trace_path);
	for (uint32_t i = 0; i < 3; i++) {
		scene.can_overlap = i > 0;
		scene.fails_at_launch = i == 2;
		scene.launch_count = scene.collect_count = scene.overlap_count = 0;
		struct text steps = run_long(&scene, &replay, folder);
		struct text requests = read_text(requests_path);
		require(replay.has_failed && replay.metrics.failed == 1, "it did not fail");
		require_equal(replay.metrics.finished, ROWS_MAX - 1);
		require_equal(replay.metrics.output_tokens, (ROWS_MAX - 1) * 60 + 10);
		require(i == 0 || scene.overlap_count > 0, "no step was launched ahead");
		if (i == 0) {
			alone = steps;
			alone_requests = requests;
		} else {
			require_same_text("steps.tsv", &steps, &alone);
			require_same_text("requests.tsv", &requests, &alone_requests);
			free(steps.bytes);
			free(requests.bytes);
		}
		replay_close(&replay);
	}
	free(alone.bytes);
	free(alone_requests.bytes);
	temporary_remove(folder);
}

/* Steps that were launched before the one before them had ended. */
static uint64_t count_ahead(struct scene *scene, const char *folder, uint64_t *step_count)
{
	static struct replay replay;

	scene->can_overlap = true;
	scene->launch_count = scene->collect_count = scene->overlap_count = 0;
	struct text steps = run_long(scene, &replay, folder);
	*step_count = replay.metrics.steps;
	require_equal(replay.metrics.finished, ROWS_MAX);
	replay_close(&replay);
	free(steps.bytes);
	return scene->overlap_count;
}

/* A closed loop never waits for a step's end but at the start, as long as nothing but finishes
   brings requests; nor does an open loop while whoever arrives has to wait. */
Test(replay, runs_ahead_where_a_steps_time_decides_nothing)
{
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES];
	struct scene scene = long_scene(trace_path);
	uint64_t steps;

	temporary_folder(folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace.jsonl", folder);
	write_long_trace(trace_path);
	scene.elapsed_limit = 100;
	scene.engine.max_num_seqs = 4;
	for (uint64_t concurrency = 1; concurrency <= 9; concurrency++) {
		scene.load.concurrency = concurrency;
		uint64_t ahead = count_ahead(&scene, folder, &steps);
		/* What cannot wait in the engine is not known to it: a seat that becomes free is
		   taken by whoever waits there, and then somebody else may come. */
		require(concurrency > 4 ? ahead > steps / 2 : ahead == steps - 1,
			"%llu of %llu steps with %llu at once", (unsigned long long)ahead,
			(unsigned long long)steps, (unsigned long long)concurrency);
	}
	/* Where the loop has an end, who comes for those who leave depends on when. */
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
