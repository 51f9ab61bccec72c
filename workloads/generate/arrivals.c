#include "workloads/generate/arrivals.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/generate/fixed.h"
#include "workloads/generate/random.h"

#include <stdlib.h>

enum { PURPOSE_ARRIVALS = 100 };

#define NS_TIMES_MILLION UINT64_C(1000000000000000)
#define TIME_MAX (UINT64_C(1) << 62)

struct arrivals {
	struct arrival_profile profile;
	struct random random;
	int64_t shape;
	uint64_t now_ns;
	uint64_t step;		/* not reset when the steps repeat */
	uint64_t step_start_ns; /* now_ns lies in step */
};

struct arrivals *arrivals_open(const struct arrival_profile *profile, uint64_t seed)
{
	struct arrivals *arrivals = memory_take(1, sizeof(*arrivals));

	check(profile->rate_from >= 1 && profile->rate_from <= UINT64_C(1000000000000));
	check(profile->rate_to >= 1 && profile->rate_to <= UINT64_C(1000000000000));
	check(profile->step_count >= 1 && profile->step_count <= ARRIVAL_STEPS_MAX);
	check(profile->step_count == 1 || profile->step_ns > 0);
	check(profile->resolution_ns >= 1);
	arrivals->profile = *profile;
	arrivals->random = random_stream(seed, PURPOSE_ARRIVALS);
	if (profile->kind == ARRIVALS_GAMMA) {
		check(profile->burstiness_millionths <= UINT64_C(1000000000));
		arrivals->shape = fixed_ratio((uint32_t)profile->burstiness_millionths, 1000000);
	}
	return arrivals;
}

void arrivals_close(struct arrivals *arrivals)
{
	free(arrivals);
}

uint64_t arrival_profile_rate(const struct arrival_profile *profile, uint64_t step_number)
{
	uint64_t last = profile->step_count - 1;
	uint64_t step = u64_min(step_number, last);
	uint64_t rate = profile->rate_from;

	if (profile->swings && last > 0) {
		uint64_t phase = step_number % (2 * last);
		step = phase <= last ? phase : 2 * last - phase;
	}
	if (step > 0) {
		rate = profile->rate_from < profile->rate_to
			       ? rate + (profile->rate_to - rate) / last * step +
					 (profile->rate_to - rate) % last * step / last
			       : rate - (rate - profile->rate_to) / last * step -
					 (rate - profile->rate_to) % last * step / last;
	}
	return rate;
}

/* The mean gap in the current step. */
static uint64_t mean_gap_ns(const struct arrivals *arrivals)
{
	uint64_t rate = arrival_profile_rate(&arrivals->profile, arrivals->step);

	return u64_max(NS_TIMES_MILLION / rate, 1);
}

static int64_t draw_gap(struct arrivals *arrivals)
{
	switch (arrivals->profile.kind) {
	case ARRIVALS_POISSON:
		return random_exponential(&arrivals->random);
	case ARRIVALS_GAMMA:
		return random_gamma(&arrivals->random, arrivals->shape);
	case ARRIVALS_CONSTANT:
		return FIXED_ONE;
	case ARRIVALS_AT_ONCE:
		return 0;
	}
	check_unreachable("unknown arrival kind");
}

/* gap * mean_ns for a fixed-point gap, capped at TIME_MAX. */
static uint64_t scaled(int64_t gap, uint64_t mean_ns)
{
	uint64_t whole = (uint64_t)gap >> 32;
	uint64_t part = (uint64_t)gap & UINT32_MAX;

	if (whole > TIME_MAX / mean_ns) {
		return TIME_MAX;
	}
	uint64_t high = (mean_ns >> 32) * part;
	uint64_t low = ((mean_ns & UINT32_MAX) * part) >> 32;
	return u64_min(whole * mean_ns + high + low, TIME_MAX);
}

/* The part of a gap that passes in a time: time_ns / mean_ns as a fixed-point number. */
static int64_t passed(uint64_t time_ns, uint64_t mean_ns)
{
	check(time_ns < TIME_MAX);
	uint64_t quotient = time_ns / mean_ns;
	uint64_t rest = time_ns % mean_ns;

	check(quotient <= INT32_MAX);
	for (uint32_t i = 0; i < 32; i++) {
		rest *= 2;
		quotient = quotient * 2 + (rest >= mean_ns);
		rest -= rest >= mean_ns ? mean_ns : 0;
	}
	return (int64_t)quotient;
}

uint64_t arrivals_next(struct arrivals *arrivals)
{
	const struct arrival_profile *profile = &arrivals->profile;
	int64_t gap = draw_gap(arrivals);

	for (;;) {
		uint64_t mean_ns = mean_gap_ns(arrivals);
		uint64_t needed_ns = scaled(gap, mean_ns);
		bool is_last = profile->step_count == 1 ||
			       (!profile->swings && arrivals->step >= profile->step_count - 1);
		uint64_t end_ns = arrivals->step_start_ns + profile->step_ns;
		if (needed_ns >= TIME_MAX - arrivals->now_ns) {
			return UINT64_MAX;
		}
		if (is_last || arrivals->now_ns + needed_ns < end_ns) {
			arrivals->now_ns += needed_ns;
			return arrivals->now_ns / profile->resolution_ns * profile->resolution_ns;
		}
		gap -= passed(end_ns - arrivals->now_ns, mean_ns);
		gap = gap < 0 ? 0 : gap;
		arrivals->now_ns = end_ns;
		arrivals->step_start_ns = end_ns;
		arrivals->step++;
	}
}
