#ifndef BENCH_RECORD_WAITS_H
#define BENCH_RECORD_WAITS_H

#include <stdint.h>

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/wait_cause.h"

/* Charges each nanosecond between a request's arrival and its first admission to one cause:

       arrival ──WAIT_ROUTER──► sent to a replica ──WAIT_STEP──► next decision
               ──the cause of each step──► the step that admits it

   Without a fleet a request is with its replica when it arrives. Time between two steps, which only
   a wall clock has, is WAIT_STEP too. A request whose replica fails starts anew at the router: the
   time that its attempt ran is WAIT_LOST, what it waited before stays charged.

   The causes of all admitted requests add up to the sum of their queue times exactly; a request
   that is never admitted is charged up to the end of the latest step. Requests are only counted, so
   this takes no memory. */

struct waits {
	u128 ns[WAIT_CAUSE_COUNT]; /* summed over requests */
	uint64_t count;		   /* requests that have arrived and were never admitted */
	uint64_t charged_ns;	   /* those requests are charged up to this time */
};

/* Charges the time up to until_ns to the requests that are waiting: a step that its decision did
   not admit them to, or, as WAIT_STEP, time in which no step ran. A request that arrives is charged
   apart for the time before, and counted from now on. */
static inline void waits_charge(struct waits *waits, enum wait_cause cause, uint64_t until_ns)
{
	check(until_ns >= waits->charged_ns);
	waits->ns[cause] += (u128)waits->count * (until_ns - waits->charged_ns);
	waits->charged_ns = until_ns;
}

/* A request is admitted for the first time, by the decision at charged_ns. */
static inline void waits_admit(struct waits *waits)
{
	check(waits->count > 0);
	waits->count--;
}

#endif
