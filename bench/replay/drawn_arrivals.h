#ifndef BENCH_REPLAY_DRAWN_ARRIVALS_H
#define BENCH_REPLAY_DRAWN_ARRIVALS_H

#include <stdbool.h>

#include "bench/replay/replay_config.h"
#include "engine/base/status.h"
#include "workloads/generate/arrivals.h"

/* The arrival profile that --rate, --arrivals, --burstiness, --ramp and --duration describe.
   *has_profile is false when the trace's own times are used. Invalid values and combinations are
   refused with the names of the options. */
enum status drawn_arrivals(const struct replay_config *config, struct arrival_profile *out,
	bool *has_profile, struct error *error);

/* The word of --arrivals for a profile: what --rate alone stands for, too. */
uint32_t drawn_arrivals_word(const struct arrival_profile *profile);

#endif
