#include "bench/replay/replay.h"

#include "bench/replay/progress.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A row that was handed to the engine, on its way to the metrics. */
struct handed {
	struct metrics_arrival arrival;
	char *session; /* owned; NULL: none */
	uint64_t turn_index;
	enum fit fit;
	uint32_t slot; /* FIT_OK: of its sequence */
};

enum {
	POLL_TURNS = 256, /* of the loop: a poll is a system call, a priced step far less */
	WATCHED_NS = 200000,
	PAUSE_NS = 50000000,
};

static bool row_fits(const struct replay *replay, const struct trace_row *row)
{
	return engine_config_fit(engine_limits(replay->engine), row->input_length,
		       row->output_length) == FIT_OK;
}

/* ---- handing over ---- */

/* A row has left the engine, or was never taken; the workload hears of it at the step's end. */
static void note_left(struct replay *replay, uint64_t turn_index)
{
	replay->left = memory_grow(replay->left, &replay->left_capacity, replay->left_count + 1,
		sizeof(*replay->left));
	replay->left[replay->left_count++] = turn_index;
}

static void report_left(struct replay *replay)
{
	for (size_t i = 0; i < replay->left_count && workload_is_closed(replay->workload); i++) {
		workload_finish(replay->workload, replay->left[i], replay->now_ns);
		if (replay->scout != NULL) {
			workload_finish(replay->scout, replay->left[i], replay->now_ns);
		}
	}
	replay->left_count = 0;
}

static struct handed *add_handed(struct replay *replay, const struct trace_row *row)
{
	replay->handed = memory_grow(replay->handed, &replay->handed_capacity,
		replay->handed_count + 1, sizeof(*replay->handed));
	struct handed *handed = &replay->handed[replay->handed_count++];
	*handed = (struct handed){.turn_index = row->turn_index};
	if (row->session != NULL) {
		size_t bytes = strlen(row->session) + 1;
		handed->session = memory_take(bytes, 1);
		memcpy(handed->session, row->session, bytes);
	}
	handed->arrival = (struct metrics_arrival){
		.id = row->index,
		.session = handed->session,
		.arrival_ns = row->arrival_ns,
		.prompt_tokens = row->input_length,
		.max_tokens = row->output_length,
	};
	return handed;
}

/* All tokens of a replay are forced, or none is. */
static bool has_forced_tokens(const struct replay *replay)
{
	return strcmp(replay->options.config->tokens, "forced") == 0;
}

/* Makes the row's tokens and gives the request to the engine. */
static void hand_over(struct replay *replay, const struct trace_row *row)
{
	const struct replay_config *config = replay->options.config;
	struct request request = {
		.id = row->index,
		.prompt_count = row->input_length,
		.max_tokens = row->output_length,
		.temperature = (float)config->temperature / 1e6f,
		.ignore_eos = true,
	};
	bool fits = row_fits(replay, row);

	if (fits) {
		replay->prompt = memory_grow(replay->prompt, &replay->prompt_capacity,
			row->input_length, sizeof(int32_t));
		tokens_prompt(&replay->tokens, row, replay->prompt);
		request.prompt = replay->prompt;
	}
	if (fits && has_forced_tokens(replay)) {
		replay->forced = memory_grow(replay->forced, &replay->forced_capacity,
			row->output_length, sizeof(int32_t));
		tokens_forced(&replay->tokens, row, replay->forced);
		request.forced = replay->forced;
	}
	struct handed *handed = add_handed(replay, row);
	handed->fit = engine_add(replay->engine, &request, &handed->slot);
	if (handed->fit == FIT_OK) {
		replay->turn_of_slot[handed->slot] = row->turn_index;
		replay->handed_fit_count++;
		replay->room--;
	}
}

/* Tells those who keep the records of the rows handed over. */
static void tell_handed(struct replay *replay)
{
	struct perfetto *timeline = replay->timeline;

	for (size_t i = 0; i < replay->handed_count; i++) {
		const struct handed *handed = &replay->handed[i];
		if (handed->fit == FIT_OK) {
			metrics_arrive(&replay->metrics, handed->slot, &handed->arrival);
		} else {
			metrics_reject(&replay->metrics, handed->fit, &handed->arrival);
			note_left(replay, handed->turn_index);
		}
		if (timeline != NULL && handed->fit == FIT_OK) {
			perfetto_arrive(timeline, handed->slot, &handed->arrival);
		} else if (timeline != NULL) {
			perfetto_reject(timeline, handed->fit, &handed->arrival);
		}
		free(handed->session);
	}
	replay->handed_count = 0;
}

/* A closed loop of no more requests than may wait in the engine, which therefore has room for every
   row that comes. */
static bool always_has_room(const struct replay *replay)
{
	uint64_t concurrency = replay->options.workload->concurrency;

	return concurrency > 0 && concurrency <= engine_limits(replay->engine)->max_num_seqs;
}

/* Counts the room for the rows that arrive between two steps. */
static void count_room(struct replay *replay)
{
	uint32_t most = engine_limits(replay->engine)->max_num_seqs;

	replay->room = always_has_room(replay)
			       ? UINT32_MAX
			       : most - u32_min(most, engine_waiting_count(replay->engine));
}

/* Hands over what has arrived by now_ns while there is room. */
static enum status hand_over_arrived(struct replay *replay, struct error *error)
{
	struct trace_row row;

	while (replay->room > 0) {
		enum status status = workload_next(replay->workload, replay->now_ns, &row,
			&replay->state, &replay->next_ns, error);
		if (status != STATUS_OK) {
			return status;
		}
		if (replay->state != WORKLOAD_ROW) {
			return STATUS_OK;
		}
		hand_over(replay, &row);
	}
	if (replay->state != WORKLOAD_END) {
		replay->state = WORKLOAD_ROW; /* for all that is known */
	}
	return STATUS_OK;
}

static enum status deliver(struct replay *replay, struct error *error)
{
	enum status status = hand_over_arrived(replay, error);

	tell_handed(replay);
	return status;
}

/* A closed workload has to be watched from its beginning, if it can ever outgrow the engine. */
static bool needs_scout_from_start(const struct replay *replay)
{
	return workload_is_closed(replay->workload) && !always_has_room(replay);
}

/* Lets the scout take everything that has arrived by now_ns. */
static enum status scout_advance(struct replay *replay, struct error *error)
{
	struct trace_row row;
	uint64_t next_ns;

	do {
		enum status status = workload_next(
			replay->scout, replay->now_ns, &row, &replay->scout_state, &next_ns, error);
		if (status != STATUS_OK) {
			return status;
		}
		if (replay->scout_state == WORKLOAD_ROW) {
			replay->scout_fit_count += row_fits(replay, &row);
		}
	} while (replay->scout_state == WORKLOAD_ROW);
	return STATUS_OK;
}

/* Requests that have arrived and that the engine has not been handed yet, those that it will turn
   away left out. Sets all_have_arrived. */
static enum status count_backlog(struct replay *replay, uint64_t *backlog, struct error *error)
{
	if (replay->state == WORKLOAD_END) {
		*backlog = 0;
		replay->all_have_arrived = true;
		return STATUS_OK;
	}
	/* Else deliver() has asked the workload until it had nothing more. */
	bool is_engine_full = replay->room == 0;
	enum status status = STATUS_OK;

	*backlog = 0;
	if (is_engine_full && replay->scout == NULL) {
		status = workload_open(&replay->scout, replay->options.trace_path,
			replay->options.workload, error);
	}
	if (status == STATUS_OK && replay->scout != NULL) {
		status = scout_advance(replay, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	if (is_engine_full) {
		check(replay->scout_fit_count >= replay->handed_fit_count);
		*backlog = replay->scout_fit_count - replay->handed_fit_count;
	}
	replay->all_have_arrived =
		(is_engine_full ? replay->scout_state : replay->state) == WORKLOAD_END;
	return STATUS_OK;
}

/* ---- steps ---- */

static void write_step(struct replay *replay, const struct step_decisions *decisions,
	uint64_t start_ns, uint64_t waiting, const struct step_time *time)
{
	static const char *const modes[] = {"none", "eager", "graph"}; /* by enum step_mode */
	struct table_writer *table = replay->steps;
	struct step_counts counts = decisions->counts;

	counts.waiting = waiting; /* with those that the engine has not been handed yet */
	table_u64(table, decisions->step);
	table_u64(table, start_ns);
	table_u64(table, time->elapsed_ns);
	table_u64(table, time->gpu_ns);
	table_u64(table, time->host_ns);
	table_text(table, modes[time->mode]);
#define STEP_COUNT_CELL(column) table_u64(table, counts.column);
	STEP_COUNT_LIST(STEP_COUNT_CELL)
#undef STEP_COUNT_CELL
	table_end_row(table);
}

/* Ends the step in the engine; whose tokens are complete leaves it. */
static void postprocess(struct replay *replay)
{
	const struct sequence *sequence;

	engine_postprocess(replay->engine);
	while ((sequence = engine_take_finished(replay->engine)) != NULL) {
		note_left(replay, replay->turn_of_slot[sequence->slot]);
	}
	if (replay->options.is_checking) {
		engine_check(replay->engine);
	}
}

/* Counts who waits in the step that was decided, all that arrived before it included. */
static enum status count_waiting(struct replay *replay, struct error *error)
{
	uint64_t backlog;
	enum status status = count_backlog(replay, &backlog, error);

	if (status != STATUS_OK) {
		return status;
	}
	replay->waiting = engine_waiting_count(replay->engine) + backlog;
	if (replay->all_have_arrived && !replay->has_backlog_at_last_arrival) {
		replay->has_backlog_at_last_arrival = true;
		replay->backlog_at_last_arrival = replay->waiting;
	}
	return STATUS_OK;
}

static void note_idle(
	struct replay *replay, const struct step_counts *counts, const struct step_time *time)
{
	bool is_decode = counts->prefill_rows == 0;

	if (time->idle_ns > 0 && is_decode && replay->was_decode) {
		histogram_add(&replay->gpu_idle, time->idle_ns, 1);
	}
	replay->was_decode = is_decode;
}

/* Writes down a step that began at now_ns; the clock stands at its end afterwards. */
static void record(
	struct replay *replay, const struct step_decisions *decisions, const struct step_time *time)
{
	uint64_t start_ns = replay->now_ns;
	uint64_t waiting = replay->waiting;

	replay->now_ns = start_ns + time->elapsed_ns;
	if (replay->kernel_times != NULL) {
		kernel_times_step(replay->kernel_times, decisions->step, &decisions->counts,
			start_ns, replay->now_ns);
	}
	metrics_step(
		&replay->metrics, replay->engine, decisions, start_ns, replay->now_ns, waiting);
	if (replay->timeline != NULL) {
		perfetto_step(replay->timeline, decisions, start_ns, replay->now_ns, waiting);
	}
	if (replay->steps != NULL) {
		write_step(replay, decisions, start_ns, waiting, time);
	}
	note_idle(replay, &decisions->counts, time);
	report_left(replay);
}

/* One step of the engine, from now_ns on; it may be in flight afterwards. */
static enum status run_step(struct replay *replay, struct error *error)
{
	struct engine *engine = replay->engine;
	struct step_time time;

	engine_schedule(engine);
	enum status status = count_waiting(replay, error);
	if (status != STATUS_OK) {
		return status;
	}
	replay->is_in_flight = replay->runs_ahead;
	replay->has_failed = (replay->is_in_flight ? engine_launch(engine, &replay->failure)
						   : engine_execute(engine, &time,
							     &replay->failure)) != STATUS_OK;
	if (!replay->is_in_flight && !replay->has_failed) {
		postprocess(replay);
		const struct step_decisions decisions = engine_decisions(engine);
		record(replay, &decisions, &time);
	}
	return STATUS_OK;
}

/* A copy of what the engine's latest step decided. */
static struct step_decisions keep_decisions(struct replay *replay)
{
	struct step_decisions kept = engine_decisions(replay->engine);

	replay->kept_events.count = 0;
	for (size_t i = 0; i < kept.events->count; i++) {
		event_list_add(&replay->kept_events, &kept.events->events[i]);
	}
	kept.events = &replay->kept_events;
	return kept;
}

/* What is known, before a step has ended, of the rows that arrive while it runs. Its tokens are
   forced, so who finishes in it is known; how long it takes is not. */
enum newcomers {
	/* Who they are, or whether there are any, depends on when the step ends. */
	NEWCOMERS_OPEN,
	/* There are none: the workload has no more rows, or none before one leaves, and nobody has
	   left. */
	NEWCOMERS_NONE,
	/* In a closed loop as many come as leave, the next of the file, whenever that is; they all
	   have room. They are handed over before the next step is decided, and told of when the
	   time is known. */
	NEWCOMERS_KNOWN,
	/* Whoever they are, the next step is decided without looking at them. They are handed over
	   behind it, to as much room as there was before it. */
	NEWCOMERS_UNSEEN,
};

static enum newcomers newcomers_in_flight(const struct replay *replay)
{
	const struct workload_options *load = replay->options.workload;
	bool waits = replay->state == WORKLOAD_WAITS;

	if (replay->state == WORKLOAD_END || (waits && replay->left_count == 0)) {
		return NEWCOMERS_NONE;
	}
	if (waits && always_has_room(replay) && load->duration_ns == 0) {
		return NEWCOMERS_KNOWN;
	}
	return engine_next_step_depends_on_arrivals(replay->engine) ? NEWCOMERS_OPEN
								    : NEWCOMERS_UNSEEN;
}

/* Launches the step behind the one in flight, which was postprocessed, if there is one that can be
   decided already. */
static enum status launch_ahead(
	struct replay *replay, enum newcomers newcomers, struct error *error)
{
	enum status status = STATUS_OK;

	count_room(replay);
	if (newcomers == NEWCOMERS_KNOWN) {
		report_left(replay);
		status = hand_over_arrived(replay, error);
	}
	replay->is_in_flight = newcomers != NEWCOMERS_OPEN && engine_has_work(replay->engine);
	if (status == STATUS_OK && replay->is_in_flight) {
		engine_schedule(replay->engine);
		replay->has_failed = engine_launch(replay->engine, &replay->failure) != STATUS_OK;
	}
	return status;
}

/* Launches the step behind the one in flight, if that can be, and ends the latter. */
static enum status advance(struct replay *replay, struct error *error)
{
	struct step_time time;

	postprocess(replay);
	const struct step_decisions kept = keep_decisions(replay);
	/* Whoever asks to stop wants no more steps. */
	enum newcomers newcomers =
		replay->is_interrupted ? NEWCOMERS_OPEN : newcomers_in_flight(replay);
	enum status status = launch_ahead(replay, newcomers, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (engine_collect(replay->engine, &time, &replay->failure) != STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	record(replay, &kept, &time);
	for (size_t i = 0; i < replay->handed_count; i++) {
		replay->handed[i].arrival.arrival_ns = replay->now_ns;
	}
	tell_handed(replay);
	if (newcomers == NEWCOMERS_UNSEEN && replay->is_in_flight) {
		status = deliver(replay, error);
	}
	return status == STATUS_OK && replay->is_in_flight ? count_waiting(replay, error) : status;
}

/* Has the user asked to stop? The signals are blocked and wait until they are asked for. */
static bool is_interrupt_pending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1);
}

/* Waits until now_ns is the real time, or the user asks to stop; now_ns is the real time then. */
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
		if (is_interrupt_pending()) {
			replay->is_interrupted = true;
			return;
		}
		/* A sleep ends late; the last of the way is watched. */
		uint64_t left_ns = earliest_ns - real_ns;
		if (left_ns > WATCHED_NS) {
			const struct timespec pause = {
				.tv_nsec = (long)u64_min(left_ns - WATCHED_NS, PAUSE_NS)};
			nanosleep(&pause, NULL);
		}
	}
}

/* Lets the runner say when the next step starts, and hands over what has arrived by then. */
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
		return replay->options.is_wall_clock ? deliver(replay, error) : STATUS_OK;
	}
	if (runner->start(runner->state, replay->now_ns, &start_ns, &replay->failure) !=
		STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	check(start_ns >= replay->now_ns);
	replay->now_ns = start_ns;
	return deliver(replay, error);
}

/* Lets the clock jump over an idle gap, to the next arrival; false: nothing will ever arrive. */
static bool skip_idle_time(struct replay *replay)
{
	check(replay->state != WORKLOAD_ROW);
	/* Whoever waits for a row to leave waits for one in the engine, which is empty. */
	check(replay->state != WORKLOAD_WAITS);
	if (replay->state == WORKLOAD_END) {
		return false;
	}
	replay->now_ns = replay->next_ns;
	return true;
}

static enum status run_loop(struct replay *replay, struct progress *progress, struct error *error)
{
	uint64_t poll_turns = replay->runner->is_computing ? 1 : POLL_TURNS;

	for (uint64_t turn = 1;; turn++) {
		if (turn % poll_turns == 0) {
			progress_show(progress, replay->metrics.finished, replay->now_ns,
				replay->metrics.steps);
			replay->is_interrupted = is_interrupt_pending();
		}
		if (replay->is_in_flight) {
			enum status status = advance(replay, error);
			if (status != STATUS_OK || replay->has_failed) {
				return status;
			}
			continue;
		}
		if (replay->is_interrupted) {
			return STATUS_OK;
		}
		count_room(replay);
		enum status status = deliver(replay, error);
		if (status != STATUS_OK) {
			return status;
		}
		if (!engine_has_work(replay->engine)) {
			if (replay->left_count > 0) {
				/* All that came was turned away; what follows it may come now. */
				report_left(replay);
			} else if (!skip_idle_time(replay)) {
				return STATUS_OK;
			}
			continue;
		}
		status = reach_start(replay, error);
		if (status == STATUS_OK && !replay->has_failed && !replay->is_interrupted) {
			status = run_step(replay, error);
		}
		if (status != STATUS_OK || replay->has_failed) {
			return status;
		}
	}
}

enum status replay_run(struct replay *replay, struct error *error)
{
	struct progress progress;

	progress_start(&progress, replay->options.shows_progress);
	replay->origin_ns = monotonic_ns();
	enum status status = run_loop(replay, &progress, error);
	progress_end(&progress);
	bool is_cut_short = replay->is_interrupted || replay->has_failed;
	if (is_cut_short && !replay->has_backlog_at_last_arrival) {
		replay->backlog_at_last_arrival = replay->waiting;
	}
	if (status == STATUS_OK) {
		/* The hash of the trace is that of the whole file. */
		status = trace_finish(workload_trace(replay->workload), error);
	}
	if (status == STATUS_OK) {
		if (!replay->has_failed) {
			metrics_flush_events(&replay->metrics, replay->engine);
		}
		metrics_end(
			&replay->metrics, replay->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED);
	}
	return status;
}

/* The scout reads the trace a second time, which a pipe cannot give; and nobody could interrupt a
   replay that waits for one. */
static enum status refuse_pipe(const char *path, struct error *error)
{
	struct stat info;

	if (stat(path, &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) {
		return STATUS_OK; /* opening it says what is wrong, if anything is */
	}
	return error_set(error, STATUS_INPUT,
		"%.200s: found a pipe or a device, expected a file (packed ones are read as they "
		"are)",
		path);
}

enum status replay_open(struct replay *replay, const struct replay_options *options,
	const struct engine_config *engine_config, const struct runner *runner,
	struct table_writer *requests, struct table_writer *steps, struct error *error)
{
	const struct metrics_options metrics_options = {
		.warmup = options->config->warmup,
		.slo_ttft_ns = options->slo_ttft_ns,
		.slo_tpot_ns = options->slo_tpot_ns,
	};

	memset(replay, 0, sizeof(*replay));
	replay->options = *options;
	replay->runner = runner;
	replay->steps = steps;
	histogram_init(&replay->late);
	histogram_init(&replay->gpu_idle);
	enum status status = engine_open(&replay->engine, engine_config, runner, error);
	if (status != STATUS_OK) {
		return status;
	}
	replay->runs_ahead = options->overlaps && engine_can_overlap(replay->engine) &&
			     has_forced_tokens(replay);
	uint32_t slot_count = engine_slot_count(replay->engine);
	metrics_init(&replay->metrics, &metrics_options, slot_count, requests);
	replay->turn_of_slot = memory_take(slot_count, sizeof(*replay->turn_of_slot));
	status = refuse_pipe(options->trace_path, error);
	if (status != STATUS_OK) {
		return status;
	}
	status = workload_open(&replay->workload, options->trace_path, options->workload, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (needs_scout_from_start(replay)) {
		status = workload_open(
			&replay->scout, options->trace_path, options->workload, error);
	}
	replay->tokens = (struct token_source){
		.seed = options->config->seed,
		.vocab_size = u32_min(options->vocab_size, TOKEN_VOCABULARY_LIMIT),
		.trace_block_size = trace_block_size(workload_trace(replay->workload)),
	};
	return status;
}

void replay_close(struct replay *replay)
{
	workload_close(replay->workload);
	workload_close(replay->scout);
	if (replay->metrics.records != NULL) {
		metrics_deinit(&replay->metrics);
	}
	engine_close(replay->engine);
	histogram_deinit(&replay->late);
	histogram_deinit(&replay->gpu_idle);
	free(replay->kept_events.events);
	for (size_t i = 0; i < replay->handed_count; i++) {
		free(replay->handed[i].session);
	}
	free(replay->handed);
	free(replay->turn_of_slot);
	free(replay->left);
	free(replay->prompt);
	free(replay->forced);
	memset(replay, 0, sizeof(*replay));
}
