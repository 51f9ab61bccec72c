#include "bench/replay/replay.h"

#include "bench/replay/overlap.h"
#include "bench/replay/progress.h"
#include "bench/replay/replay_step.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/interrupt.h"

#include <stdlib.h>
#include <string.h>

enum {
	POLL_INTERVAL =
		256, /* rounds of the loop between looks at the clock, which take longer than
				pricing a step */
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

/* Moves the clock to the start of the next step, which the runner determines, and adds the rows
   that have arrived by then. */
static enum status reach_start(struct replay *replay, struct error *error)
{
	const struct runner *runner = replay->runner;
	uint64_t start_ns;

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
	if (runner->start(runner->state, replay->now_ns, &start_ns, &replay->failure) !=
		STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	check(start_ns >= replay->now_ns);
	replay->now_ns = start_ns;
	return replay_add_arrived(replay, error);
}

/* Executes or launches one step of the engine, which starts at now_ns. */
static enum status run_step(struct replay *replay, struct error *error)
{
	struct engine *engine = replay->engine;
	struct step_time time;

	engine_schedule(engine);
	TRY(replay_count_waiting(replay, error));
	replay->is_in_flight = replay->launches_ahead;
	if (replay->launches_ahead) {
		replay->has_failed = engine_launch(engine, &replay->failure) != STATUS_OK;
		return STATUS_OK;
	}
	enum status status = engine_execute(engine, &time, &replay->failure);
	if (status == STATUS_OK) {
		status = replay_check_time(replay, &time, &replay->failure);
	}
	replay->has_failed = status != STATUS_OK;
	if (!replay->has_failed) {
		replay_postprocess(replay);
		const struct step_decisions decisions = engine_decisions(engine);
		replay_record(replay, &decisions, &time);
	}
	return STATUS_OK;
}

/* Moves the clock over an idle gap to the next arrival; false: no row will ever arrive. */
static bool skip_idle_time(struct replay *replay)
{
	const struct intake *intake = &replay->intake;

	check(intake->state != WORKLOAD_ROW);
	/* The workload waits only for requests in the engine, which is empty. */
	check(intake->state != WORKLOAD_WAITS);
	if (intake->state == WORKLOAD_END) {
		return false;
	}
	replay->now_ns = intake->next_ns;
	return true;
}

/* Advances by one step or over an idle gap. Sets *is_over at the end of the trace. */
static enum status advance(struct replay *replay, bool *is_over, struct error *error)
{
	intake_count_room(&replay->intake);
	TRY(replay_add_arrived(replay, error));
	if (!engine_has_work(replay->engine)) {
		if (replay->intake.departure_count > 0) {
			/* All arrived rows were rejected. Rows that waited for them may arrive now.
			   */
			intake_report_departures(&replay->intake, replay->now_ns);
		} else {
			*is_over = !skip_idle_time(replay);
		}
		return STATUS_OK;
	}
	TRY(reach_start(replay, error));
	if (replay->has_failed || replay->is_interrupted) {
		return STATUS_OK;
	}
	return run_step(replay, error);
}

static enum status run_loop(struct replay *replay, struct progress *progress, struct error *error)
{
	uint64_t poll_interval = replay->runner->is_computing ? 1 : POLL_INTERVAL;
	bool is_over = false;

	for (uint64_t i = 1; !is_over && !replay->has_failed; i++) {
		if (i % poll_interval == 0) {
			progress_show(progress, replay->metrics.finished, replay->now_ns,
				replay->metrics.steps);
			replay->is_interrupted = interrupt_is_pending();
		}
		if (replay->is_in_flight) {
			TRY(overlap_advance(replay, error));
		} else if (replay->is_interrupted) {
			is_over = true;
		} else {
			TRY(advance(replay, &is_over, error));
		}
	}
	return STATUS_OK;
}

static void end_records(struct replay *replay)
{
	if (!replay->has_failed) {
		metrics_flush_events(&replay->metrics, replay->engine);
	}
	metrics_end(&replay->metrics, replay->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED);
}

enum status replay_run(struct replay *replay, struct error *error)
{
	struct progress progress;

	progress_start(&progress, replay->options.shows_progress);
	replay->origin_ns = monotonic_ns();
	enum status status = run_loop(replay, &progress, error);
	progress_end(&progress);
	TRY(status);
	bool is_cut_short = replay->is_interrupted || replay->has_failed;
	if (is_cut_short && !replay->has_backlog_at_last_arrival) {
		replay->backlog_at_last_arrival = replay->waiting;
	}
	/* The hash of the trace covers the whole file, so the rest is read too. */
	TRY(trace_finish(workload_trace(replay->intake.workload), error));
	end_records(replay);
	return STATUS_OK;
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
		.trace_xxh64 = trace_xxh64(workload_trace(replay->intake.workload)),
		.kv_blocks = limits->kv_block_count,
		.block_size = limits->block_size,
		.backlog_at_last_arrival = replay->backlog_at_last_arrival,
		.is_prefix_cache_off = limits->prefix_caching == PREFIX_CACHING_OFF,
		.has_prompt_ids = replay->intake.has_prompt_ids,
		.has_dispatch_late = replay->options.is_wall_clock,
		.dispatch_late = latency_figures_of(&replay->late),
		.gpu_idle = latency_figures_of(&replay->gpu_idle),
	};
	run_outcome_of_metrics(outcome, &replay->metrics, replay->now_ns, is_closed_loop);
}

enum status replay_open(struct replay *replay, const struct replay_options *options,
	const struct engine_config *engine_config, const struct runner *runner, struct error *error)
{
	const struct replay_config *config = options->config;
	const struct metrics_options metrics_options = {
		.warmup = config->warmup,
		.slo_ttft_ns = options->slo_ttft_ns,
		.slo_tpot_ns = options->slo_tpot_ns,
	};
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
	};

	memset(replay, 0, sizeof(*replay));
	replay->options = *options;
	replay->runner = runner;
	histogram_init(&replay->late);
	histogram_init(&replay->gpu_idle);
	TRY(engine_open(&replay->engine, engine_config, runner, error));
	replay->launches_ahead =
		options->overlaps && is_forced && engine_can_overlap(replay->engine);
	metrics_init(&replay->metrics, &metrics_options, engine_slot_count(replay->engine), NULL);
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
