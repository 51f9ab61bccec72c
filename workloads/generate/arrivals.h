#ifndef WORKLOADS_GENERATE_ARRIVALS_H
#define WORKLOADS_GENERATE_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Arrival times by a random process instead of a trace's own. Gaps of mean 1 are drawn and scaled
   by the mean gap of the current rate. The rate may change over time in steps:

       rate |        ____        the rate is constant within a step; the last step never ends,
	    |   ____|    |____   or the steps repeat back and forth (swings)
	    |__|______________
	       step_ns           */

enum arrival_kind {
	ARRIVALS_POISSON,  /* exponential gaps */
	ARRIVALS_GAMMA,	   /* gamma gaps of shape `burstiness`: below 1 burstier than Poisson */
	ARRIVALS_CONSTANT, /* equal gaps */
	ARRIVALS_AT_ONCE,  /* no gaps: all at time 0, whatever the rate */
};

enum { ARRIVAL_STEPS_MAX = 1000 };

struct arrival_profile {
	enum arrival_kind kind;
	uint64_t burstiness_millionths; /* gamma: shape * 10^6, in [10^4, 10^9] */
	uint64_t rate_from, rate_to;	/* requests a second * 10^6, each in [1, 10^12] */
	uint32_t step_count;		/* steps from rate_from to rate_to, evenly; 1: rate_from */
	uint64_t step_ns;		/* > 0 where step_count > 1 */
	bool swings;			/* from rate_from to rate_to and back, repeated */
	uint64_t resolution_ns;		/* times are rounded to multiples of it; >= 1 */
};

struct arrivals;

/* Requests a second * 10^6 of a step, counted on where the steps repeat. */
uint64_t arrival_profile_rate(const struct arrival_profile *profile, uint64_t step);

struct arrivals *arrivals_open(const struct arrival_profile *profile, uint64_t seed);
void arrivals_close(struct arrivals *arrivals);

/* The next time in ns, not before the preceding one; UINT64_MAX where it is beyond 2^62. */
uint64_t arrivals_next(struct arrivals *arrivals);

#endif
