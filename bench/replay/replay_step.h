#ifndef BENCH_REPLAY_REPLAY_STEP_H
#define BENCH_REPLAY_REPLAY_STEP_H

#include "bench/replay/replay.h"
#include "engine/base/clock.h"

/* The parts of a replayed step. bench/replay/replay.c calls them for executed steps, overlap.c in
   another order for steps launched ahead. */

/* Adds the rows that have arrived by now_ns to the engine, and records them. */
enum status replay_add_arrived(struct replay *replay, struct error *error);

/* Records the arrivals that were added to the engine. Rejected rows depart at once. */
void replay_record_arrivals(struct replay *replay);

/* Counts the waiting requests of the step that was just scheduled: those in the engine, and all
   that arrived before it. */
enum status replay_count_waiting(struct replay *replay, struct error *error);

/* Ends the step in the engine: finished requests depart. */
void replay_postprocess(struct replay *replay);

/* The next step to be recorded would end beyond CLOCK_NS_MAX: the times that the runner returns are
   not those of the model. STATUS_INPUT. */
enum status replay_refuse_time(
	const struct replay *replay, const struct step_time *time, struct error *error);

static inline enum status replay_check_time(
	const struct replay *replay, const struct step_time *time, struct error *error)
{
	return time->elapsed_ns <= CLOCK_NS_MAX - replay->now_ns
		       ? STATUS_OK
		       : replay_refuse_time(replay, time, error);
}

/* Records a step that began at now_ns, and moves the clock to its end. */
void replay_record(struct replay *replay, const struct step_decisions *decisions,
	const struct step_time *time);

#endif
