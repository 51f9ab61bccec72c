#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/metrics.h"
#include "bench/replay_config.h"
#include "bench/table_writer.h"
#include "engine/engine.h"
#include "workloads/tokens.h"
#include "workloads/trace.h"

/* The replay loop. It owns time, an integer number of nanoseconds:

       now ─► rows with arrival <= now go to the engine ─► schedule ─► execute ─► postprocess
	▲                                                                  │
	└───────────── now + elapsed; when nothing is left to do, ◄────────┘
		       now = the next arrival

   Arrivals are the trace's times over --speedup (open loop), or the ends of steps in which a
   request finished (closed loop). The trace is read as time goes on; the engine is handed at most
   max_num_seqs waiting sequences, and what has arrived beyond that is counted by a second reader of
   the same file (the scout), so a backlog costs no memory. */

struct replay_options {
	const struct replay_config *config;
	const char *trace_path;
	bool is_checking;     /* engine_check() after every step */
	bool shows_progress;  /* a line on stderr, rewritten */
	uint64_t slo_ttft_ns; /* 0: no limit */
	uint64_t slo_tpot_ns;
	uint32_t vocab_size; /* token ids of the replay are below it */
};

struct closed_loop_credit {
	uint64_t arrival_ns;
	uint64_t count; /* requests that may enter at that time */
};

struct replay {
	struct replay_options options;
	struct engine engine;
	struct metrics metrics;
	struct table_writer *steps; /* borrowed: steps.tsv, or NULL */

	struct trace *trace;
	struct trace_row row; /* the next one to be handed over, if has_row */
	bool has_row;
	uint64_t handed_count; /* rows handed over, rejected ones included */
	uint64_t handed_fit_count;

	struct trace *scout; /* opened when a backlog is first seen */
	struct trace_row scout_row;
	bool scout_has_row;
	uint64_t scout_fit_count; /* rows that have arrived and fit the engine */

	struct closed_loop_credit *credits; /* ring */
	uint32_t credit_capacity;	    /* a power of two */
	uint64_t credit_head, credit_tail;
	uint64_t credit_count; /* requests in the ring */

	struct token_source tokens;
	int32_t *prompt; /* (prompt_capacity) */
	int32_t *forced; /* (forced_capacity) */
	size_t prompt_capacity, forced_capacity;

	/* how it went */
	bool is_interrupted;
	bool has_failed;
	struct error failure; /* why, when it has */
	uint64_t now_ns;
	bool all_have_arrived;
	bool has_backlog_at_last_arrival;
	uint64_t backlog_at_last_arrival;
};

/* engine_config is complete; runner and tables are borrowed and outlive the replay. */
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
