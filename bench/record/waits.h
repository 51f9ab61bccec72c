#ifndef BENCH_RECORD_WAITS_H
#define BENCH_RECORD_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/integer.h"
#include "engine/wait_cause.h"

/* Charges each nanosecond between a request's arrival and its first admission to one cause:

       arrival ──WAIT_STEP──► next decision ──the cause of each step──► the step that admits it

   Time between two steps, which only a wall clock has, is WAIT_STEP too. The causes of all admitted
   requests add up to the sum of their queue times exactly; a request that is never admitted is
   charged up to the end of the latest step. Requests are only counted, so this takes no memory. */

struct waits {
	u128 ns[WAIT_CAUSE_COUNT]; /* of measured requests, summed */
	uint64_t count;		   /* requests that have arrived and were never admitted */
	uint64_t measured_count;
	uint64_t charged_ns; /* those requests are charged up to this time */
};

/* Charges the time up to now_ns, in which no step ran. */
void waits_reach(struct waits *waits, uint64_t now_ns);

/* A request that arrived at arrival_ns and that the decision at now_ns is the first to see. */
void waits_arrive(struct waits *waits, bool is_measured, uint64_t arrival_ns, uint64_t now_ns);

/* A request is admitted for the first time, by the decision at charged_ns. */
void waits_admit(struct waits *waits, bool is_measured);

/* Charges a step from charged_ns to end_ns to the requests that its decision did not admit. */
void waits_step(struct waits *waits, enum wait_cause cause, uint64_t end_ns);

#endif
