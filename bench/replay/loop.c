#include "bench/replay/loop.h"

#include "bench/replay/overlap.h"
#include "bench/options/progress.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"

#include <stdlib.h>

enum {
	POLL_INTERVAL =
		256, /* rounds of the loop between looks at the clock, which take longer than
				pricing a step */
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
		desk_look(loop->desk, replay->index);
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
	TRY(replay_begin_step(replay, &next_ns, error));
	desk_look(loop->desk, replay->index);
	loop->has_failed = loop->has_failed || replay->has_failed;
	if (next_ns != REPLAY_IDLE) {
		push(loop, next_ns, replay->index);
	}
	return STATUS_OK;
}

/* ---- all replicas ---- */

static void end_steps(struct loop *loop)
{
	while (loop->event_count > 0 && loop->events[0].time_ns == loop->now_ns) {
		const struct loop_event event = pop(loop);
		end_step(loop, loop->replicas[event.replica]);
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
		replay->backlog_at_last_arrival = loop->desk->views[i].waiting;
	}
}

/* Moves the clock to the next event, or sets is_over. */
static void reach_next(struct loop *loop)
{
	uint64_t next_ns = loop->event_count > 0 ? loop->events[0].time_ns : UINT64_MAX;

	if (loop->desk->state == WORKLOAD_LATER && !loop->is_interrupted) {
		next_ns = u64_min(next_ns, loop->desk->next_ns);
	}
	check(next_ns >= loop->now_ns);
	loop->is_over = next_ns == UINT64_MAX;
	loop->now_ns = loop->is_over ? loop->now_ns : next_ns;
}

/* What happens at one moment. */
static enum status advance_fleet(struct loop *loop, struct error *error)
{
	end_steps(loop);
	if (!loop->is_interrupted) {
		TRY(desk_send_arrived(loop->desk, loop->now_ns, loop->woken, error));
		TRY(begin_steps(loop, error));
		note_backlog(loop);
	}
	reach_next(loop);
	return STATUS_OK;
}

/* A replica that reads the trace itself needs no queue of events: it is always its turn. */
static enum status advance_alone(struct loop *loop, struct error *error)
{
	struct replay *replay = loop->replicas[0];
	uint64_t next_ns = 0;

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

static void show(struct loop *loop, struct progress *progress)
{
	uint64_t finished = 0, steps = 0, now_ns = 0;

	for (uint32_t i = 0; i < loop->replica_count; i++) {
		finished += loop->replicas[i]->metrics.finished;
		now_ns = u64_max(now_ns, loop->replicas[i]->now_ns);
		steps += loop->replicas[i]->metrics.steps;
	}
	progress_show(progress, finished, now_ns, steps);
}

static void poll(struct loop *loop, struct progress *progress)
{
	if (progress->is_shown) {
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
	}
	return STATUS_OK;
}

enum status loop_run(struct replay **replicas, uint32_t replica_count, struct desk *desk,
	bool shows_progress, struct error *error)
{
	struct loop loop = {.replicas = replicas, .replica_count = replica_count, .desk = desk};
	struct progress progress;

	check(replica_count == 1 || desk != NULL);
	loop.events = memory_take(replica_count, sizeof(*loop.events));
	loop.woken = memory_take(u64_divide_up(replica_count, 64), sizeof(*loop.woken));
	progress_start(&progress, shows_progress);
	for (uint32_t i = 0; i < replica_count; i++) {
		replicas[i]->origin_ns = monotonic_ns();
	}
	enum status status = run(&loop, &progress, error);
	progress_end(&progress);
	free(loop.events);
	free(loop.woken);
	return status;
}
