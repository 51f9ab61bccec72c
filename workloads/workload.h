#ifndef WORKLOADS_WORKLOAD_H
#define WORKLOADS_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/generate/arrivals.h"
#include "workloads/ties.h"
#include "workloads/trace/trace.h"
#include "workloads/trace_loop.h"

/* A trace and the rule by which its rows arrive. The caller keeps the clock. It asks for the rows
   that have arrived by a time, and reports the rows that have finished:

       trace times      each row at its timestamp, over the speedup             (open loop);
                        ties may be spread inside the tick of the clock that recorded them
       profile          each row at a drawn time: Poisson, gamma, constant, a ramp
       concurrency N    N rows at time 0, another one at each finish            (closed loop)
       closed sessions  like the first two, and a turn does not arrive before the turn that it
                        follows has finished and its delay has passed

   With closed sessions, a profile determines only when sessions begin. A later turn arrives a delay
   after the preceding turn has finished. Where the trace gives no delay, it is the gap between the
   two turns' timestamps.

   A row that would arrive when no clock can be (a drawn time beyond 2^62 ns, a turn beyond
   CLOCK_NS_MAX) is a STATUS_INPUT that names its line: a run never leaves rows out in silence. With
   duration_ns such rows are dropped like all others behind the end.

   Rows come in order of arrival, ties in the order of the file. Memory holds one row, and the rows
   that are due but wait for a turn to finish. With closed sessions under a profile it may hold all
   rows, since a turn may be due long before rows that precede it in the file. A resampled trace is
   in memory. */

enum workload_sessions { SESSIONS_OPEN, SESSIONS_CLOSED };

struct workload_options {
	struct trace_options trace;
	enum loop_mode loop; /* but LOOP_OFF: with a duration or max_requests, the latter for closed
				sessions under a profile, and without spreads_ties */
	enum workload_sessions sessions;
	bool spreads_ties; /* rows that share a time get different ones (workloads/ties.h) */
	uint64_t speedup_millionths;	       /* trace times are divided by it; 10^6: unchanged */
	uint64_t concurrency;		       /* 0: open loop */
	const struct arrival_profile *profile; /* NULL: the trace's times */
	uint64_t seed;			       /* of the profile's draws, and of spread times */
	uint64_t duration_ns;	     /* rows at or after this time are dropped; 0: no end */
	uint64_t max_requests;	     /* rows read from the file at most; 0: all */
	uint64_t resample_seed;	     /* draws the rows from the file's (workloads/resample.h); 0:
					does not; needs LOOP_OFF */
	uint64_t resample_window_ns; /* of these draws; 0: a share of the trace */
};

struct workload;

enum status workload_open(struct workload **out, const char *path,
	const struct workload_options *options, struct error *error);
void workload_close(struct workload *workload);

enum workload_state {
	WORKLOAD_ROW,	/* row is filled; its arrival_ns is <= now_ns */
	WORKLOAD_LATER, /* nothing has arrived; nothing will before *next_ns, which is > now_ns,
			   unless a row finishes earlier */
	WORKLOAD_WAITS, /* nothing will arrive until some row finishes */
	WORKLOAD_END,	/* nothing will ever arrive */
};

/* The next row that has arrived by now_ns. now_ns never decreases. Pointers of the row are valid
   until the next call. A row's arrival_ns is a time on the caller's clock, not the trace's
   timestamp. */
enum status workload_next(struct workload *workload, uint64_t now_ns, struct trace_row *row,
	enum workload_state *state, uint64_t *next_ns, struct error *error);

/* Counts the rows that a run of the workload will have, in one reading of the trace. Not for a
   closed workload with a duration, whose rows depend on when requests finish. */
enum status workload_count(const char *path, const struct workload_options *options,
	uint64_t *count, struct error *error);

/* Whether rows wait for finishes at all; if not, workload_finish() need not be called. */
bool workload_is_closed(const struct workload *workload);

/* A row with this turn_index (NO_TURN included) has finished, or was rejected, at now_ns. */
void workload_finish(struct workload *workload, uint64_t turn_index, uint64_t now_ns);

/* What the times of the rows read so far have in common, those of repetitions left out. */
const struct tick_finder *workload_ticks(const struct workload *workload);

/* Whether the trace ended although the duration or max_requests asks for more. Behind WORKLOAD_END.
 */
bool workload_ran_out(const struct workload *workload);

/* The trace below, for its block size, format and hash. */
struct trace *workload_trace(struct workload *workload);

#endif
