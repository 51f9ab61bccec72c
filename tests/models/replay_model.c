#include "tests/models/replay_model.h"

#include <signal.h>
#include <stdlib.h>

#include "engine/base/counter_hash.h"
#include "engine/step_record.h"
#include "tests/harness/require.h"
#include "workloads/conversations.h"
#include "workloads/tokens.h"

/* ---- the runner ---- */

static enum status time_of(const struct replay_scene *scene, uint64_t step, struct step_time *time,
	struct error *error)
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
	time->host_ns = time->elapsed_ns - time->gpu_ns;
	time->mode = STEP_MODE_EAGER;
	return STATUS_OK;
}

static enum status execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)token_ids;
	return time_of(state, batch->step, time, error);
}

/* At most most_parts, by the number of steps launched. */
static uint32_t drawn_parts(const struct replay_scene *scene, uint64_t purpose)
{
	uint64_t key = counter_key(scene->seed, purpose);

	return (uint32_t)(counter_hash(key, scene->launch_count) % (scene->most_parts + 1));
}

static bool fails_in_part(const struct replay_scene *scene)
{
	return scene->fails_at_launch && drawn_parts(scene, 3) > 0;
}

static enum status launch(void *state, const struct batch *batch, struct error *error)
{
	struct replay_scene *scene = state;

	if (scene->fails_at_launch && batch->step == scene->fail_at_step && !fails_in_part(scene)) {
		return error_set(error, STATUS_DEVICE, "the device does not listen");
	}
	require(scene->launch_count - scene->collect_count < 2, "more than two steps in flight");
	require(scene->parts_left == 0, "the step before is not launched whole");
	scene->parts_launched = 0;
	scene->parts_left = drawn_parts(scene, 3);
	scene->overlap_count += scene->launch_count > scene->collect_count;
	scene->launched[scene->launch_count++ % 2] = batch->step;
	return STATUS_OK;
}

/* The step that fails does so with its last part. */
static enum status launch_part(void *state, bool *is_whole, struct error *error)
{
	struct replay_scene *scene = state;
	uint64_t step = scene->launched[(scene->launch_count - 1) % 2];

	if (scene->parts_left > 0) {
		scene->parts_left--;
		scene->parts_launched++;
		if (scene->fails_at_launch && step == scene->fail_at_step &&
			scene->parts_left == 0) {
			return error_set(error, STATUS_DEVICE, "the device does not listen");
		}
	}
	*is_whole = scene->parts_left == 0;
	return STATUS_OK;
}

static bool has_ended(void *state)
{
	const struct replay_scene *scene = state;

	require(scene->launch_count - scene->collect_count == 2, "no step is in flight before");
	return scene->parts_launched >= drawn_parts(scene, 4);
}

static enum status collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct replay_scene *scene = state;

	(void)token_ids;
	uint64_t in_flight = scene->launch_count - scene->collect_count;

	require(in_flight > 0, "nothing is in flight");
	require(in_flight == 2 || scene->parts_left == 0, "it is not launched whole");
	scene->left_count += scene->parts_left > 0;
	return time_of(state, scene->launched[scene->collect_count++ % 2], time, error);
}
static enum status delay_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	const struct replay_scene *scene = state;
	(void)error;

	*start_ns = earliest_ns +
		    counter_hash(counter_key(scene->seed, 2), earliest_ns) % scene->delay_limit;
	return STATUS_OK;
}

struct runner replay_scene_runner(struct replay_scene *scene, bool can_overlap)
{
	struct runner runner = {.name = "scene",
		.state = scene,
		.execute = execute,
		.start = scene->delay_limit > 0 ? delay_start : NULL};

	if (can_overlap) {
		runner.launch = launch;
		runner.launch_part = scene->most_parts > 0 ? launch_part : NULL;
		runner.has_ended = scene->most_parts > 0 ? has_ended : NULL;
		runner.collect = collect;
	}
	return runner;
}

/* ---- the replay ---- */

static bool is_closed_loop(const struct replay_model *model)
{
	return model->scene->load.concurrency > 0;
}

static void load_rows(struct replay_model *model)
{
	struct replay_scene *scene = model->scene;
	struct trace *trace;
	struct error error = {0};
	const struct token_source source = {.seed = scene->config.seed,
		.vocab_size = REPLAY_MODEL_VOCABULARY,
		.trace_block_size = REPLAY_MODEL_TRACE_BLOCK};
	uint64_t limit = scene->load.max_requests;

	require(trace_open(&trace, scene->trace_path, &scene->load.trace, &error) == STATUS_OK,
		"%s", error.text);
	struct conversations *conversations = conversations_open(REPLAY_MODEL_TRACE_BLOCK);
	while (limit == 0 || model->row_count < limit) {
		struct trace_row row;
		bool has_row;
		require(trace_next(trace, &row, &has_row, &error) == STATUS_OK, "%s", error.text);
		if (!has_row) {
			break;
		}
		require(model->row_count < REPLAY_MODEL_ROWS, "too many rows");
		struct replay_model_row *own = &model->rows[model->row_count];
		own->row = row;
		conversations_add(conversations, &own->row);
		tokens_prompt(&source, &own->row, own->tokens);
		tokens_forced(&source, &own->row, own->tokens + own->row.input_length);
		own->row.session = NULL;
		uint64_t parent = NO_TURN;
		if (own->row.turn_index != NO_TURN) {
			parent = conversations_turn(conversations, own->row.turn_index)->parent;
		}
		bool follows = scene->load.sessions == SESSIONS_CLOSED && parent != NO_TURN;
		own->parent = follows ? (uint32_t)conversations_turn(conversations, parent)->row
				      : REPLAY_MODEL_NO_ROW;
		own->time_ns = (uint64_t)((u128)own->row.arrival_ns * 1000000 /
					  scene->load.speedup_millionths);
		own->departure_ns = REPLAY_MODEL_NEVER;
		model->row_count++;
	}
	conversations_close(conversations);
	trace_close(trace);
}

/* When a row arrives, as far as is known now. */
static uint64_t arrival_of(const struct replay_model *model, uint32_t index)
{
	const struct replay_model_row *own = &model->rows[index];
	uint64_t concurrency = model->scene->load.concurrency;

	if (is_closed_loop(model)) {
		if (index < concurrency) {
			return 0;
		}
		return index - concurrency < model->departure_count
			       ? model->departures_ns[index - concurrency]
			       : REPLAY_MODEL_NEVER;
	}
	if (own->parent == REPLAY_MODEL_NO_ROW) {
		return own->time_ns;
	}
	uint64_t departure_ns = model->rows[own->parent].departure_ns;
	return departure_ns != REPLAY_MODEL_NEVER && departure_ns < own->time_ns ? own->time_ns
										 : departure_ns;
}

/* The first row that has not been added and has arrived by a time, or REPLAY_MODEL_NO_ROW. */
static uint32_t next_row(const struct replay_model *model, uint64_t by_ns)
{
	uint64_t duration_ns = model->scene->load.duration_ns;
	uint32_t next = REPLAY_MODEL_NO_ROW;
	uint64_t next_ns = REPLAY_MODEL_NEVER;

	for (uint32_t i = 0; i < model->row_count; i++) {
		uint64_t at_ns = arrival_of(model, i);
		bool comes = at_ns <= by_ns && (duration_ns == 0 || at_ns < duration_ns);
		if (!model->rows[i].was_added && comes && at_ns < next_ns) {
			next = i;
			next_ns = at_ns;
		}
	}
	return next;
}

static bool fits(const struct replay_model *model, uint32_t index)
{
	const struct replay_model_row *own = &model->rows[index];

	return engine_config_fit(&model->scene->engine, own->row.input_length,
		       own->row.output_length) == FIT_OK;
}

/* Notes that the row was taken. */
static struct metrics_arrival take_arrival(struct replay_model *model, uint32_t index)
{
	struct replay_model_row *own = &model->rows[index];

	own->arrival_ns = arrival_of(model, index);
	own->was_added = true;
	return (struct metrics_arrival){
		.id = index,
		.session = own->row.session,
		.arrival_ns = own->arrival_ns,
		.prompt_tokens = own->row.input_length,
		.max_tokens = own->row.output_length,
		.is_capped =
			engine_config_answer_limit(&model->scene->engine, own->row.input_length,
				own->row.output_length) < own->row.output_length,
		.is_awaited = own->is_awaited,
	};
}

static void add_row(struct replay_model *model, uint32_t index)
{
	struct replay_model_row *own = &model->rows[index];
	const struct request request = {
		.id = index,
		.prompt = own->tokens,
		.prompt_count = own->row.input_length,
		.forced = own->tokens + own->row.input_length,
		.max_tokens = own->row.output_length,
		.stored_count = own->row.stored_length,
		.ignore_eos = true,
	};
	const struct metrics_arrival arrival = take_arrival(model, index);
	uint32_t slot;
	enum fit fit = engine_add(model->engine, &request, &slot);
	if (fit == FIT_OK) {
		metrics_arrive(&model->metrics, slot, &arrival, model->now_ns);
	} else {
		metrics_reject(&model->metrics, fit, &arrival);
		model->rejected[model->rejected_count++] = index;
	}
}

static void add_arrived(struct replay_model *model)
{
	uint32_t index;

	while (engine_has_room(model->engine) &&
		(index = next_row(model, model->now_ns)) != REPLAY_MODEL_NO_ROW) {
		add_row(model, index);
	}
}

static void depart(struct replay_model *model, uint32_t index)
{
	model->rows[index].departure_ns = model->now_ns;
	model->departures_ns[model->departure_count++] = model->now_ns;
}

static void rejected_depart(struct replay_model *model)
{
	for (uint32_t i = 0; i < model->rejected_count; i++) {
		depart(model, model->rejected[i]);
	}
	model->rejected_count = 0;
}

static bool has_arrived(const struct replay_model *model, uint32_t index)
{
	uint64_t duration_ns = model->scene->load.duration_ns;
	uint64_t at_ns = arrival_of(model, index);

	return at_ns <= model->now_ns && (duration_ns == 0 || at_ns < duration_ns);
}

/* Rows that have arrived and will be served, but have not been added; all_arrived: no row is
   left that has not arrived. */
static uint64_t count_backlog(const struct replay_model *model, bool *all_arrived)
{
	uint64_t count = 0;

	*all_arrived = true;
	for (uint32_t i = 0; i < model->row_count; i++) {
		bool is_here = has_arrived(model, i);
		count += is_here && !model->rows[i].was_added && fits(model, i);
		*all_arrived = *all_arrived && is_here;
	}
	return count;
}

static void write_step(struct replay_model *model, uint64_t waiting, const struct step_time *time)
{
	const struct step_decisions decisions = engine_decisions(model->engine);
	struct step_counts counts = *decisions.counts;

	counts.waiting = waiting;
	text_format(&model->steps, "%llu\t%llu\t%llu\t%llu\t%llu\t%s",
		(unsigned long long)decisions.step, (unsigned long long)model->now_ns,
		(unsigned long long)time->elapsed_ns, (unsigned long long)time->gpu_ns,
		(unsigned long long)time->host_ns, step_mode_name(time->mode));
#define WRITE_COUNT(column) text_format(&model->steps, "\t%llu", (unsigned long long)counts.column);
	STEP_COUNT_LIST(WRITE_COUNT)
#undef WRITE_COUNT
	text_format(&model->steps, "\n");
}

/* The first to have arrived of the rows that wait outside of the engine untold; UINT32_MAX:
   there is none. */
static uint32_t next_awaited(const struct replay_model *model)
{
	uint32_t next = UINT32_MAX;

	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct replay_model_row *own = &model->rows[i];
		bool waits = has_arrived(model, i) && !own->was_added && !own->is_awaited &&
			     fits(model, i);
		if (waits &&
			(next == UINT32_MAX || arrival_of(model, i) < arrival_of(model, next))) {
			next = i;
		}
	}
	return next;
}

/* Tells the metrics of the rows that wait outside of the engine. */
static void await_backlog(struct replay_model *model)
{
	uint32_t i;

	while ((i = next_awaited(model)) != UINT32_MAX) {
		model->rows[i].is_awaited = true;
		const struct metrics_arrival arrival = {
			.id = i, .arrival_ns = arrival_of(model, i)};
		metrics_await(&model->metrics, &arrival, model->now_ns);
	}
}

/* Decides a step at now_ns, and learns how long it will take. */
static struct replay_model_step decide(struct replay_model *model)
{
	struct replay_model_step step = {.is_decided = true};
	struct error error = {0};
	bool all_arrived;

	uint64_t backlog = count_backlog(model, &all_arrived);
	await_backlog(model);
	const struct batch *batch = engine_schedule(model->engine);
	step.waiting = batch->counts.waiting + backlog;
	if (all_arrived && !model->has_backlog) {
		model->has_backlog = true;
		model->backlog_at_last_arrival = step.waiting;
	}
	model->has_failed = engine_execute(model->engine, &step.time, &error) != STATUS_OK;
	return step;
}

static void model_step(struct replay_model *model)
{
	struct engine *engine = model->engine;
	const struct sequence *sequence;

	struct replay_model_step step = model->ahead.is_decided ? model->ahead : decide(model);
	model->ahead.is_decided = false;
	if (engine_is_async(engine) && !model->has_failed) {
		/* The next step is decided when this one starts. */
		add_arrived(model);
		if (engine_has_work(engine)) {
			model->ahead = decide(model);
		}
	}
	if (model->has_failed) {
		return;
	}
	engine_postprocess(engine);
	write_step(model, step.waiting, &step.time);
	model->busy_ns += step.time.elapsed_ns;
	const struct step_decisions decisions = engine_decisions(engine);
	metrics_step(&model->metrics, engine, &decisions, model->now_ns,
		model->now_ns + step.time.elapsed_ns, step.waiting);
	model->now_ns += step.time.elapsed_ns;
	rejected_depart(model);
	while ((sequence = engine_take_finished(engine)) != NULL) {
		depart(model, (uint32_t)sequence->request);
	}
}

/* Rows that have arrived and were not added when a step fails. */
static void refuse_backlog(struct replay_model *model)
{
	uint32_t index;

	while ((index = next_row(model, model->now_ns)) != REPLAY_MODEL_NO_ROW) {
		const struct trace_row *row = &model->rows[index].row;
		enum fit fit = engine_config_fit(
			&model->scene->engine, row->input_length, row->output_length);
		struct metrics_arrival arrival = take_arrival(model, index);
		arrival.is_capped = false;
		if (fit == FIT_OK) {
			metrics_refuse(&model->metrics, REQUEST_FAILED, &arrival, model->now_ns);
		} else {
			metrics_reject(&model->metrics, fit, &arrival);
		}
	}
}

/* To the end of the trace or to the step that fails. */
static void run(struct replay_model *model)
{
	struct error error = {0};

	while (!model->has_failed) {
		if (model->ahead.is_decided) {
			model_step(model);
			continue;
		}
		add_arrived(model);
		if (!engine_has_work(model->engine)) {
			if (model->rejected_count > 0) {
				rejected_depart(model);
				continue;
			}
			uint32_t next = next_row(model, REPLAY_MODEL_NEVER - 1);
			if (next == REPLAY_MODEL_NO_ROW) {
				break;
			}
			model->now_ns = arrival_of(model, next);
			continue;
		}
		if (model->runner.start != NULL) {
			require_equal(model->runner.start(model->runner.state, model->now_ns,
					      &model->now_ns, &error),
				STATUS_OK);
			add_arrived(model);
		}
		model_step(model);
	}
	if (!model->has_failed) {
		metrics_flush_events(&model->metrics, model->engine);
	}
	metrics_end(&model->metrics, model->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED,
		model->now_ns);
	if (model->has_failed) {
		refuse_backlog(model);
	}
}

void replay_model_run(
	struct replay_model *model, struct replay_scene *scene, struct table_writer *requests)
{
	struct error error = {0};
	const struct metrics_options options = {.warmup = scene->config.warmup};

	model->scene = scene;
	model->runner = replay_scene_runner(scene, false);
	load_rows(model);
	require(engine_open(&model->engine, &scene->engine, &model->runner, &error) == STATUS_OK,
		"%s", error.text);
	metrics_init(&model->metrics, &options, engine_slot_count(model->engine), requests);
	text_add(&model->steps, STEP_COLUMNS "\n");
	run(model);
}

void replay_model_close(struct replay_model *model)
{
	metrics_deinit(&model->metrics);
	engine_close(model->engine);
	free(model->steps.bytes);
}
