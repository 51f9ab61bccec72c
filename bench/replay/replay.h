#ifndef BENCH_REPLAY_REPLAY_H
#define BENCH_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/metrics.h"
#include "bench/record/run_outcome.h"
#include "bench/replay/intake.h"
#include "bench/options/progress.h"
#include "bench/replay/replay_config.h"
#include "bench/record/kernel_times.h"
#include "bench/record/perfetto.h"
#include "engine/base/table.h"
#include "engine/engine.h"

/* The replay loop. It keeps the clock, an integer number of nanoseconds up to CLOCK_NS_MAX, 292
   years:

       now ─► rows with arrival <= now go to the engine ─► schedule ─► execute ─► postprocess
        ▲                                                                             │
        └────────────── now + elapsed; or, with nothing to do, ◄──────────────────────┘
                        the next arrival

   bench/replay/intake.h brings rows to the engine, replay_step.h records what a step did, and
   overlap.h launches or decides a step before the preceding one has ended. */

struct replay_options {
	const struct replay_config *config;
	const struct workload_options *workload;
	const char *trace_path;
	bool is_checking; /* engine_check() after every step */
	enum progress_mode progress;
	bool overlaps;	    /* launches steps ahead, where the runner can */
	bool is_wall_clock; /* no step starts before its real time, counted from replay_run() */
	struct slo slo;
	uint32_t vocab_size; /* token ids of the replay are below it */

	/* of a replica of a fleet, else NULL, 0 and NULL; borrowed */
	struct desk *desk;
	uint32_t replica;
	const struct replay *first; /* replica 0, unless it is that */
};

/* What records a replay; borrowed. NULL: not recorded. */
struct replay_sinks {
	struct table_writer *requests; /* requests.tsv */
	struct table_writer *steps;    /* steps.tsv */
	struct perfetto *timeline;
	struct kernel_times *kernel_times;
};

/* A step that is decided, and has not started (bench/replay/overlap.h). */
struct ahead_step {
	bool is_decided;
	struct step_time time; /* if it was executed, not launched */
	uint64_t waiting;      /* when it was decided */
};

struct replay {
	struct replay_options options;
	uint32_t index; /* among the replicas of a fleet */
	struct engine *engine;
	const struct runner *runner; /* borrowed */
	struct intake intake;
	struct metrics metrics;
	struct replay_sinks sinks;

	/* the step in flight, if there is one (bench/replay/overlap.h) */
	bool launches_ahead; /* steps are launched and collected, not executed */
	bool is_in_flight;
	/* of the step in flight, while the next one is decided */
	struct step_counts kept_counts;
	struct event_list kept_events;

	/* the step that is being executed (bench/replay/loop.h) */
	bool is_stepping;
	bool has_event;	       /* the loop will come back to this replica */
	bool prices_ahead;     /* steps that could be launched ahead are priced so */
	bool is_ahead;	       /* the next one is */
	struct step_time time; /* of the step */

	/* asynchronous scheduling */
	bool overlaps;	     /* the runner takes a step before the preceding one has ended */
	bool launches_async; /* steps are launched and collected, not executed */
	struct ahead_step ahead;

	uint64_t origin_ns; /* of the wall clock */

	/* of a fleet under the wall clock (bench/replay/loop.h) */
	struct step_threads *threads; /* borrowed; they execute steps. NULL: the caller does */
	uint64_t clock_ns;	      /* the clock when the loop has read it last */
	uint64_t wanted_ns; /* when the next step could have begun; UINT64_MAX: none could */

	struct histogram late;	   /* how late steps started; of the wall clock only */
	struct histogram gpu_idle; /* between two decode steps; zeroed where it is not measured */
	bool was_decode;	   /* the latest step */

	/* outcome */
	bool is_interrupted;
	bool has_failed;
	struct error failure; /* why, when it has */
	uint64_t now_ns;
	uint64_t waiting; /* in the latest step, the backlog included */
	bool has_backlog_at_last_arrival;
	uint64_t backlog_at_last_arrival; /* if the run ended earlier: in its last step */
};

/* engine_config is complete; the runner is borrowed and outlives the replay. The trace must be a
   file that can be read twice. */
enum status replay_open(struct replay *replay, const struct replay_options *options,
	const struct engine_config *engine_config, const struct runner *runner,
	struct error *error);

/* Between opening and running. */
void replay_set_sinks(struct replay *replay, const struct replay_sinks *sinks);

/* Runs to the end of the trace, to an interrupt, or to a step that fails. The caller must have
   blocked SIGINT and SIGTERM, which are polled. An interrupt or a failed step still leaves results
   and returns STATUS_OK, with is_interrupted or has_failed set. Only what makes a result
   impossible, such as an invalid row, is an error. */
enum status replay_run(struct replay *replay, struct error *error);

/* ---- for bench/replay/loop.h ---- */

#define REPLAY_IDLE UINT64_MAX

/* Adds what has arrived and begins the next step, if there is work. *next_ns: when to come back to
   the replica: at the end of its step or at the next arrival, or REPLAY_IDLE. Where threads execute
   steps, also REPLAY_IDLE with is_stepping set: when replay_collect_step() would not wait. */
enum status replay_begin_step(struct replay *replay, uint64_t *next_ns, struct error *error);

/* Takes the step that the replica's thread has executed, or is executing: it ends at end_ns. */
void replay_collect_step(struct replay *replay, uint64_t end_ns);

/* Ends the step that was begun. */
void replay_end_step(struct replay *replay);

/* A replica of a fleet fails at now_ns: drops its step, its sequences and its cache. Returns the
   parcels of (*count) requests that it had, an array for the caller to free; its inbox is left to
   the desk. */
struct parcel **replay_restart(struct replay *replay, uint64_t now_ns, uint32_t *count);

/* After the last step: reads the rest of the trace, and ends the records. */
enum status replay_finish(struct replay *replay, struct error *error);

/* The workload that its rows come from. */
static inline struct workload *replay_workload(const struct replay *replay)
{
	return replay->intake.options.desk != NULL ? replay->intake.options.desk->workload
						   : replay->intake.workload;
}

/* Fills in the run's outcome, except the trace's name and the facts of the runner. */
void replay_outcome(const struct replay *replay, struct run_outcome *outcome);

void replay_close(struct replay *replay);

#endif
