#ifndef BENCH_REPLAY_LOAD_H
#define BENCH_REPLAY_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/generate/arrivals.h"

/* The load that a user asks for in place of a trace's own times: --rate, --arrivals, --burstiness,
   --ramp, --duration. */

struct load {
	const char *arrivals; /* "trace", "poisson", "gamma", "constant" */
	uint64_t rate;	      /* requests a second * 10^6; 0: not given */
	uint64_t burstiness;  /* gamma shape * 10^6; 0: not given */
	const char *ramp;     /* "FROM:TO:STEPS" in requests a second, or "none" */
	uint64_t duration;    /* seconds * 10^6; 0: no end */
};

/* The profile of drawn arrivals, with *has_profile false when the trace's times stand. Values and
   combinations that make no sense are refused, naming the options. */
enum status load_profile(const struct load *load, struct arrival_profile *out, bool *has_profile,
	struct error *error);

#endif
