#include "bench/plan/bands.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "workloads/generate/fixed.h"
#include "workloads/generate/random.h"

/* ---- the interval ---- */

static bool is_near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

/* 41 - 1 values: the quantiles are at ranks 1.025, 20.5 and 39.975. */
Test(bands, quantiles_of_forty_are_those_of_the_rule)
{
	uint64_t values[40];

	for (uint32_t i = 0; i < 40; i++) {
		values[(i * 7) % 40] = 1000 + i;
	}
	struct band band = band_of_sampling(2000, values, 40, 0);
	cr_assert(band.has_low && band.has_high);
	cr_assert(is_near(band.low, 2000 - 19.475), "%.17g", band.low);
	cr_assert(is_near(band.high, 2000 + 19.475), "%.17g", band.high);
	/* 20 windows: 1.0260 for the variance, 2.093 / 1.960 for Student's t of 19. */
	band = band_of_sampling(2000, values, 40, 20);
	double wide = sqrt(20.0 / 19) * 2.0930 / 1.9600;
	double low = 2000 - 19.475 * wide;
	cr_assert(fabs(band.low - low) < 0.01, "%g, expected %g", band.low, low);
}

/* Of the same ranks, but whole: an interval of replicas holds all between its quantiles. */
Test(bands, an_interval_of_counts_is_rounded_outwards)
{
	uint64_t values[40];

	for (uint32_t i = 0; i < 40; i++) {
		values[(i * 7) % 40] = 10 + i;
	}
	struct band band = band_of_counts(values, 40, 1, 1);
	cr_expect(band.has_low && band.low == 10, "from %g, not 10.025 rounded down", band.low);
	cr_expect(band.has_high && band.high == 49, "to %g, not 48.975 rounded up", band.high);
	for (uint32_t i = 0; i < 40; i++) {
		values[i] = i == 0 ? 2 : i == 39 ? 4 : 3;
	}
	band = band_of_counts(values, 40, 1, 1);
	cr_expect(band.low == 2 && band.high == 4, "%g to %g", band.low, band.high);
	memset(values, 0, sizeof(values)); /* fewer than were searched */
	band = band_of_counts(values, 40, 1, 1);
	cr_expect(band.low == 1 && band.high == 1, "a fleet of %g to %g replicas", band.low,
		band.high);
	band = band_of_counts(values, 40, 2, 5);
	cr_expect(band.low == 2 && band.high == 5, "2 at least, 5 searched, found %g to %g",
		band.low, band.high);
}

Test(bands, students_t_is_that_of_tables)
{
	static const struct {
		uint64_t freedom;
		double t, tolerance;
	} cases[] = {{2, 4.303, 0.032}, {3, 3.182, 0.01}, {5, 2.571, 0.003}, {8, 2.306, 0.001},
		{19, 2.093, 0.0005}, {60, 2.000, 0.0005}, {1000000, 1.960, 0.0001}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double found = band_student(cases[i].freedom) * 1.959964;
		cr_assert(fabs(found / cases[i].t - 1) <= cases[i].tolerance,
			"t of %llu is %g, found %g", (unsigned long long)cases[i].freedom,
			cases[i].t, found);
	}
}

/* Ends are open where too many replicates have no answer, and there is no interval of few. */
Test(bands, ends_are_open_where_nothing_is_known)
{
	uint64_t values[40];

	for (uint32_t i = 0; i < 40; i++) {
		values[i] = 1000 + i;
	}
	struct band band = band_of_sampling(1000, values, BAND_VALUES_MIN - 1, 0);
	cr_assert(!band.has_low && !band.has_high);
	band = band_of_sampling(1000, values, BAND_VALUES_MIN, 0);
	cr_assert(band.has_low && band.has_high);
	values[7] = BAND_MORE;
	band = band_of_sampling(1000, values, 40, 0);
	cr_assert(!band.has_low && !band.has_high, "a replicate carries anything");
	values[7] = BAND_LESS;
	band = band_of_sampling(400, values, 40, 0);
	cr_assert(!band.has_low && band.has_high, "a replicate carries nothing");
	memset(values, 0, sizeof(values));
	band = band_of_sampling(1000, values, 40, 0);
	cr_assert(band.low == 1000 && band.high == 1000, "all are the same");
}

/* Another unit is another unit, values that lie elsewhere give the same width, and those that lie
   twice as far apart twice that. */
static void body_band(struct prop *prop, const void *context)
{
	uint64_t values[60], larger[60], elsewhere[60], wider[60];
	uint32_t count = prop_range(prop, BAND_VALUES_MIN, 60);
	uint64_t windows = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 40) : 0;
	uint64_t k = prop_range(prop, 1, 1000);

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = prop_below(prop, 2000);
		values[i] = 100000 + offset;
		larger[i] = values[i] * k;
		elsewhere[i] = values[i] + k;
		wider[i] = 99000 + 2 * offset;
	}
	struct band band = band_of_sampling(90000, values, count, windows);
	struct band same = band_of_sampling(90000 * (double)k, larger, count, windows);
	require(band.has_low && band.has_high, "an end is open");
	require(is_near(band.low * (double)k, same.low), "a unit matters");
	require(is_near(band.high * (double)k, same.high), "a unit matters");
	same = band_of_sampling(90000, elsewhere, count, windows);
	require(is_near(band.low, same.low) && is_near(band.high, same.high), "the place matters");
	require(is_near(90000 - band.low, band.high - 90000), "it is not about the answer");
	struct band wide = band_of_sampling(90000, wider, count, windows);
	require(is_near(2 * (band.high - 90000), wide.high - 90000), "twice as wide is not");
	struct band drawn = band_of_sampling(90000, values, count, 12);
	struct band seeds = band_of_sampling(90000, values, count, 0);
	require(drawn.low <= seeds.low && drawn.high >= seeds.high, "windows do not widen");
}

Test(bands, lie_about_the_answer_and_know_no_unit)
{
	const struct prop_options options = {.name = "bands", .body = body_band, .trials = 500};

	cr_assert(prop_holds(&options));
}

/* What a draw does to both figures alike is no difference between them; neither is preferred. */
static void body_ratio(struct prop *prop, const void *context)
{
	double firsts[60], seconds[60], alike[60];
	uint32_t count = prop_range(prop, BAND_VALUES_MIN, 60);
	uint64_t windows = prop_chance(prop, 1, 2) ? prop_range(prop, 3, 40) : 0;
	double k = (double)prop_range(prop, 1, 400) / 100;

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		seconds[i] = 1 + (double)prop_below(prop, 100000) / 1000;
		alike[i] = k * seconds[i];
		firsts[i] = seconds[i] * (1 + (double)prop_below(prop, 1000) / 10000);
	}
	struct band band = band_of_ratio(3 * k, 3, alike, seconds, count, windows);
	require(band.has_low && band.has_high, "an end is open");
	require(fabs(band.low / k - 1) < 1e-9 && fabs(band.high / k - 1) < 1e-9,
		"%g to %g, expected %g", band.low, band.high, k);
	band = band_of_ratio(3.3, 3, firsts, seconds, count, windows);
	struct band turned = band_of_ratio(3, 3.3, seconds, firsts, count, windows);
	require(band.low <= 1.1 && band.high >= 1.1, "%g to %g", band.low, band.high);
	require(fabs(band.low * turned.high - 1) < 1e-9 && fabs(band.high * turned.low - 1) < 1e-9,
		"the other way round it is %g to %g, not of %g to %g", turned.low, turned.high,
		band.low, band.high);
}

Test(bands, a_ratio_is_of_the_same_draws)
{
	const struct prop_options options = {.name = "ratio", .body = body_ratio, .trials = 500};
	const double none[8] = {0}, some[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	const double all[8] = {INFINITY, INFINITY, INFINITY, INFINITY, 1, 1, 1, 1};
	const double torn[8] = {INFINITY, INFINITY, INFINITY, INFINITY, 0, 0, 0, 0};

	cr_assert(prop_holds(&options));
	struct band band = band_of_ratio(1, 1, some, some, BAND_VALUES_MIN - 1, 0);
	cr_assert(!band.has_low && !band.has_high, "of too few");
	band = band_of_ratio(0, 0, none, none, 8, 0);
	cr_assert(band.low == 1 && band.high == 1, "both carry nothing");
	band = band_of_ratio(1, 1, all, some, 8, 0);
	cr_assert(band.has_low && band.has_high && band.high > 2, "%g", band.high);
	band = band_of_ratio(3, 1, all, some, 8, 0);
	cr_assert(band.has_low && !band.has_high, "beyond what was searched");
	band = band_of_ratio(1, 1, torn, some, 8, 0);
	cr_assert(!band.has_low && !band.has_high, "from nothing to beyond");
	band = band_of_ratio(1, 1, some, torn, 8, 0);
	cr_assert(!band.has_low && !band.has_high, "the other way round");
}

/* ---- beside the rule, step by step ---- */

static void sort_values(double *values, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = i + 1; j < count; j++) {
			if (values[j] < values[i]) {
				double value = values[i];
				values[i] = values[j];
				values[j] = value;
			}
		}
	}
}

/* By ranks from 1 on. values: (count) ascending. */
static double naive_quantile(const double *values, uint32_t count, double share)
{
	double rank = share * (count + 1);

	if (rank <= 1) {
		return values[0];
	}
	if (rank >= count) {
		return values[count - 1];
	}
	uint32_t whole = (uint32_t)floor(rank);
	double low = values[whole - 1], high = values[whole], part = rank - whole;
	return low == high || part == 0 ? low : low * (1 - part) + high * part;
}

static double naive_half(const double *values, uint32_t count, uint64_t windows)
{
	double half =
		(naive_quantile(values, count, 0.975) - naive_quantile(values, count, 0.025)) / 2;
	double least = windows < 3 ? 3 : (double)windows;

	return windows == 0 ? half
			    : half * sqrt(least / (least - 1)) * band_student((uint64_t)least - 1);
}

static void require_end(
	const char *what, bool has, double found, bool has_expected, double expected)
{
	require(has == has_expected, "the %s is %sknown", what, has ? "" : "not ");
	require(!has || is_near(found, expected), "the %s is %.17g, expected %.17g", what, found,
		expected);
}

/* Equal values, none and more than was searched are among them. */
static uint64_t draw_value(struct prop *prop, uint64_t spread)
{
	switch (prop_below(prop, 40)) {
	case 1:
		return BAND_LESS;
	case 2:
		return BAND_MORE;
	default:
		return 1 + prop_below(prop, spread);
	}
}

static void raise(double *sorted, uint32_t count, double least)
{
	for (uint32_t i = 0; i < count; i++) {
		sorted[i] = sorted[i] < least ? least : sorted[i];
	}
}

static void body_rule(struct prop *prop, const void *context)
{
	uint64_t values[60], spread = prop_chance(prop, 1, 2) ? 1000000 : 4;
	double sorted[60] = {0};
	uint32_t count = prop_range(prop, BAND_VALUES_MIN, 60);
	uint64_t windows = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 30) : 0;
	double answer = 1 + (double)prop_below(prop, spread);

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		values[i] = draw_value(prop, spread);
		sorted[i] = values[i] == BAND_MORE ? INFINITY : (double)values[i];
	}
	sort_values(sorted, count);
	double half = naive_half(sorted, count, windows);
	struct band band = band_of_sampling(answer, values, count, windows);
	require_end("low end", band.has_low, band.low, half < answer, answer - half);
	require_end("high end", band.has_high, band.high, half < INFINITY, answer + half);
	uint64_t least = prop_range(prop, 1, 5), searched = least + prop_below(prop, 5);
	band = band_of_counts(values, count, least, searched);
	raise(sorted, count, (double)least);
	double low = naive_quantile(sorted, count, 0.025);
	raise(sorted, count, (double)searched);
	double high = naive_quantile(sorted, count, 0.975);
	require_end("least", band.has_low, band.low, low < INFINITY, floor(low));
	require_end("most", band.has_high, band.high, high < INFINITY, ceil(high));
	require(!band.has_high || band.low <= band.high, "%g to %g", band.low, band.high);
}

Test(bands, are_those_of_the_rule_for_any_values)
{
	const struct prop_options options = {
		.name = "rule of bands", .body = body_rule, .trials = 1000};

	cr_assert(prop_holds(&options));
}

/* The answer of a replicate, whichever of two loads passes: between both, on the line between their
   margins, and the one that passes where no load lies between. */
static void body_value(struct prop *prop, const void *context)
{
	bool is_least = prop_chance(prop, 1, 2);
	uint64_t low = prop_below(prop, 1000), high = low + prop_range(prop, 1, 12);
	int64_t pass_margin = -(int64_t)prop_below(prop, 4), fail_margin = prop_range(prop, 0, 4);
	uint64_t pass = is_least ? high : low, fail = is_least ? low : high;
	const struct search_answer answer = {
		.has_pass = true, .has_fail = true, .highest_pass = pass, .lowest_fail = fail};

	(void)context;
	uint64_t value =
		band_value(&answer, is_least, (double)pass_margin / 100, (double)fail_margin / 100);
	if (high - low == 1) {
		require_equal(value, pass);
		return;
	}
	/* Twice the way from the one that passes, in parts of the distance between the margins. */
	int64_t apart = fail_margin - pass_margin, part = -pass_margin;
	part = apart == 0 ? 1 : part;
	apart = apart == 0 ? 2 : apart;
	double exact = (double)pass + ((double)fail - (double)pass) * (double)part / (double)apart;
	require(fabs((double)value - exact) <= 0.5 + 1e-9,
		"%llu between %llu and %llu, expected %g", (unsigned long long)value,
		(unsigned long long)pass, (unsigned long long)fail, exact);
}

Test(bands, a_replicates_answer_is_on_the_line_between_its_loads)
{
	const struct prop_options options = {
		.name = "answer of a replicate", .body = body_value, .trials = 2000};

	cr_assert(prop_holds(&options));
}

/* Windows of any trace and latency, by the definition: as few as fit, and how long would do. */
static void body_windows(struct prop *prop, const void *context)
{
	uint64_t span_ns = 1 + prop_below(prop, prop_chance(prop, 1, 2) ? 40 : 1000000);
	uint64_t latency_ns = prop_below(prop, prop_chance(prop, 1, 2) ? 4 : 20000);
	const struct band_window window = band_window_of(span_ns, latency_ns);
	uint64_t longest_ns = span_ns / 8 < 1 ? 1 : span_ns / 8;
	uint64_t least_ns = span_ns / 20 < 1 ? 1 : span_ns / 20;
	uint64_t expected_ns = 20 * latency_ns < least_ns ? least_ns : 20 * latency_ns;

	(void)context;
	require_equal(window.is_too_short, 20 * latency_ns > longest_ns);
	require_equal(window.window_ns, window.is_too_short ? longest_ns : expected_ns);
	require_equal(window.needed_ns, 8 * 20 * latency_ns);
	require(window.windows * window.window_ns >= span_ns &&
			(window.windows - 1) * window.window_ns < span_ns,
		"%llu windows", (unsigned long long)window.windows);
}

Test(bands, windows_are_those_of_the_definition)
{
	const struct prop_options options = {
		.name = "windows", .body = body_windows, .trials = 2000};

	cr_assert(prop_holds(&options));
}

/* ---- coverage, where everything is known ---- */

/* e^(deviation * a normal draw), or to the power of three of it: skewed to the right. */
static uint64_t draw(struct random *random, bool is_skewed)
{
	double normal = (double)random_normal(random) / (double)FIXED_ONE;
	double value = exp(0.08 * normal);

	return (uint64_t)(1e6 * (is_skewed ? value * value * value : value));
}

/* A trace and 40 replicates of one process, whose capacity has the median 10^6. */
Test(bands, hold_the_median_of_the_process_in_95_of_100)
{
	enum { TRIALS = 20000, REPLICATES = 40 };

	for (uint32_t skewed = 0; skewed < 2; skewed++) {
		struct random random = random_stream(7, 1);
		uint32_t held = 0, below = 0;
		for (uint32_t i = 0; i < TRIALS; i++) {
			uint64_t values[REPLICATES];
			double answer = (double)draw(&random, skewed);
			for (uint32_t k = 0; k < REPLICATES; k++) {
				values[k] = draw(&random, skewed);
			}
			struct band band = band_of_sampling(answer, values, REPLICATES, 0);
			held += band.low <= 1e6 && band.high >= 1e6;
			below += band.high < 1e6;
		}
		double share = (double)held / TRIALS;
		require(share > 0.93 && share < 0.96, "%.4f", share);
		double side = (double)below / (double)(TRIALS - held);
		require(skewed || (side > 0.25 && side < 0.75), "%.3f of the misses are below",
			side);
	}
}

/* ---- replicates ---- */

Test(bands, a_replicate_is_searched_from_the_answer_on)
{
	const struct search_options plan = {.minimum = 10,
		.maximum = 1000000000,
		.first = 77,
		.precision = 10000,
		.width = 2,
		.starts_alone = true,
		.starts_by_utilisation = true,
		.has_shape = true};

	for (uint64_t capacity = 350000; capacity < 3000000; capacity += 13337) {
		const struct search_options options = band_search(&plan, 1000000, 2);
		struct search *search = search_open(&options);
		struct search_probe probe;
		uint32_t count = 0;
		for (; search_next(search, &probe); count++) {
			search_take(search, probe.number, probe.load <= capacity, 0.5);
		}
		struct search_answer answer = search_answer(search);
		double off = (double)band_value(&answer, false, 0, 0) / (double)capacity - 1;
		require(off > -0.0101 && off < 0.0101, "%g off at %llu", off,
			(unsigned long long)capacity);
		bool is_close = capacity > 930000 && capacity < 1080000;
		require(count <= (is_close ? 6 : 12), "%u probes for %llu", count,
			(unsigned long long)capacity);
		search_close(search);
	}
}

Test(bands, a_replicates_answer_lies_between_what_passes_and_what_fails)
{
	struct search_answer answer = {.has_pass = true, .highest_pass = 8};

	cr_assert_eq(band_value(&answer, false, 0, 0), BAND_MORE);
	cr_assert_eq(band_value(&answer, true, 0, 0), BAND_LESS);
	answer = (struct search_answer){.has_fail = true, .lowest_fail = 8};
	cr_assert_eq(band_value(&answer, false, 0, 0), BAND_LESS);
	cr_assert_eq(band_value(&answer, true, 0, 0), BAND_MORE);
	answer.has_pass = true;
	answer.highest_pass = 4;
	cr_assert_eq(band_value(&answer, false, 0, 0), 6);
	cr_assert_eq(band_value(&answer, false, -0.01, 0.03), 5);
	cr_assert_eq(band_value(&answer, false, 0.01, 0.03), 6); /* no line of this kind */
	cr_assert_eq(band_value(&answer, false, -0.02, 0), answer.lowest_fail);
	cr_assert_eq(band_value(&answer, false, 0, 0.02), answer.highest_pass);
	answer.lowest_fail = 5;
	cr_assert_eq(band_value(&answer, false, -0.01, 0.03), 4);
}

Test(bands, windows_hold_twenty_latencies_where_the_trace_is_long_enough)
{
	struct band_window window = band_window_of(3600, 2);

	cr_assert_eq(window.window_ns, 180); /* a twentieth is longer than 40 */
	cr_assert_eq(window.windows, 20);
	window = band_window_of(3600, 15);
	cr_assert(window.window_ns == 300 && window.windows == 12 && !window.is_too_short);
	window = band_window_of(3600, 30);
	cr_assert(window.window_ns == 450 && window.windows == 8 && window.is_too_short);
	cr_assert_eq(window.needed_ns, 8 * 20 * 30);
	window = band_window_of(1, UINT64_MAX);
	cr_assert(window.window_ns == 1 && window.windows == 1 && window.is_too_short);
	cr_assert_eq(window.needed_ns, UINT64_MAX);
}

Test(bands, counts_are_rounded_outwards)
{
	const uint64_t values[10] = {3, 3, 3, 4, 3, 3, 3, 3, 3, 2};
	struct band band = band_of_counts(values, 10, 1, 1);

	cr_assert(band.has_low && band.low == 2 && band.has_high && band.high == 4);
	band = band_of_counts(values, BAND_VALUES_MIN - 1, 1, 1);
	cr_assert(!band.has_low && !band.has_high);
	const uint64_t ends[10] = {BAND_LESS, BAND_LESS, 2, 2, 2, 2, 3, 3, BAND_MORE, BAND_MORE};
	band = band_of_counts(ends, 10, 1, 1);
	cr_assert(band.has_low && band.low == 1 && !band.has_high);
}
