#ifndef BENCH_REPLAY_INTAKE_H
#define BENCH_REPLAY_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/metrics.h"
#include "engine/engine.h"
#include "workloads/tokens.h"
#include "workloads/workload.h"

/* How rows of a trace become requests of the engine, and how the workload learns who left.

       trace ─► workload ──rows that have arrived──► engine
                    ▲                                  │
                    └──────── at the step's end ◄──────┘

   Arrivals are rows that were added to the engine, departures are requests that finished or were
   rejected; both are kept until the records, or the workload, have heard of them.

   The trace is read as time goes on, and the engine holds at most max_num_seqs waiting sequences.
   What has arrived beyond that is the backlog. It is only counted: the arrival counter is a second
   workload over the same file, which learns the same departures and is read without regard to room.
   So a backlog costs no memory. */

struct intake_options {
	const char *trace_path;
	const struct workload_options *workload; /* borrowed */
	uint64_t seed;				 /* of token ids */
	float temperature;
	bool is_forced;	     /* the tokens of all completions are given, not sampled */
	uint32_t vocab_size; /* token ids are below it */
};

/* A row that was given to the engine, until the records hear of it. */
struct arrival {
	struct metrics_arrival row;
	char *session; /* owned; NULL: none */
	uint64_t turn_index;
	enum fit fit;
	uint32_t slot; /* FIT_OK: of its sequence */
};

struct intake {
	struct intake_options options;
	struct engine *engine; /* borrowed */
	uint32_t max_waiting;  /* sequences that may wait in the engine */

	struct workload *workload;
	enum workload_state state; /* the workload's latest answer */
	uint64_t next_ns;	   /* of WORKLOAD_LATER */
	bool always_has_room;	   /* a closed loop of no more requests than may wait */
	uint32_t room;		   /* rows that the engine may still be given before a step */
	uint64_t accepted_count;   /* rows that the engine queued */

	struct workload *counter; /* the arrival counter; NULL until it is needed */
	enum workload_state counter_state;
	uint64_t arrived_count; /* rows that have arrived and fit the engine */

	struct arrival *arrivals; /* (arrival_count) in order */
	size_t arrival_count, arrival_capacity;
	uint64_t *departures; /* (departure_count) turn_index of rows that left in this step */
	size_t departure_count, departure_capacity;
	uint64_t *turn_of_slot; /* (slot count) turn_index of the row in a sequence's slot */

	struct token_source tokens;
	int32_t *prompt; /* (prompt_capacity) */
	int32_t *forced; /* (forced_capacity) */
	size_t prompt_capacity, forced_capacity;
};

/* The trace must be a file that can be read twice. Leaves something to close in any case. */
enum status intake_open(struct intake *intake, const struct intake_options *options,
	struct engine *engine, struct error *error);

/* Accepts a zeroed one. */
void intake_close(struct intake *intake);

/* Counts the room for the rows that arrive between two steps. */
static inline void intake_count_room(struct intake *intake)
{
	uint32_t waiting = engine_waiting_count(intake->engine);

	intake->room = intake->always_has_room	       ? UINT32_MAX
		       : waiting < intake->max_waiting ? intake->max_waiting - waiting
						       : 0;
}

/* Gives the engine the rows that have arrived by now_ns, while there is room. */
enum status intake_add_arrived(struct intake *intake, uint64_t now_ns, struct error *error);

/* Forgets the arrivals, once the records have them. */
void intake_clear_arrivals(struct intake *intake);

void intake_add_departure(struct intake *intake, uint64_t turn_index);
void intake_report_departures(struct intake *intake, uint64_t now_ns);

/* Requests that have arrived by now_ns and that the engine has no room for yet; rows that it will
   reject do not count. */
enum status intake_count_backlog(struct intake *intake, uint64_t now_ns, uint64_t *backlog,
	bool *all_have_arrived, struct error *error);

#endif
