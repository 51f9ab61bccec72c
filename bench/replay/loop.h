#ifndef BENCH_REPLAY_LOOP_H
#define BENCH_REPLAY_LOOP_H

#include <stdint.h>

#include "bench/fleet/desk.h"
#include "bench/replay/replay.h"
#include "bench/replay/step_threads.h"

/* The loop that owns time. Events come in the order of time; those of one time by kind, and ends
   and begins of steps by replica:

       ends of steps ─► replicas fail, drain or join ─► arrivals are sent to replicas
                     ─► replicas with work begin their next steps

   One replica reads its rows from the trace itself, between two steps. Several get them from a
   desk, which must know what each replica does at the moment of every arrival; so their steps are
   decided when they begin and postprocessed when they end.

   Under the wall clock (--clock wall) a thread for each replica executes its steps, so they take
   real time side by side. The loop reads the clock: steps seen to be executed end then, and steps
   begin only then. What has happened since the reading before is gone through in the order above,
   each event at its own time, before any step begins. So the recorded starts and durations are
   enough to have a tape repeat every decision. A replica that fails in mid-step makes all replicas
   wait until its step has been executed. */

struct loop_event {
	uint64_t time_ns;
	uint32_t replica;
};

struct loop {
	struct replay **replicas; /* (replica_count), borrowed */
	uint32_t replica_count;
	struct desk *desk;	   /* borrowed; NULL: one replica */
	struct loop_event *events; /* (event_count) a heap: one of each replica at most */
	uint32_t event_count;
	uint64_t *woken; /* a bit for each replica that may begin a step */
	uint64_t now_ns;

	/* of several replicas under the wall clock */
	struct step_threads *threads; /* NULL: steps end by their durations */
	uint64_t origin_ns, clock_ns; /* what 0 is by the clock; the latest reading, less that */
	uint32_t flying_count;	      /* steps that threads execute */

	bool is_over, is_interrupted, has_failed;
	bool has_stuck; /* a replica's steps repeat without end (engine/livelock.h) */
	bool has_total;
	uint64_t total;	  /* requests, for the progress line; 0: unknown */
	bool has_backlog; /* the desk has sent the last row */
};

/* Runs to the end of the trace, to an interrupt, or to a step that fails; as replay_run(). */
enum status loop_run(struct replay **replicas, uint32_t replica_count, struct desk *desk,
	enum progress_mode progress, struct error *error);

#endif
