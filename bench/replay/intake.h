#ifndef BENCH_REPLAY_INTAKE_H
#define BENCH_REPLAY_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/metrics.h"
#include "bench/fleet/desk.h"
#include "engine/engine.h"
#include "workloads/block_keys.h"
#include "workloads/workload.h"

/* Turns rows of a trace into requests of the engine, and reports to the workload which have left.

       trace ─► workload ──rows that have arrived──► engine
                    ▲                                  │
                    └──────── at the step's end ◄──────┘

   A replica of a fleet gets its rows from the fleet's desk instead, which reads the trace and has
   sent them here (bench/fleet/desk.h).

   Arrivals are rows that were added to the engine, departures are requests that finished or were
   rejected; arrivals are kept until they are recorded, departures until they are reported to the
   workload.

   The trace is read as time advances. At most engine_max_waiting() sequences wait in the engine;
   requests that have arrived beyond that are the backlog. The backlog is only counted, so it takes
   no memory: the arrival counter is a second workload over the same file, which is given the same
   departures and is read regardless of room. */

struct intake_options {
	const char *trace_path;
	const struct workload_options *workload; /* borrowed */
	uint64_t seed;				 /* of token ids */
	float temperature;
	bool is_forced;	     /* the tokens of all completions are fixed in advance, not sampled */
	bool needs_tokens;   /* the runner reads them; else the keys of blocks suffice */
	uint32_t vocab_size; /* token ids are below it */
	struct desk *desk;   /* NULL: rows come from the trace at trace_path; borrowed */
	uint32_t replica;    /* of the desk */
};

/* A request of the engine, for what follows when it leaves. */
struct departure {
	uint64_t turn_index;
	struct parcel *parcel; /* NULL without a desk */
};

/* A row that was given to the engine and is not recorded yet. */
struct arrival {
	struct metrics_arrival row;
	char *session; /* owned; NULL: none */
	struct departure departure;
	enum fit fit;
	uint32_t slot; /* of its sequence, if FIT_OK */
};

struct intake {
	struct intake_options options;
	struct engine *engine; /* borrowed */
	uint32_t max_waiting;  /* sequences that may wait in the engine */

	struct workload *workload; /* NULL with a desk */
	enum workload_state state; /* the workload's latest answer */
	uint64_t next_ns;	   /* of WORKLOAD_LATER */
	bool always_has_room;	   /* a closed loop with at most max_waiting requests */
	uint32_t room;		   /* rows that may still be added before the next step */
	uint64_t accepted_count;   /* rows that the engine queued */
	bool has_prompt_ids;	   /* a row says what its prompt shares with others */

	struct workload *counter; /* the arrival counter; NULL until it is needed */
	enum workload_state counter_state;
	uint64_t arrived_count; /* rows that have arrived and fit the engine */
	/* (awaited_count) rows that have arrived and that the engine has no room for, of which the
	   latest count was the first; the caller empties the list. Without tokens and session. */
	struct metrics_arrival *awaited;
	size_t awaited_count, awaited_capacity;

	struct arrival *arrivals; /* (arrival_count) in order */
	size_t arrival_count, arrival_capacity;
	struct departure *departures; /* (departure_count) of rows that left in this step */
	size_t departure_count, departure_capacity;
	struct departure *of_slot; /* (slot count) of the row in a sequence's slot */

	struct token_source tokens;
	struct block_keys keys; /* instead of tokens, if nothing reads them */
	int32_t *prompt;	/* (prompt_capacity) */
	int32_t *forced;	/* (forced_capacity) */
	size_t prompt_capacity, forced_capacity;
};

/* The trace must be a file that can be read twice (input_spool()). Must be closed, also after a
   failure. */
enum status intake_open(struct intake *intake, const struct intake_options *options,
	struct engine *engine, struct error *error);

/* Accepts a zeroed struct. */
void intake_close(struct intake *intake);

/* Updates the room for the rows that arrive between two steps. */
static inline void intake_count_room(struct intake *intake)
{
	uint32_t waiting = engine_waiting_count(intake->engine);

	intake->room = intake->always_has_room	       ? UINT32_MAX
		       : waiting < intake->max_waiting ? intake->max_waiting - waiting
						       : 0;
}

/* Adds the rows that have arrived by now_ns to the engine, while there is room. */
enum status intake_add_arrived(struct intake *intake, uint64_t now_ns, struct error *error);

/* Drops the arrivals, after they were recorded. */
void intake_clear_arrivals(struct intake *intake);

/* The times of a parcel, for an arrival. */
void intake_add_times(struct metrics_arrival *arrival, const struct parcel *parcel);

void intake_add_departure(struct intake *intake, const struct departure *departure);
/* With a desk: tells it whose prompts were computed by a step with these events. */
void intake_report_first_tokens(
	struct intake *intake, const struct event_list *events, uint64_t now_ns);

void intake_report_departures(struct intake *intake, uint64_t now_ns);

/* Counts the requests that have arrived by now_ns and that the engine has no room for yet. Rows
   that it will reject do not count. */
enum status intake_count_backlog(struct intake *intake, uint64_t now_ns, uint64_t *backlog,
	bool *all_have_arrived, struct error *error);

/* Without a desk, and when no step follows: takes the next row that has arrived by now_ns and that
   the engine was not given; false: there is none. Its session is valid until the next call. */
enum status intake_take_backlog(struct intake *intake, uint64_t now_ns,
	struct metrics_arrival *arrival, enum fit *fit, bool *is_row, struct error *error);

#endif
