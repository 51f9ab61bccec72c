#include "bench/replay.h"

#include "bench/progress.h"
#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
	INTERRUPT_POLL_STEPS = 256, /* a poll is a system call, a step often less */
};

/* ---- reading ---- */

static uint64_t arrival_ns(const struct replay *replay, const struct trace_row *row)
{
	return (uint64_t)((u128)row->arrival_ns * 1000000 / replay->options.config->speedup);
}

static bool is_closed_loop(const struct replay *replay)
{
	return replay->options.config->concurrency > 0;
}

/* Reads the next row of either reader, up to --max-requests. */
static enum status read_row(const struct replay *replay, struct trace *trace, struct trace_row *row,
	bool *has_row, struct error *error)
{
	uint64_t limit = replay->options.config->max_requests;
	uint64_t next = *has_row ? row->index + 1 : 0;

	if (limit > 0 && next >= limit) {
		*has_row = false;
		return STATUS_OK;
	}
	return trace_next(trace, row, has_row, error);
}

static bool row_fits(const struct replay *replay, const struct trace_row *row)
{
	return engine_config_fit(&replay->engine.scheduler.config, row->input_length,
		       row->output_length) == FIT_OK;
}

/* ---- closed loop ---- */

static void credit_push(struct replay *replay, uint64_t at_ns, uint64_t count)
{
	if (count == 0) {
		return;
	}
	if (replay->credit_tail - replay->credit_head == replay->credit_capacity) {
		uint32_t capacity = replay->credit_capacity * 2;
		struct closed_loop_credit *grown = memory_take(capacity, sizeof(*grown));
		for (uint64_t i = replay->credit_head; i < replay->credit_tail; i++) {
			grown[i & (capacity - 1)] =
				replay->credits[i & (replay->credit_capacity - 1)];
		}
		free(replay->credits);
		replay->credits = grown;
		replay->credit_capacity = capacity;
	}
	replay->credits[replay->credit_tail++ & (replay->credit_capacity - 1)] =
		(struct closed_loop_credit){.arrival_ns = at_ns, .count = count};
	replay->credit_count += count;
}

static struct closed_loop_credit *credit_front(const struct replay *replay)
{
	return &replay->credits[replay->credit_head & (replay->credit_capacity - 1)];
}

static void credit_pop(struct replay *replay)
{
	struct closed_loop_credit *front = credit_front(replay);

	replay->credit_count--;
	if (--front->count == 0) {
		replay->credit_head++;
	}
}

/* ---- handing over ---- */

/* When the next row arrives; false: no row is left, or none is due until a request finishes. */
static bool next_arrival(const struct replay *replay, uint64_t *at_ns)
{
	if (!replay->has_row) {
		return false;
	}
	if (is_closed_loop(replay)) {
		if (replay->credit_count == 0) {
			return false;
		}
		*at_ns = credit_front(replay)->arrival_ns;
		return true;
	}
	*at_ns = arrival_ns(replay, &replay->row);
	return true;
}

/* Makes the row's tokens and gives the request to the engine. */
static void hand_over(struct replay *replay, uint64_t at_ns, uint64_t *rejections)
{
	const struct trace_row *row = &replay->row;
	const struct replay_config *config = replay->options.config;
	bool is_forced = strcmp(config->tokens, "forced") == 0;
	struct request request = {
		.id = row->index,
		.prompt_count = row->input_length,
		.max_tokens = row->output_length,
		.temperature = (float)config->temperature / 1e6f,
		.ignore_eos = true,
	};
	const struct metrics_arrival arrival = {
		.id = row->index,
		.session = row->session,
		.arrival_ns = at_ns,
		.prompt_tokens = row->input_length,
		.max_tokens = row->output_length,
	};
	bool fits = row_fits(replay, row);

	if (fits) {
		replay->prompt = memory_grow(replay->prompt, &replay->prompt_capacity,
			row->input_length, sizeof(int32_t));
		tokens_prompt(&replay->tokens, row, replay->prompt);
		request.prompt = replay->prompt;
	}
	if (fits && is_forced) {
		replay->forced = memory_grow(replay->forced, &replay->forced_capacity,
			row->output_length, sizeof(int32_t));
		tokens_forced(&replay->tokens, row, replay->forced);
		request.forced = replay->forced;
	}
	enum fit fit = engine_add(&replay->engine, &request);
	if (fit == FIT_OK) {
		metrics_arrive(
			&replay->metrics, replay->engine.scheduler.waiting.tail->slot, &arrival);
		replay->handed_fit_count++;
	} else {
		metrics_reject(&replay->metrics, fit, &arrival);
		*rejections += 1;
	}
	replay->handed_count++;
}

/* Hands over what has arrived by now_ns while the engine has room. */
static enum status deliver(struct replay *replay, uint64_t *rejections, struct error *error)
{
	uint64_t at_ns;

	while (engine_has_room(&replay->engine) && next_arrival(replay, &at_ns) &&
		at_ns <= replay->now_ns) {
		hand_over(replay, at_ns, rejections);
		if (is_closed_loop(replay)) {
			credit_pop(replay);
		}
		enum status status =
			read_row(replay, replay->trace, &replay->row, &replay->has_row, error);
		if (status != STATUS_OK) {
			return status;
		}
	}
	return STATUS_OK;
}

/* Lets the scout count what has arrived by now_ns. */
static enum status scout_advance(struct replay *replay, struct error *error)
{
	enum status status = STATUS_OK;

	if (replay->scout == NULL) {
		const struct trace_options options = {
			.trace_block_size = (uint32_t)replay->options.config->trace_block_size};
		status = trace_open(&replay->scout, replay->options.trace_path, &options, error);
		if (status == STATUS_OK) {
			status = read_row(replay, replay->scout, &replay->scout_row,
				&replay->scout_has_row, error);
		}
	}
	while (status == STATUS_OK && replay->scout_has_row &&
		arrival_ns(replay, &replay->scout_row) <= replay->now_ns) {
		replay->scout_fit_count += row_fits(replay, &replay->scout_row);
		status = read_row(
			replay, replay->scout, &replay->scout_row, &replay->scout_has_row, error);
	}
	return status;
}

/* Requests that have arrived and that the engine has not been handed yet; rejections to come are
   none. Sets all_have_arrived. */
static enum status count_backlog(struct replay *replay, uint64_t *backlog, struct error *error)
{
	uint64_t at_ns;

	*backlog = 0;
	if (!next_arrival(replay, &at_ns)) {
		replay->all_have_arrived = !replay->has_row;
		return STATUS_OK;
	}
	if (at_ns > replay->now_ns) {
		return STATUS_OK;
	}
	if (is_closed_loop(replay)) {
		*backlog = replay->credit_count;
		return STATUS_OK;
	}
	enum status status = scout_advance(replay, error);
	if (status == STATUS_OK) {
		check(replay->scout_fit_count >= replay->handed_fit_count);
		*backlog = replay->scout_fit_count - replay->handed_fit_count;
		replay->all_have_arrived = !replay->scout_has_row;
	}
	return status;
}

/* ---- steps ---- */

static void write_step(struct replay *replay, uint64_t start_ns, const struct step_time *time)
{
	static const char *const modes[] = {"none", "eager", "graph"}; /* by enum step_mode */
	struct table_writer *table = replay->steps;
	const struct batch *batch = &replay->engine.scheduler.batch;

	table_u64(table, batch->step);
	table_u64(table, start_ns);
	table_u64(table, time->elapsed_ns);
	table_u64(table, time->gpu_ns);
	table_u64(table, time->host_ns);
	table_text(table, modes[time->mode]);
#define STEP_COUNT_CELL(column) table_u64(table, batch->counts.column);
	STEP_COUNT_LIST(STEP_COUNT_CELL)
#undef STEP_COUNT_CELL
	table_end_row(table);
}

/* Recycles what finished; returns how many. */
static uint64_t take_finished(struct replay *replay)
{
	uint64_t count = 0;

	while (engine_take_finished(&replay->engine) != NULL) {
		count++;
	}
	return count;
}

/* One step of the engine, from now_ns on; the clock stands at its end afterwards. */
static enum status run_step(struct replay *replay, uint64_t rejections, struct error *error)
{
	struct engine *engine = &replay->engine;
	struct step_time time;
	uint64_t backlog;
	uint64_t start_ns = replay->now_ns;

	enum status status = count_backlog(replay, &backlog, error);
	if (status != STATUS_OK) {
		return status;
	}
	const struct batch *batch = engine_schedule(engine);
	uint64_t waiting = batch->counts.waiting + backlog;
	engine->scheduler.batch.counts.waiting = waiting;
	if (replay->all_have_arrived && !replay->has_backlog_at_last_arrival) {
		replay->has_backlog_at_last_arrival = true;
		replay->backlog_at_last_arrival = waiting;
	}
	if (engine_execute(engine, &time, &replay->failure) != STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	engine_postprocess(engine);
	replay->now_ns = start_ns + time.elapsed_ns;
	metrics_step(&replay->metrics, engine, start_ns, replay->now_ns, waiting);
	if (replay->steps != NULL) {
		write_step(replay, start_ns, &time);
	}
	uint64_t finished = take_finished(replay);
	if (is_closed_loop(replay)) {
		credit_push(replay, replay->now_ns, finished + rejections);
	}
	if (replay->options.is_checking) {
		engine_check(engine);
	}
	return STATUS_OK;
}

/* Has the user asked to stop? The signals are blocked and wait until they are asked for. */
static bool is_interrupt_pending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1);
}

/* Lets the runner say when the next step starts, at now_ns or later. */
static enum status start_step(struct replay *replay)
{
	const struct runner *runner = replay->engine.runner;
	uint64_t start_ns;

	if (runner->start == NULL) {
		return STATUS_OK;
	}
	if (runner->start(runner->state, replay->now_ns, &start_ns, &replay->failure) !=
		STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	check(start_ns >= replay->now_ns);
	replay->now_ns = start_ns;
	return STATUS_OK;
}

/* Moves the clock to where the next step can start; false: there is nothing left to do. */
static bool reach_work(struct replay *replay)
{
	uint64_t at_ns;

	if (engine_has_work(&replay->engine)) {
		return true;
	}
	if (!next_arrival(replay, &at_ns)) {
		return false;
	}
	replay->now_ns = u64_max(replay->now_ns, at_ns);
	return true;
}

static enum status run_loop(struct replay *replay, struct progress *progress, struct error *error)
{
	while (reach_work(replay)) {
		uint64_t rejections = 0;
		enum status status = start_step(replay);
		if (status == STATUS_OK && !replay->has_failed) {
			status = deliver(replay, &rejections, error);
		}
		if (status != STATUS_OK || replay->has_failed) {
			return status;
		}
		if (!engine_has_work(&replay->engine)) {
			/* Everything that came was turned away; who replaces it comes now. */
			if (is_closed_loop(replay)) {
				credit_push(replay, replay->now_ns, rejections);
			}
			continue;
		}
		status = run_step(replay, rejections, error);
		if (status != STATUS_OK || replay->has_failed) {
			return status;
		}
		if (replay->metrics.steps % INTERRUPT_POLL_STEPS == 0) {
			progress_show(progress, replay->metrics.finished, replay->now_ns,
				replay->metrics.steps);
			if (is_interrupt_pending()) {
				replay->is_interrupted = true;
				return STATUS_OK;
			}
		}
	}
	return STATUS_OK;
}

enum status replay_run(struct replay *replay, struct error *error)
{
	struct progress progress;

	progress_start(&progress, replay->options.shows_progress);
	enum status status = run_loop(replay, &progress, error);
	progress_end(&progress);
	if (status == STATUS_OK) {
		/* The hash of the trace is that of the whole file. */
		status = trace_finish(replay->trace, error);
	}
	if (status == STATUS_OK) {
		if (!replay->has_failed) {
			metrics_flush_events(&replay->metrics, &replay->engine);
		}
		metrics_end(&replay->metrics, &replay->engine,
			replay->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED);
	}
	return status;
}

enum status replay_open(struct replay *replay, const struct replay_options *options,
	const struct engine_config *engine_config, const struct runner *runner,
	struct table_writer *requests, struct table_writer *steps, struct error *error)
{
	const struct replay_config *config = options->config;
	const struct trace_options trace_options = {
		.trace_block_size = (uint32_t)config->trace_block_size};
	const struct metrics_options metrics_options = {
		.warmup = config->warmup,
		.slo_ttft_ns = options->slo_ttft_ns,
		.slo_tpot_ns = options->slo_tpot_ns,
	};

	memset(replay, 0, sizeof(*replay));
	replay->options = *options;
	replay->steps = steps;
	enum status status = engine_open(&replay->engine, engine_config, runner, error);
	if (status != STATUS_OK) {
		return status;
	}
	metrics_init(&replay->metrics, &metrics_options, replay->engine.scheduler.pool_capacity,
		requests);
	status = trace_open(&replay->trace, options->trace_path, &trace_options, error);
	if (status != STATUS_OK) {
		return status;
	}
	replay->tokens = (struct token_source){
		.seed = config->seed,
		.vocab_size = u32_min(options->vocab_size, TOKEN_VOCABULARY_LIMIT),
		.trace_block_size = trace_block_size(replay->trace),
	};
	replay->credit_capacity = 64;
	replay->credits = memory_take(replay->credit_capacity, sizeof(*replay->credits));
	credit_push(replay, 0, config->concurrency);
	return read_row(replay, replay->trace, &replay->row, &replay->has_row, error);
}

void replay_close(struct replay *replay)
{
	trace_close(replay->trace);
	trace_close(replay->scout);
	if (replay->metrics.records != NULL) {
		metrics_deinit(&replay->metrics);
	}
	engine_close(&replay->engine);
	free(replay->credits);
	free(replay->prompt);
	free(replay->forced);
	memset(replay, 0, sizeof(*replay));
}
