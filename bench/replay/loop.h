#ifndef BENCH_REPLAY_LOOP_H
#define BENCH_REPLAY_LOOP_H

#include <stdint.h>

#include "bench/fleet/desk.h"
#include "bench/replay/replay.h"

/* The loop that owns time: the events of one or more replicas in the order of (time, kind,
   replica).

       ends of steps ─► arrivals are sent to replicas ─► replicas with work begin their next steps

   One replica reads its rows from the trace itself, between two steps. Several get them from a
   desk, which must know what each replica does at the moment of every arrival; so their steps are
   decided when they begin and postprocessed when they end. */

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
