#include "bench/gate/ratio.h"

#include <criterion/criterion.h>
#include <math.h>

#include "tests/harness/require.h"

/* The interval of a ratio covers what it says. */

static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

/* A time with noise of a relative size. */
static double noisy(uint64_t *state, double mean, double size)
{
	double normal = sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
	return mean * exp(size * normal);
}

/* Of 20,000 gates the interval misses the true ratio in about 1 %, whatever the number of runs. */
Test(ratio, the_interval_covers_the_ratio_in_99_of_100_gates)
{
	enum { GATES = 20000 };
	static const double ratios[] = {1, 1.02};
	uint64_t state = 5;

	for (uint32_t runs = 3; runs <= 12; runs += 3) {
		uint32_t missed = 0;
		for (uint32_t gate = 0; gate < GATES; gate++) {
			double base[12], value[12], truth = ratios[gate % 2];
			for (uint32_t i = 0; i < runs; i++) {
				base[i] = noisy(&state, 10, 0.01);
				value[i] = noisy(&state, 10 * truth, 0.02);
			}
			struct ratio ratio = ratio_of(base, runs, value, runs);
			missed += ratio.low > truth || ratio.high < truth;
		}
		require(missed > GATES / 1000 && missed < GATES / 66, "%u runs: missed %u of %u",
			runs, missed, GATES);
	}
}

Test(ratio, equal_runs_have_an_interval_without_width)
{
	const double values[] = {3, 3, 3};
	struct ratio ratio = ratio_of(values, 3, values, 3);

	require(ratio.is_known && ratio.low == 1 && ratio.high == 1, "%g %g", ratio.low,
		ratio.high);
}

Test(ratio, one_run_or_a_figure_of_zero_has_no_interval)
{
	const double values[] = {3, 4}, zero[] = {3, 0};

	require_equal(ratio_of(values, 1, values, 2).is_known, false);
	require_equal(ratio_of(values, 2, values, 1).is_known, false);
	require_equal(ratio_of(zero, 2, values, 2).is_known, false);
}
