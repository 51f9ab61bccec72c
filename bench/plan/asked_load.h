#ifndef BENCH_PLAN_ASKED_LOAD_H
#define BENCH_PLAN_ASKED_LOAD_H

#include "bench/plan/plan.h"

/* The load that a run is asked for, and how much of it arrives.

   Open arrivals at the times of the trace are what is asked for. Drawn ones differ by chance, the
   more the fewer and the burstier they are. With closed sessions a turn waits for the answer to the
   one before it, so less arrives, and least of all at the end, where the last sessions finish. */

struct asked_load {
	bool is_known;	/* both rates are, and may differ */
	bool is_closed; /* --sessions closed */
	bool is_drawn;	/* arrivals are, or of closed sessions the first turns */
	bool is_target; /* of --target-rate or --target-speedup */
	double asked_per_s, arrived_per_s;
	uint64_t requests; /* that are measured */
};

/* load: of the knob. figures: of the run at it. */
struct asked_load asked_load_of(const struct plan *plan, uint32_t configuration, uint64_t load,
	const struct probe_figures *figures);

/* Whether so much less than a target arrives that the run says nothing about it. */
bool asked_load_is_missed(const struct asked_load *load);

/* Whether the rate of the run is a mean over times when its closed sessions bring less. */
bool asked_load_is_mean(const struct asked_load *load);

/* "only 53 of the 60 requests/s that are asked for arrive: WHY; WAY OUT". Nothing where about as
   much arrives as is asked for. */
void asked_load_add_text(struct text *text, const struct asked_load *load);

/* Requests of a session of the trace, on average. A request without one is one of its own. */
double asked_session_requests(const struct plan *plan);

/* The --rate that brings `rate` requests/s, both * 10^6: with closed sessions it is of sessions. */
uint64_t asked_rate_option(
	const struct plan *plan, const struct replay_config *config, uint64_t rate);

#endif
