#include "bench/record/histogram.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/sort.h"

/* Compares the histogram with the list of its values. */

enum { VALUES_MAX = 400 };

/* The bucket whose upper end is the least one not below the value, by bisection over the public
   bounds only. */
static uint32_t bucket_that_holds(uint64_t value)
{
	uint32_t low = 0;
	uint32_t high = HISTOGRAM_BUCKETS - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (histogram_upper(middle) < value) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

Test(histogram, bounds_rise_to_the_largest_value_and_are_narrow)
{
	uint64_t before = 0;

	require_equal(histogram_upper(0), 0);
	for (uint32_t bucket = 1; bucket < HISTOGRAM_BUCKETS; bucket++) {
		uint64_t upper = histogram_upper(bucket);
		require(upper > before, "bucket %u does not end behind the one before", bucket);
		/* values in (before, upper]: at most 2^-10 of the smallest of them */
		uint64_t width = upper - before;
		require(width == 1 || width <= (before + 1) >> 10, "bucket %u is %llu wide at %llu",
			bucket, (unsigned long long)width, (unsigned long long)upper);
		require(upper >= 2048 || width == 1, "values below 2,048 are told apart");
		before = upper;
	}
	require_equal(before, UINT64_MAX);
}

/* Adds a single value, and demands that it is counted in the bucket of its bounds. */
static void require_home(struct histogram *histogram, uint64_t value)
{
	uint32_t home = bucket_that_holds(value);
	uint64_t count = histogram->counts[home];

	histogram_add(histogram, value, 1);
	require(histogram->counts[home] == count + 1, "%llu is not in bucket %u",
		(unsigned long long)value, home);
}

Test(histogram, a_value_lies_in_the_bucket_of_its_bounds)
{
	struct histogram histogram;

	histogram_init(&histogram);
	for (uint64_t value = 0; value < 20000; value++) {
		require_home(&histogram, value);
	}
	for (uint32_t bit = 11; bit < 64; bit++) {
		uint64_t power = UINT64_C(1) << bit;
		uint64_t step = power >> 10;
		const uint64_t edges[] = {power - 2, power - 1, power, power + 1, power + step - 1,
			power + step, power + step + 1, power + (power - 1), power - step,
			power - step - 1};
		for (uint32_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
			require_home(&histogram, edges[i]);
		}
	}
	require_home(&histogram, UINT64_MAX);
	require_home(&histogram, UINT64_MAX - 1);
	histogram_deinit(&histogram);
}

/* A single value is every percentile, the mean and the maximum, exactly: no bucket bound may exceed
   the largest value. */
Test(histogram, one_value_is_all_of_its_statistics)
{
	const uint64_t values[] = {0, 1, 2047, 2048, 2049, 4095, 4097, 123456789, UINT64_C(1) << 63,
		(UINT64_C(1) << 63) + 1, UINT64_MAX - 1, UINT64_MAX};

	for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		for (uint64_t times = 1; times < 2000; times = times * 3 + 1) {
			struct histogram histogram;
			histogram_init(&histogram);
			histogram_add(&histogram, values[i], times);
			for (uint32_t rank = 1; rank <= 1000; rank += 27) {
				require_equal(histogram_percentile(&histogram, rank), values[i]);
			}
			require_equal(histogram.min, values[i]);
			require_equal(histogram_deviation(&histogram), 0);
			require_equal(histogram_mean(&histogram), values[i]);
			require_equal(histogram.max, values[i]);
			require_equal(histogram.count, times);
			histogram_deinit(&histogram);
		}
	}
}

/* Values of one bucket deviate, and sums of squares beyond 2^128 are whole. */
Test(histogram, the_deviation_is_exact)
{
	static const struct {
		uint64_t values[2], times[2], deviation;
	} cases[] = {
		{{1000000, 1000010}, {1, 1}, 5},
		{{1000000, 1000010}, {7, 7}, 5},
		{{1000000, 1000001}, {1, 1}, 0},
		{{1000000, 1000003}, {1, 2}, 1}, /* the root of 2 */
		{{3000000000, 3000000004}, {1, 1}, 2},
		{{0, UINT64_MAX}, {1, 1}, UINT64_MAX / 2},
		{{UINT64_MAX - 6, UINT64_MAX}, {1000, 1000}, 3},
		{{UINT64_MAX - 6, UINT64_MAX}, {UINT64_C(1) << 61, UINT64_C(1) << 61}, 3},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct histogram histogram;
		histogram_init(&histogram);
		for (uint32_t j = 0; j < 2; j++) {
			histogram_add(&histogram, cases[i].values[j], cases[i].times[j]);
		}
		require_equal(histogram_deviation(&histogram), cases[i].deviation);
		histogram_deinit(&histogram);
	}
}

Test(histogram, adding_no_times_changes_nothing)
{
	struct histogram histogram;

	histogram_init(&histogram);
	histogram_add(&histogram, 7, 1);
	histogram_add(&histogram, UINT64_MAX, 0);
	require_equal(histogram.count, 1);
	require_equal(histogram.max, 7);
	require_equal(histogram_percentile(&histogram, 1000), 7);
	histogram_deinit(&histogram);
}

/* The nearest rank by its definition, without rounding in floating point: the least rank that is
   not below per_mille / 1000 of the count. */
static uint64_t nearest_rank(const uint64_t *sorted, uint64_t count, uint32_t per_mille)
{
	uint64_t rank = 1;

	while (rank * 1000 < count * per_mille) {
		rank++;
	}
	return sorted[rank - 1];
}

static uint64_t draw_value(struct prop *prop)
{
	uint64_t magnitude = prop_below(prop, 65);
	uint64_t bits =
		prop_below(prop, UINT64_C(1) << 32) << 32 | prop_below(prop, UINT64_C(1) << 32);

	return magnitude == 0 ? 0 : bits >> (64 - magnitude);
}

/* That of the values, not of the ends of their buckets. */
static void require_deviation(
	const struct histogram *histogram, const uint64_t *values, uint64_t count)
{
	long double mean = 0, squares = 0;

	for (uint64_t i = 0; i < count; i++) {
		mean += (long double)values[i] / (long double)count;
	}
	for (uint64_t i = 0; i < count; i++) {
		long double distance = (long double)values[i] - mean;
		squares += distance * distance / (long double)count;
	}
	long double exact = sqrtl(squares), found = (long double)histogram_deviation(histogram);
	require(fabsl(found - exact) <= 1 + exact / 1e15L,
		"the deviation is %Lf, exactly it is %Lf", found, exact);
}

static void body_statistics(struct prop *prop, const void *context)
{
	static uint64_t values[VALUES_MAX]; /* a trial has a process of its own */
	uint64_t count = 0;
	u128 sum = 0;
	struct histogram histogram, other;
	(void)context;

	histogram_init(&histogram);
	histogram_init(&other);
	uint32_t adds = prop_range(prop, 1, 40);
	for (uint32_t i = 0; i < adds; i++) {
		uint64_t value = draw_value(prop);
		uint64_t times = prop_range(prop, 1, 10);
		prop_log(prop, "%llu, %llu times", (unsigned long long)value,
			(unsigned long long)times);
		histogram_add(prop_chance(prop, 1, 2) ? &histogram : &other, value, times);
		for (uint64_t j = 0; j < times; j++) {
			values[count++] = value;
			sum += value;
		}
	}
	histogram_add_all(&histogram, &other);
	histogram_deinit(&other);
	sort_u64(values, count);
	require_equal(histogram.count, count);
	require_equal(histogram.max, values[count - 1]);
	require_equal(histogram_mean(&histogram), sum / count);
	require_equal(histogram.min, values[0]);
	require_deviation(&histogram, values, count);
	for (uint32_t rank = 1; rank <= 1000; rank++) {
		uint64_t exact = nearest_rank(values, count, rank);
		uint64_t found = histogram_percentile(&histogram, rank);
		require(found >= exact && found - exact <= exact >> 10,
			"per mille %u is %llu, exactly it is %llu", rank, (unsigned long long)found,
			(unsigned long long)exact);
		require(found <= values[count - 1], "a percentile beyond the maximum");
	}
	require_equal(histogram_percentile(&histogram, 1000), values[count - 1]);
	histogram_deinit(&histogram);
}

Test(histogram, statistics_equal_those_of_the_sorted_values)
{
	struct prop_options options = {.name = "histogram", .body = body_statistics, .trials = 300};

	cr_assert(prop_holds(&options));
}
