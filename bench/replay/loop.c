#include "bench/replay/loop.h"

#include "bench/replay/overlap.h"
#include "bench/options/progress.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/text.h"
#include "engine/ranks/shared_word.h"

#include <stdlib.h>
#include <string.h>

enum {
	POLL_INTERVAL =
		256, /* rounds of the loop between looks at the clock, which take longer than
				pricing a step */
	WATCHED_NS = 200000, /* a sleep overshoots, so the last of a wait is spent polling */
	PAUSE_NS = 50000000, /* between looks for an interrupt */
};

/* ---- events ---- */

static bool comes_before(const struct loop_event *a, const struct loop_event *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->replica < b->replica);
}

static void push(struct loop *loop, uint64_t time_ns, uint32_t replica)
{
	const struct loop_event event = {.time_ns = time_ns, .replica = replica};
	struct loop_event *events = loop->events;
	uint32_t at = loop->event_count++;

	for (; at > 0 && comes_before(&event, &events[(at - 1) / 2]); at = (at - 1) / 2) {
		events[at] = events[(at - 1) / 2];
	}
	events[at] = event;
	loop->replicas[replica]->has_event = true;
}

static struct loop_event pop(struct loop *loop)
{
	struct loop_event *events = loop->events;
	const struct loop_event first = events[0];
	const struct loop_event last = events[--loop->event_count];
	uint32_t at = 0;

	for (uint32_t child = 1; child < loop->event_count; child = 2 * at + 1) {
		if (child + 1 < loop->event_count &&
			comes_before(&events[child + 1], &events[child])) {
			child++;
		}
		if (!comes_before(&events[child], &last)) {
			break;
		}
		events[at] = events[child];
		at = child;
	}
	events[at] = last;
	return first;
}

static void wake(struct loop *loop, uint32_t replica)
{
	loop->woken[replica / 64] |= UINT64_C(1) << (replica % 64);
}

/* ---- a replica of a fleet ---- */

/* Ends the step of a replica whose event is due. */
static void end_step(struct loop *loop, struct replay *replay)
{
	replay->has_event = false;
	if (replay->is_stepping) {
		replay_end_step(replay);
		desk_look(loop->desk, replay->index, loop->now_ns);
	}
	wake(loop, replay->index);
}

/* Begins a replica's next step, or puts down when to look at it again. */
static enum status begin_step(struct loop *loop, struct replay *replay, struct error *error)
{
	uint64_t next_ns;

	if (replay->has_event) {
		return STATUS_OK; /* it was sent a row in mid-step */
	}
	replay->now_ns = loop->now_ns;
	replay->clock_ns = loop->clock_ns;
	TRY(replay_begin_step(replay, &next_ns, error));
	desk_look(loop->desk, replay->index, loop->now_ns);
	loop->has_failed = loop->has_failed || replay->has_failed;
	loop->has_stuck = loop->has_stuck || engine_is_stuck(replay->engine);
	if (next_ns != REPLAY_IDLE) {
		push(loop, next_ns, replay->index);
	} else if (replay->is_stepping) {
		replay->has_event = true;
		loop->flying_count++;
	}
	return STATUS_OK;
}

/* ---- the wall clock ---- */

/* Reads the clock. Steps that threads have executed end by it. */
static void read_clock(struct loop *loop)
{
	loop->clock_ns = monotonic_ns() - loop->origin_ns;
	for (uint32_t i = 0; i < loop->replica_count && loop->flying_count > 0; i++) {
		struct replay *replay = loop->replicas[i];
		if (!step_threads_is_busy(loop->threads, i) ||
			!step_threads_is_done(loop->threads, i)) {
			continue;
		}
		replay_collect_step(replay, loop->clock_ns);
		loop->flying_count--;
		loop->has_failed = loop->has_failed || replay->has_failed;
		push(loop, loop->clock_ns, i);
	}
}

/* Reads the clock at next_ns, or when a step has been executed, or after some time. */
static void await_clock(struct loop *loop, uint64_t next_ns)
{
	uint32_t seen = step_threads_executed(loop->threads);
	uint32_t flying = loop->flying_count;

	read_clock(loop);
	if (flying > loop->flying_count || next_ns <= loop->clock_ns) {
		return;
	}
	uint64_t left_ns = next_ns - loop->clock_ns;
	bool is_near = left_ns <= WATCHED_NS;
	uint64_t spin_ns = is_near ? left_ns : SHARED_WORD_SPIN_NS;
	uint64_t wait_ns = is_near ? left_ns : u64_min(left_ns - WATCHED_NS, PAUSE_NS);
	step_threads_await(loop->threads, seen, spin_ns, wait_ns);
	read_clock(loop);
}

/* A step whose replica has failed. */
static void drop_step(struct loop *loop, const struct replay *replay)
{
	struct step_time time;
	struct error ignored = {0};

	if (loop->threads != NULL && step_threads_is_busy(loop->threads, replay->index)) {
		step_threads_end(loop->threads, replay->index, &time, &ignored);
		loop->flying_count--;
	}
}

/* ---- all replicas ---- */

static void end_steps(struct loop *loop)
{
	while (loop->event_count > 0 && loop->events[0].time_ns == loop->now_ns) {
		const struct loop_event event = pop(loop);
		end_step(loop, loop->replicas[event.replica]);
	}
}

/* Takes a replica's event out of the queue. */
static void remove_event(struct loop *loop, uint32_t replica)
{
	struct loop_event kept[ROUTER_REPLICAS_MAX];
	uint32_t count = loop->event_count;

	memcpy(kept, loop->events, count * sizeof(kept[0]));
	loop->event_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (kept[i].replica != replica) {
			push(loop, kept[i].time_ns, kept[i].replica);
		}
	}
	loop->replicas[replica]->has_event = false;
}

static void fail_replica(struct loop *loop, struct replay *replay)
{
	uint32_t count;

	drop_step(loop, replay);
	struct parcel **lost = replay_restart(replay, loop->now_ns, &count);
	remove_event(loop, replay->index);
	desk_fail(loop->desk, replay->index, lost, count, loop->now_ns);
	desk_look(loop->desk, replay->index, loop->now_ns);
	free(lost);
}

static void apply_outages(struct loop *loop)
{
	struct outages *outages = &loop->desk->outages;

	while (outages_next_ns(outages) <= loop->now_ns) {
		const struct outage *outage = &outages->list[outages->next++];
		if (outage->kind == OUTAGE_FAIL) {
			fail_replica(loop, loop->replicas[outage->replica]);
		} else {
			desk_set_up(loop->desk, outage->replica, outage->kind == OUTAGE_JOIN,
				loop->now_ns);
		}
	}
}

/* Writes the rows of requests that were not sent anywhere. */
static void record_refused(struct loop *loop, struct parcel_list *list, enum request_status status)
{
	struct parcel *parcel;

	while ((parcel = parcel_list_take(list)) != NULL) {
		const struct metrics_arrival arrival = {.id = parcel->row.index,
			.session = parcel->row.session,
			.arrival_ns = parcel->row.arrival_ns,
			.prompt_tokens = parcel->row.input_length,
			.max_tokens = parcel->row.output_length};
		metrics_refuse(&loop->replicas[0]->metrics, status, &arrival, loop->now_ns);
		free(parcel);
	}
}

static enum status begin_steps(struct loop *loop, struct error *error)
{
	for (uint32_t word = 0; word * 64 < loop->replica_count; word++) {
		while (loop->woken[word] != 0 && !loop->has_failed) {
			uint32_t bit = (uint32_t)__builtin_ctzll(loop->woken[word]);
			loop->woken[word] &= loop->woken[word] - 1;
			TRY(begin_step(loop, loop->replicas[word * 64 + bit], error));
		}
	}
	return STATUS_OK;
}

/* The backlog of the fleet when its last row has arrived. */
static void note_backlog(struct loop *loop)
{
	if (loop->has_backlog || !desk_has_ended(loop->desk)) {
		return;
	}
	loop->has_backlog = true;
	for (uint32_t i = 0; i < loop->replica_count; i++) {
		struct replay *replay = loop->replicas[i];
		replay->has_backlog_at_last_arrival = true;
		replay->backlog_at_last_arrival = desk_waiting_at_replica(loop->desk, i);
	}
	loop->replicas[0]->backlog_at_last_arrival += desk_waiting_at_router(loop->desk);
}

/* When the next event is known to be; UINT64_MAX: none is. */
static uint64_t find_next(const struct loop *loop)
{
	uint64_t next_ns = loop->event_count > 0 ? loop->events[0].time_ns : UINT64_MAX;

	if (loop->desk->state == WORKLOAD_LATER && !loop->is_interrupted) {
		next_ns = u64_min(next_ns, loop->desk->next_ns);
	}
	/* Outages behind the last request change nothing, unless somebody waits for a replica. */
	bool has_more = loop->event_count + loop->flying_count > 0 || loop->desk->queue.count > 0 ||
			loop->desk->state == WORKLOAD_LATER;
	if (has_more && !loop->is_interrupted) {
		next_ns = u64_min(next_ns, outages_next_ns(&loop->desk->outages));
	}
	return next_ns;
}

/* Moves the time to the next event, or sets is_over. */
static void reach_next(struct loop *loop)
{
	uint64_t next_ns = find_next(loop);
	bool is_real = loop->threads != NULL && next_ns > loop->clock_ns;

	if (is_real && (next_ns != UINT64_MAX || loop->flying_count > 0)) {
		await_clock(loop, next_ns);
		next_ns = u64_min(find_next(loop), loop->clock_ns);
	}
	check(next_ns >= loop->now_ns);
	loop->is_over = next_ns == UINT64_MAX;
	loop->now_ns = loop->is_over ? loop->now_ns : next_ns;
}

/* The run begins with its first request, its window with the first measured one. */
static void begin_records(struct loop *loop)
{
	const struct desk *desk = loop->desk;
	struct metrics *metrics = &loop->replicas[0]->metrics;

	if (desk->has_arrival) {
		metrics_begin(metrics, desk->first_arrival_ns);
	}
	if (desk->has_measured) {
		metrics_open_window(metrics, desk->first_measured_ns);
	}
}

/* What happens at one moment. */
static enum status advance_fleet(struct loop *loop, struct error *error)
{
	end_steps(loop);
	if (!loop->is_interrupted) {
		apply_outages(loop);
		TRY(desk_send_arrived(loop->desk, loop->now_ns, loop->woken, error));
		begin_records(loop);
		record_refused(loop, &loop->desk->refused, REQUEST_REJECTED_QUEUE_FULL);
		TRY(begin_steps(loop, error));
		note_backlog(loop);
	}
	reach_next(loop);
	return STATUS_OK;
}

/* ---- a run that would never end ---- */

/* Whether rows may still arrive that no request has to end for. */
static bool awaits_rows(const struct loop *loop)
{
	if (loop->desk == NULL) {
		return loop->replicas[0]->intake.state == WORKLOAD_LATER;
	}
	return loop->desk->state == WORKLOAD_LATER ||
	       outages_next_ns(&loop->desk->outages) != UINT64_MAX;
}

/* The first replica, where each one that has work is stuck; NULL: the run goes on. */
static struct replay *find_stuck(const struct loop *loop)
{
	struct replay *first = NULL;

	for (uint32_t i = 0; i < loop->replica_count; i++) {
		const struct engine *engine = loop->replicas[i]->engine;
		if (engine_has_work(engine) && !engine_is_stuck(engine)) {
			return NULL;
		}
		first = first == NULL && engine_has_work(engine) ? loop->replicas[i] : first;
	}
	return first != NULL && awaits_rows(loop) ? NULL : first;
}

static void fail_stuck(struct replay *replay)
{
	enum { NAMED = 4 };
	bool has_gate = !replay->options.config->no_scheduler_reserve_full_isl;
	struct text names = {0};
	uint64_t requests[NAMED];
	uint32_t count;
	uint64_t period = engine_stuck_period(replay->engine, requests, NAMED, &count);

	for (uint32_t i = 0; i < count && i < NAMED; i++) {
		text_format(&names, "%s%llu", i == 0 ? "" : ", ", (unsigned long long)requests[i]);
	}
	text_add(&names, count > NAMED ? " and others" : "");
	replay->has_failed = true;
	error_set(&replay->failure, STATUS_INPUT,
		"no request makes progress: %s %s %s preempted in a cycle of %llu %s that samples "
		"no token; %smore --kv-blocks or fewer --max-num-seqs would help",
		word_of_count(count, "request", "requests"), names.bytes,
		word_of_count(count, "is", "are"), (unsigned long long)period,
		word_of_count(period, "step", "steps"),
		has_gate ? "" : "leaving out --no-scheduler-reserve-full-isl, ");
	text_deinit(&names);
}

static void end_stuck(struct loop *loop)
{
	struct replay *stuck = find_stuck(loop);

	loop->has_stuck = stuck != NULL;
	if (stuck != NULL && !loop->has_failed && !loop->is_over) {
		fail_stuck(stuck);
		loop->has_failed = true;
	}
}

/* A replica that reads the trace itself needs no queue of events: it is always its turn. */
static enum status advance_alone(struct loop *loop, struct error *error)
{
	struct replay *replay = loop->replicas[0];
	uint64_t next_ns = 0;

	loop->has_stuck = engine_is_stuck(replay->engine);
	if (replay->is_in_flight) {
		TRY(overlap_advance(replay, error));
		loop->has_failed = replay->has_failed;
		return STATUS_OK;
	}
	if (replay->is_stepping) {
		replay_end_step(replay);
	}
	loop->is_over = replay->is_interrupted;
	if (!loop->is_over) {
		TRY(replay_begin_step(replay, &next_ns, error));
		loop->is_over = next_ns == REPLAY_IDLE;
	}
	loop->has_failed = replay->has_failed;
	return STATUS_OK;
}

/* The requests that will be replayed, counted by the lines of the trace; 0: unknown, as those of a
   trace that is repeated. */
static uint64_t count_requests(const struct replay_options *options)
{
	struct error ignored = {0};
	uint64_t most = options->config->max_requests;
	uint64_t rows = options->config->loop != LOOP_OFF
				? 0
				: trace_estimate_rows(options->trace_path, &ignored);

	return rows == 0 ? most : most > 0 && most < rows ? most : rows;
}

static void show(struct loop *loop, struct progress *progress)
{
	const struct replay_options *options = &loop->replicas[0]->options;
	struct progress_state state = {.duration_ns = options->config->duration_s * 1000};

	if (!loop->has_total) {
		loop->has_total = true;
		loop->total = count_requests(options);
	}
	state.total = loop->total;
	for (uint32_t i = 0; i < loop->replica_count; i++) {
		const struct metrics *metrics = &loop->replicas[i]->metrics;
		state.ended += metrics->finished + metrics->rejected;
		state.virtual_ns = u64_max(state.virtual_ns, loop->replicas[i]->now_ns);
		state.steps += metrics->work.steps;
	}
	progress_show(progress, &state);
}

static void poll(struct loop *loop, struct progress *progress)
{
	if (progress_is_due(progress)) {
		show(loop, progress);
	}
	loop->is_interrupted = interrupt_is_pending();
	for (uint32_t i = 0; i < loop->replica_count && loop->is_interrupted; i++) {
		loop->replicas[i]->is_interrupted = true;
	}
}

static enum status run(struct loop *loop, struct progress *progress, struct error *error)
{
	uint64_t poll_interval = loop->replicas[0]->runner->is_computing ? 1 : POLL_INTERVAL;

	for (uint64_t i = 1; !loop->has_failed && !loop->is_over; i++) {
		if (i % poll_interval == 0) {
			poll(loop, progress);
		}
		TRY(loop->desk == NULL ? advance_alone(loop, error) : advance_fleet(loop, error));
		if (loop->has_stuck) {
			end_stuck(loop);
		}
	}
	return STATUS_OK;
}

/* Charges those that no engine was given for their wait up to the end of the run. */
static void charge_left(
	struct replay *replay, const struct parcel_list *list, bool is_sent, uint64_t end_ns)
{
	for (const struct parcel *parcel = list->head; parcel != NULL; parcel = parcel->next) {
		uint64_t sent_ns = is_sent ? parcel->sent_ns : end_ns;
		if (is_sent && parcel->is_awaited && parcel->fits) {
			continue; /* charged with those that wait in the engine */
		}
		metrics_wait(&replay->metrics, WAIT_ROUTER, parcel->since_ns, sent_ns);
		if (is_sent) {
			metrics_wait(&replay->metrics, WAIT_STEP, sent_ns, end_ns);
		}
	}
}

/* Requests that wait at the router, or before an engine, when the run ends. */
static void record_left(struct loop *loop)
{
	enum request_status status = loop->has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED;
	uint64_t end_ns = loop->now_ns;

	for (uint32_t i = 0; i < loop->replica_count; i++) {
		end_ns = u64_max(end_ns, loop->replicas[i]->now_ns);
	}
	loop->now_ns = end_ns;
	charge_left(loop->replicas[0], &loop->desk->queue, false, end_ns);
	record_refused(loop, &loop->desk->queue, status);
	for (uint32_t i = 0; i < loop->replica_count; i++) {
		loop->replicas[i]->now_ns = end_ns; /* the run ends for all of them */
		charge_left(loop->replicas[i], &loop->desk->berths[i].inbox, true, end_ns);
		record_refused(loop, &loop->desk->berths[i].inbox, status);
	}
}

/* Under the wall clock: a thread for each replica. */
static enum status open_threads(struct loop *loop, struct error *error)
{
	struct engine **engines = NULL;

	if (loop->desk == NULL || !loop->replicas[0]->options.is_wall_clock) {
		return STATUS_OK;
	}
	engines = memory_take(loop->replica_count, sizeof(struct engine *));
	for (uint32_t i = 0; i < loop->replica_count; i++) {
		engines[i] = loop->replicas[i]->engine;
	}
	enum status status = step_threads_open(&loop->threads, engines, loop->replica_count, error);
	for (uint32_t i = 0; i < loop->replica_count; i++) {
		loop->replicas[i]->threads = loop->threads;
	}
	free(engines);
	return status;
}

static void close_threads(struct loop *loop)
{
	step_threads_close(loop->threads);
	for (uint32_t i = 0; i < loop->replica_count; i++) {
		loop->replicas[i]->threads = NULL;
	}
}

enum status loop_run(struct replay **replicas, uint32_t replica_count, struct desk *desk,
	enum progress_mode shown, struct error *error)
{
	struct loop loop = {.replicas = replicas, .replica_count = replica_count, .desk = desk};
	struct progress progress;

	check(replica_count == 1 || desk != NULL);
	loop.events = memory_take(replica_count, sizeof(*loop.events));
	loop.woken = memory_take(u64_divide_up(replica_count, 64), sizeof(*loop.woken));
	progress_start(&progress, shown);
	enum status status = open_threads(&loop, error);
	loop.origin_ns = monotonic_ns();
	for (uint32_t i = 0; i < replica_count; i++) {
		replicas[i]->origin_ns = loop.origin_ns;
	}
	if (status == STATUS_OK) {
		status = run(&loop, &progress, error);
	}
	close_threads(&loop);
	progress_end(&progress);
	if (desk != NULL) {
		record_left(&loop);
	}
	free(loop.events);
	free(loop.woken);
	return status;
}
