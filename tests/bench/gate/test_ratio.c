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

/* How likely Student's t of so many degrees of freedom lies within +-w, by Simpson's rule over the
   angle whose tangent is t / sqrt(freedom). */
static double chance_within(double w, double freedom)
{
	enum { PARTS = 2000 };
	double end = atan(w / sqrt(freedom)), sum = 0;

	for (uint32_t i = 0; i <= PARTS; i++) {
		double weight = i == 0 || i == PARTS ? 1 : i % 2 == 1 ? 4 : 2;
		sum += weight * pow(cos(end * i / PARTS), freedom - 1);
	}
	return 2 * exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(acos(-1)) * sum *
	       end / PARTS / 3;
}

/* Mean of the logarithms, and the variance of that mean. */
static double mean_of_logs(const double *values, uint32_t count, double *variance)
{
	double mean = 0, squares = 0;

	for (uint32_t i = 0; i < count; i++) {
		mean += log(values[i]) / count;
	}
	for (uint32_t i = 0; i < count; i++) {
		squares += pow(log(values[i]) - mean, 2);
	}
	*variance = squares / (count - 1) / count;
	return mean;
}

/* Welch's degrees of freedom are no integer. The interval is that of one no larger: never narrower
   than 99 % takes, and no wider than the next integer below takes. */
Test(ratio, the_width_is_that_of_welchs_degrees_of_freedom)
{
	uint64_t state = 7;
	uint32_t fractions = 0;

	for (uint32_t i = 0; i < 400; i++) {
		double base[6], value[6], base_variance, value_variance;
		uint32_t base_count = 2 + i % 5, value_count = 2 + i / 5 % 5;
		for (uint32_t k = 0; k < 6; k++) {
			base[k] = noisy(&state, 10, 0.01);
			value[k] = noisy(&state, 11, 0.01 * (1 + i % 3));
		}
		double difference = mean_of_logs(value, value_count, &value_variance) -
				    mean_of_logs(base, base_count, &base_variance);
		double variance = base_variance + value_variance;
		double freedom = variance * variance /
				 (base_variance * base_variance / (base_count - 1) +
					 value_variance * value_variance / (value_count - 1));
		struct ratio ratio = ratio_of(base, base_count, value, value_count);
		require(fabs(log(ratio.ratio) - difference) < 1e-12, "%g", ratio.ratio);
		double up = log(ratio.high / ratio.ratio), down = log(ratio.ratio / ratio.low);
		require(fabs(up - down) < 1e-9 * up, "%g up and %g down", up, down);
		double w = up / sqrt(variance), whole = floor(freedom * (1 + 1e-12));
		require(chance_within(w, freedom) > 0.99 - 2e-5, "%g degrees: %g", freedom,
			chance_within(w, freedom));
		require(chance_within(w, whole) < 0.99 + 2e-5, "%g degrees: %g", whole,
			chance_within(w, whole));
		fractions += freedom - whole > 0.3;
	}
	require(fractions > 100, "%u", fractions);
}

/* Against runs without any noise, Welch's degrees of freedom are those of the noisy ones: each of
   the quantiles is told, and beyond the last of them it is that of 30. */
Test(ratio, the_width_is_right_for_every_number_of_runs)
{
	enum { RUNS = 40 };
	static const double still[] = {10, 10, 10};
	uint64_t state = 9;
	double noise[RUNS], variance;

	for (uint32_t i = 0; i < RUNS; i++) {
		noise[i] = noisy(&state, 10, 0.01);
	}
	for (uint32_t runs = 2; runs <= RUNS; runs++) {
		uint32_t freedom = runs <= 31 ? runs - 1 : 30;
		mean_of_logs(noise, runs, &variance);
		struct ratio ratio = ratio_of(still, 3, noise, runs);
		double w = log(ratio.high / ratio.ratio) / sqrt(variance);
		double chance = chance_within(w, freedom);
		/* rounding may make it a hair less than a whole number */
		double below = freedom > 1 ? chance_within(w, freedom - 1) : chance;
		require(fabs(chance - 0.99) < 2e-5 || fabs(below - 0.99) < 2e-5,
			"%u runs: %.6f and %.6f", runs, chance, below);
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
