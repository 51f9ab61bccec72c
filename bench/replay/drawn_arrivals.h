#ifndef BENCH_REPLAY_DRAWN_ARRIVALS_H
#define BENCH_REPLAY_DRAWN_ARRIVALS_H

#include <stdbool.h>

#include "bench/replay/replay_config.h"
#include "engine/base/status.h"
#include "workloads/generate/arrivals.h"

/* Arrivals drawn in place of a trace's own times, as --rate, --arrivals, --burstiness, --ramp and
   --duration describe them. *has_profile is false when the trace's times hold. Values and
   combinations that make no sense are refused, naming the options. */
enum status drawn_arrivals(const struct replay_config *config, struct arrival_profile *out,
	bool *has_profile, struct error *error);

#endif
