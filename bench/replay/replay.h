#ifndef BENCH_REPLAY_REPLAY_H
#define BENCH_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/metrics.h"
#include "bench/replay/replay_config.h"
#include "bench/record/kernel_times.h"
#include "bench/record/table_writer.h"
#include "bench/record/perfetto.h"
#include "engine/engine.h"
#include "workloads/tokens.h"
#include "workloads/trace/trace.h"
#include "workloads/workload.h"

/* The replay loop. It owns time, an integer number of nanoseconds:

       now ─► rows with arrival <= now go to the engine ─► schedule ─► execute ─► postprocess
	▲                                                                  │
	└───────────── now + elapsed; when nothing is left to do, ◄────────┘
		       now = the next arrival

   When rows arrive is the workload's business (workloads/workload.h); what finished is reported to
   it at the step's end. The trace is read as time goes on, and the engine is handed at most
   max_num_seqs waiting sequences. What has arrived beyond that is counted by the scout, a second
   workload over the same file that is told the same and always asked for everything, so a backlog
   costs no memory.

   A step is launched before the one before it has ended where that one's duration decides nothing
   (see enum newcomers in bench/replay/replay.c). The decisions are the same as without, and so is
   whatever is written but the durations themselves. A runner's start() is not asked about a step
   launched so. */

struct replay_options {
	const struct replay_config *config;
	const struct workload_options *workload;
	const char *trace_path;
	bool is_checking;    /* engine_check() after every step */
	bool shows_progress; /* a line on stderr, rewritten */
	bool overlaps;	     /* steps, where the runner can */
	bool is_wall_clock;  /* starts no step before its real time, counted from replay_run() on */
	uint64_t slo_ttft_ns; /* 0: no limit */
	uint64_t slo_tpot_ns;
	uint32_t vocab_size; /* token ids of the replay are below it */
};

struct handed;

struct replay {
	struct replay_options options;
	struct engine *engine;
	const struct runner *runner; /* borrowed */
	struct metrics metrics;
	struct table_writer *steps; /* borrowed: steps.tsv, or NULL */

	/* borrowed, may be set between opening and running; NULL: not wanted */
	struct perfetto *timeline;
	struct kernel_times *kernel_times;

	struct workload *workload;
	enum workload_state state; /* what the workload said last */
	uint64_t next_ns;	   /* of WORKLOAD_LATER */
	uint32_t room;		   /* rows that the engine may yet be handed before a step */
	uint64_t handed_fit_count; /* rows handed over that the engine took */
	struct handed *handed;	   /* rows handed over that the metrics have not been told of */
	size_t handed_count, handed_capacity;

	struct workload *scout; /* NULL until a backlog is first seen, if it can catch up then */
	enum workload_state scout_state;
	uint64_t scout_fit_count; /* rows that have arrived and fit the engine */

	uint64_t *turn_of_slot; /* (pool capacity) turn_index of the row in a sequence's slot */
	uint64_t *left;		/* turn_index of rows that left in this step, not reported yet */
	size_t left_count, left_capacity;

	struct token_source tokens;
	int32_t *prompt; /* (prompt_capacity) */
	int32_t *forced; /* (forced_capacity) */
	size_t prompt_capacity, forced_capacity;

	/* the step in flight, if there is one; what it decided is kept when the next is decided */
	bool runs_ahead; /* where it can: steps are launched, not executed */
	bool is_in_flight;
	struct event_list kept_events;

	uint64_t origin_ns;	   /* of the wall clock */
	struct histogram late;	   /* how late steps started, by the wall clock */
	struct histogram gpu_idle; /* between two decode steps, where it is measured */
	bool was_decode;	   /* the latest step */

	/* how it went */
	bool is_interrupted;
	bool has_failed;
	struct error failure; /* why, when it has */
	uint64_t now_ns;
	uint64_t waiting; /* in the latest step, the backlog included */
	bool all_have_arrived;
	bool has_backlog_at_last_arrival;
	uint64_t backlog_at_last_arrival; /* of a run cut short before: in its last step */
};

/* engine_config is complete; runner and tables are borrowed and outlive the replay. The trace must
   be a file that can be read twice. */
enum status replay_open(struct replay *replay, const struct replay_options *options,
	const struct engine_config *engine_config, const struct runner *runner,
	struct table_writer *requests, struct table_writer *steps, struct error *error);

/* Runs to the end of the trace, to an interrupt (SIGINT or SIGTERM, which the caller has blocked:
   they are polled for), or to a step that fails. The last two still leave results, told apart by
   is_interrupted and has_failed; only what makes a result impossible, such as a bad row, is an
   error. */
enum status replay_run(struct replay *replay, struct error *error);

void replay_close(struct replay *replay);

#endif
