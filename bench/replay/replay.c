#include "bench/replay/replay.h"

#include "bench/replay/overlap.h"
#include "bench/replay/loop.h"
#include "bench/replay/replay_step.h"
#include "bench/replay/step_threads.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/interrupt.h"

#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdlib.h>
#include <string.h>

enum {
	WATCHED_NS = 200000,
	PAUSE_NS = 50000000,
};

/* Waits until the real time reaches now_ns and sets now_ns to it. Returns early after an interrupt.
   */
static void wait_for_now(struct replay *replay)
{
	uint64_t earliest_ns = replay->now_ns;

	for (;;) {
		uint64_t real_ns = monotonic_ns() - replay->origin_ns;
		if (real_ns >= earliest_ns) {
			replay->now_ns = real_ns;
			histogram_add(&replay->late, real_ns - earliest_ns, 1);
			return;
		}
		if (interrupt_is_pending()) {
			replay->is_interrupted = true;
			return;
		}
		/* A sleep overshoots, so the last WATCHED_NS are spent polling. */
		uint64_t left_ns = earliest_ns - real_ns;
		if (left_ns > WATCHED_NS) {
			pause_ns(u64_min(left_ns - WATCHED_NS, PAUSE_NS));
		}
	}
}

/* A step of a fleet begins when the loop has read the clock; events up to then come first.
   *start_ns: when to come back for that. */
static bool is_before_clock(struct replay *replay, uint64_t *start_ns)
{
	replay->wanted_ns = u64_min(replay->wanted_ns, replay->now_ns);
	*start_ns = replay->clock_ns;
	if (replay->clock_ns > replay->now_ns) {
		return true;
	}
	histogram_add(&replay->late, replay->now_ns - replay->wanted_ns, 1);
	replay->wanted_ns = UINT64_MAX;
	return false;
}

/* Moves the clock to the start of the next step, which the runner determines, and adds the rows
   that have arrived by then. Where other replicas may act until then, *is_early is set instead and
   *start_ns says when to come back. */
static enum status reach_start(
	struct replay *replay, uint64_t *start_ns, bool *is_early, struct error *error)
{
	const struct runner *runner = replay->runner;

	*is_early = false;
	if (replay->threads != NULL) {
		*is_early = is_before_clock(replay, start_ns);
		return STATUS_OK;
	}
	if (replay->options.is_wall_clock) {
		wait_for_now(replay);
	}
	if (replay->is_interrupted) {
		return STATUS_OK;
	}
	if (runner->start == NULL) {
		return replay->options.is_wall_clock ? replay_add_arrived(replay, error)
						     : STATUS_OK;
	}
	if (runner->start(runner->state, replay->now_ns, start_ns, &replay->failure) != STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	check(*start_ns >= replay->now_ns);
	*is_early = *start_ns > replay->now_ns && replay->intake.options.desk != NULL;
	if (*is_early) {
		return STATUS_OK;
	}
	replay->now_ns = *start_ns;
	return replay_add_arrived(replay, error);
}

/* Executes or launches one step of the engine, which starts at now_ns. */
static enum status run_step(struct replay *replay, struct error *error)
{
	struct engine *engine = replay->engine;

	engine_schedule(engine);
	TRY(replay_count_waiting(replay, error));
	if (replay->launches_ahead) {
		replay->is_in_flight = true;
		replay->has_failed = engine_launch(engine, &replay->failure) != STATUS_OK;
		return STATUS_OK;
	}
	if (replay->threads != NULL) {
		step_threads_begin(replay->threads, replay->index);
		replay->is_stepping = true;
		return STATUS_OK;
	}
	if (replay->is_ahead) {
		engine_set_ahead(engine);
	}
	enum status status = engine_execute(engine, &replay->time, &replay->failure);
	if (status == STATUS_OK) {
		status = replay_check_time(replay, &replay->time, &replay->failure);
	}
	replay->has_failed = status != STATUS_OK;
	replay->is_stepping = !replay->has_failed;
	return STATUS_OK;
}

void replay_collect_step(struct replay *replay, uint64_t end_ns)
{
	struct step_time *time = &replay->time;
	enum status status =
		step_threads_end(replay->threads, replay->index, time, &replay->failure);

	time->elapsed_ns = end_ns - replay->now_ns;
	time->gpu_ns = u64_min(time->gpu_ns, time->elapsed_ns);
	time->host_ns = time->elapsed_ns - time->gpu_ns;
	replay->has_failed = status != STATUS_OK;
	replay->is_stepping = !replay->has_failed;
}

void replay_end_step(struct replay *replay)
{
	replay->is_stepping = false;
	replay_postprocess(replay);
	const struct step_decisions decisions = engine_decisions(replay->engine);
	replay_record(replay, &decisions, &replay->time);
	replay->is_ahead = replay->prices_ahead && engine_has_work(replay->engine) &&
			   !engine_next_step_depends_on_arrivals(replay->engine);
}

/* When a replica without work is to be looked at again: at the next arrival, or at once. */
static uint64_t idle_until(struct replay *replay)
{
	struct intake *intake = &replay->intake;

	replay->is_ahead = false;
	if (intake->departure_count > 0) {
		/* All arrived rows were rejected. Rows that waited for them may arrive now. */
		intake_report_departures(intake, replay->now_ns);
		return replay->now_ns;
	}
	if (intake->options.desk != NULL) {
		return REPLAY_IDLE; /* until the desk sends a row */
	}
	check(intake->state != WORKLOAD_ROW);
	/* The workload waits only for requests in the engine, which is empty. */
	check(intake->state != WORKLOAD_WAITS);
	if (intake->state == WORKLOAD_END) {
		return REPLAY_IDLE;
	}
	replay->now_ns = intake->next_ns;
	return replay->now_ns;
}

/* Adds what has arrived and reaches the start of the next step. *may_run is false if there is none,
   or not yet; *next_ns then says when to come back. */
static enum status reach_work(
	struct replay *replay, uint64_t *next_ns, bool *may_run, struct error *error)
{
	bool is_early;

	*may_run = false;
	intake_count_room(&replay->intake);
	TRY(replay_add_arrived(replay, error));
	if (!engine_has_work(replay->engine)) {
		*next_ns = idle_until(replay);
		return STATUS_OK;
	}
	TRY(reach_start(replay, next_ns, &is_early, error));
	*may_run = !replay->has_failed && !replay->is_interrupted && !is_early;
	return STATUS_OK;
}

enum status replay_begin_step(struct replay *replay, uint64_t *next_ns, struct error *error)
{
	bool may_run = replay->ahead.is_decided;

	*next_ns = REPLAY_IDLE;
	if (!may_run) {
		TRY(reach_work(replay, next_ns, &may_run, error));
	}
	if (!may_run) {
		return STATUS_OK;
	}
	TRY(engine_is_async(replay->engine) ? async_run_step(replay, error)
					    : run_step(replay, error));
	bool has_end = replay->is_stepping && replay->threads == NULL;
	bool is_ended_by_thread = replay->is_stepping && replay->threads != NULL;
	*next_ns = is_ended_by_thread ? REPLAY_IDLE
		   : has_end	      ? replay->now_ns + replay->time.elapsed_ns
				      : replay->now_ns;
	return STATUS_OK;
}

/* The desk's copies of rows whose requests do not end. */
static void free_unended(struct replay *replay)
{
	const struct metrics *metrics = &replay->metrics;

	for (uint32_t slot = 0; slot < metrics->record_count; slot++) {
		if (metrics->records[slot].is_live) {
			free(replay->intake.of_slot[slot].parcel);
			replay->intake.of_slot[slot].parcel = NULL;
		}
	}
}

static void end_records(struct replay *replay)
{
	if (replay->intake.options.desk != NULL) {
		free_unended(replay);
	}
	if (!replay->has_failed) {
		metrics_flush_events(&replay->metrics, replay->engine);
	}
	metrics_end(&replay->metrics, replay->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED,
		replay->now_ns);
}

/* Charges the requests of the inbox up to now_ns. */
static void forget_inbox(struct replay *replay, uint64_t now_ns)
{
	const struct desk *desk = replay->intake.options.desk;
	const struct parcel *parcel = desk->berths[replay->index].inbox.head;

	for (; parcel != NULL; parcel = parcel->next) {
		struct metrics_arrival arrival = {
			.id = parcel->row.index, .arrival_ns = parcel->row.arrival_ns};
		intake_add_times(&arrival, parcel);
		if (parcel->fits && !parcel->is_awaited) {
			metrics_await(&replay->metrics, &arrival, now_ns);
		}
		if (parcel->fits) {
			metrics_forget_awaited(&replay->metrics, arrival.id);
		}
	}
}

struct parcel **replay_restart(struct replay *replay, uint64_t now_ns, uint32_t *count)
{
	struct metrics *metrics = &replay->metrics;
	struct parcel **lost = memory_take(metrics->record_count, sizeof(struct parcel *));

	*count = 0;
	for (uint32_t slot = 0; slot < metrics->record_count; slot++) {
		if (metrics->records[slot].is_live) {
			lost[(*count)++] = replay->intake.of_slot[slot].parcel;
		}
	}
	forget_inbox(replay, now_ns);
	metrics_forget(metrics, now_ns);
	/* Those that it had rejected have left it; only the end of its step would have said so. */
	intake_report_departures(&replay->intake, now_ns);
	replay->now_ns = now_ns;
	engine_restart(replay->engine);
	replay->is_stepping = false;
	replay->is_ahead = false;
	return lost;
}

/* Those that had arrived when the run was cut short, and that the engine had no room for. */
static enum status record_backlog(struct replay *replay, struct error *error)
{
	enum request_status status = replay->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED;

	for (;;) {
		struct metrics_arrival arrival;
		enum fit fit;
		bool is_row;
		TRY(intake_take_backlog(
			&replay->intake, replay->now_ns, &arrival, &fit, &is_row, error));
		if (!is_row) {
			return STATUS_OK;
		}
		if (fit == FIT_OK) {
			metrics_refuse(&replay->metrics, status, &arrival, replay->now_ns);
		} else {
			metrics_reject(&replay->metrics, fit, &arrival);
		}
	}
}

enum status replay_finish(struct replay *replay, struct error *error)
{
	bool is_cut_short = replay->is_interrupted || replay->has_failed;

	if (is_cut_short && !replay->has_backlog_at_last_arrival) {
		replay->backlog_at_last_arrival = replay->waiting;
	}
	end_records(replay);
	if (is_cut_short && replay->intake.options.desk == NULL) {
		TRY(record_backlog(replay, error));
	}
	/* The hash of the trace covers the whole file, so the rest is read too. */
	return trace_finish(workload_trace(replay_workload(replay)), error);
}

enum status replay_run(struct replay *replay, struct error *error)
{
	TRY(loop_run(&replay, 1, NULL, replay->options.progress, error));
	return replay_finish(replay, error);
}

void replay_set_sinks(struct replay *replay, const struct replay_sinks *sinks)
{
	replay->sinks = *sinks;
	replay->metrics.requests = sinks->requests;
}

void replay_outcome(const struct replay *replay, struct run_outcome *outcome)
{
	const struct engine_config *limits = engine_limits(replay->engine);
	bool is_closed_loop = replay->options.config->concurrency > 0;

	*outcome = (struct run_outcome){
		.end = replay->has_failed	? RUN_FAILED
		       : replay->is_interrupted ? RUN_INTERRUPTED
						: RUN_COMPLETE,
		.failure = replay->failure,
		.trace_xxh64 = trace_xxh64(workload_trace(replay_workload(replay))),
		.kv_blocks = limits->kv_block_count,
		.block_size = limits->block_size,
		.backlog_at_last_arrival = replay->backlog_at_last_arrival,
		.is_prefix_cache_off = limits->prefix_caching == PREFIX_CACHING_OFF,
		.has_run_out = !replay->has_failed && !replay->is_interrupted &&
			       workload_ran_out(replay_workload(replay)),
		.has_prompt_ids = replay->intake.has_prompt_ids,
		.has_dispatch_late = replay->options.is_wall_clock,
		.dispatch_late = latency_figures_of(&replay->late),
		.gpu_idle = latency_figures_of(&replay->gpu_idle),
	};
	run_outcome_of_metrics(outcome, &replay->metrics, replay->now_ns, is_closed_loop);
}

/* Finds the first request of the cooldown, which takes one reading of the trace. */
static enum status find_cooldown(
	const struct replay_options *options, uint64_t *measured_end, struct error *error)
{
	const struct replay_config *config = options->config;
	uint64_t count;

	*measured_end = 0;
	if (config->cooldown == 0) {
		return STATUS_OK;
	}
	TRY(workload_count(options->trace_path, options->workload, &count, error));
	/* The first comparison keeps the sum from wrapping. */
	if (config->cooldown >= count || config->warmup + config->cooldown >= count) {
		return error_set(error, STATUS_USAGE,
			"--warmup %llu and --cooldown %llu leave nothing of %llu %s to measure",
			(unsigned long long)config->warmup, (unsigned long long)config->cooldown,
			(unsigned long long)count, word_of_count(count, "request", "requests"));
	}
	*measured_end = count - config->cooldown;
	return STATUS_OK;
}

static enum status open_metrics(struct replay *replay, struct error *error)
{
	const struct replay_options *options = &replay->options;
	const struct arrival_profile *profile = options->workload->profile;
	bool has_levels = profile != NULL && profile->step_count > 1;
	struct metrics_options metrics_options = {
		.warmup = options->config->warmup,
		.slo = options->slo,
		.level_count = has_levels ? profile->step_count : 0,
		.level_ns = has_levels ? profile->step_ns : 0,
	};
	uint32_t slots = engine_slot_count(replay->engine);

	if (options->first != NULL) {
		metrics_init_part(&replay->metrics, &options->first->metrics, slots);
	} else {
		TRY(find_cooldown(options, &metrics_options.measured_end, error));
		metrics_init(&replay->metrics, &metrics_options, slots, NULL);
	}
	replay->metrics.has_replica = options->desk != NULL;
	replay->metrics.replica = options->replica;
	return STATUS_OK;
}

enum status replay_open(struct replay *replay, const struct replay_options *options,
	const struct engine_config *engine_config, const struct runner *runner, struct error *error)
{
	const struct replay_config *config = options->config;
	/* All tokens of a replay are forced, or none is. */
	bool is_forced = config->tokens == TOKENS_FORCED;
	const struct intake_options intake_options = {
		.trace_path = options->trace_path,
		.workload = options->workload,
		.seed = config->seed,
		.temperature = (float)config->temperature / 1e6f,
		.is_forced = is_forced,
		.needs_tokens = runner->is_computing,
		.vocab_size = options->vocab_size,
		.desk = options->desk,
		.replica = options->replica,
	};

	memset(replay, 0, sizeof(*replay));
	replay->options = *options;
	replay->runner = runner;
	replay->wanted_ns = UINT64_MAX;
	/* Fleets are large, and few runs have these times. */
	if (options->is_wall_clock) {
		histogram_init(&replay->late);
	}
	TRY(engine_open(&replay->engine, engine_config, runner, error));
	bool overlaps = options->overlaps && is_forced && engine_can_overlap(replay->engine) &&
			!engine_is_async(replay->engine);
	/* An asynchronous step needs no token of the one before it on the host. */
	replay->overlaps = options->overlaps && engine_can_overlap(replay->engine);
	replay->launches_async = replay->overlaps && runner->is_computing;
	replay->launches_ahead = overlaps && options->desk == NULL;
	replay->prices_ahead = overlaps && options->desk != NULL;
	replay->index = options->replica;
	TRY(open_metrics(replay, error));
	return intake_open(&replay->intake, &intake_options, replay->engine, error);
}

void replay_close(struct replay *replay)
{
	intake_close(&replay->intake);
	if (replay->metrics.records != NULL) {
		metrics_deinit(&replay->metrics);
	}
	engine_close(replay->engine);
	histogram_deinit(&replay->late);
	histogram_deinit(&replay->gpu_idle);
	free(replay->kept_events.events);
	memset(replay, 0, sizeof(*replay));
}
