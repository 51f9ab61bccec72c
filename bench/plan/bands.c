#include "bench/plan/bands.h"

#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST_STEP = 1050 }; /* thousandths */

/* of the normal distribution */
static const double z975 = 1.959963985;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double value_of(uint64_t value)
{
	return value == BAND_MORE ? INFINITY : (double)value;
}

/* values: (count) ascending. */
static double quantile(const double *values, uint32_t count, double share)
{
	double rank = share * ((double)count + 1) - 1;
	double last = (double)count - 1;

	rank = rank < 0 ? 0 : rank > last ? last : rank;
	uint32_t below = (uint32_t)rank;
	uint32_t above = below + (below + 1 < count);
	double part = rank - (double)below;
	double low = values[below], high = values[above];
	return part > 0 && low < high ? low + (high - low) * part : low;
}

double band_student(uint64_t freedom)
{
	double n = (double)(freedom < 2 ? 2 : freedom);
	double z = z975, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;

	double t = z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
		   (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
	return t / z;
}

static double widening(uint64_t windows)
{
	if (windows == 0) {
		return 1;
	}
	double count = (double)(windows < 3 ? 3 : windows);
	return sqrt(count / (count - 1)) * band_student(windows < 3 ? 2 : windows - 1);
}

static double *sorted_of(const uint64_t *values, uint32_t count)
{
	double *sorted = memory_take(count, sizeof(*sorted));

	for (uint32_t i = 0; i < count; i++) {
		sorted[i] = value_of(values[i]);
	}
	qsort(sorted, count, sizeof(*sorted), by_value);
	return sorted;
}

/* What is less than anything that was searched counts as `least`. sorted: (count) ascending. */
static void raise_to(double *sorted, uint32_t count, uint64_t least)
{
	for (uint32_t i = 0; i < count; i++) {
		sorted[i] = fmax(sorted[i], (double)least);
	}
}

struct band band_of_counts(
	const uint64_t *values, uint32_t count, uint64_t least, uint64_t searched)
{
	struct band band = {0};

	if (count < BAND_VALUES_MIN) {
		return band;
	}
	double *sorted = sorted_of(values, count);
	raise_to(sorted, count, least);
	band.low = floor(quantile(sorted, count, 0.025));
	raise_to(sorted, count, searched);
	band.high = ceil(quantile(sorted, count, 0.975));
	free(sorted);
	band.has_low = !isinf(band.low);
	band.has_high = !isinf(band.high);
	return band;
}

/* Half the width of an interval. */
static double half_of(const double *sorted, uint32_t count, uint64_t windows)
{
	return (quantile(sorted, count, 0.975) - quantile(sorted, count, 0.025)) / 2 *
	       widening(windows);
}

struct band band_of_sampling(
	double answer, const uint64_t *values, uint32_t count, uint64_t windows)
{
	struct band band = {0};

	if (count < BAND_VALUES_MIN) {
		return band;
	}
	double *sorted = sorted_of(values, count);
	double half = half_of(sorted, count, windows);
	free(sorted);
	band.has_high = half < INFINITY;
	band.has_low = half < answer;
	band.low = band.has_low ? answer - half : 0;
	band.high = band.has_high ? answer + half : 0;
	return band;
}

/* From -1 to 1; a ratio r is (r - 1) / (r + 1). */
static double difference_of(double first, double second)
{
	if (isinf(first) || isinf(second)) {
		return (isinf(first) ? 1.0 : 0.0) - (isinf(second) ? 1.0 : 0.0);
	}
	return first + second > 0 ? (first - second) / (first + second) : 0;
}

struct band band_of_ratio(double first, double second, const double *firsts, const double *seconds,
	uint32_t count, uint64_t windows)
{
	struct band band = {0};

	if (count < BAND_VALUES_MIN) {
		return band;
	}
	double *sorted = memory_take(count, sizeof(*sorted));
	for (uint32_t i = 0; i < count; i++) {
		sorted[i] = difference_of(firsts[i], seconds[i]);
	}
	qsort(sorted, count, sizeof(*sorted), by_value);
	double half = half_of(sorted, count, windows);
	free(sorted);
	double middle = difference_of(first, second);
	double low = middle - half, high = middle + half;
	band.has_low = low > -1;
	band.has_high = high < 1;
	band.low = band.has_low ? (1 + low) / (1 - low) : 0;
	band.high = band.has_high ? (1 + high) / (1 - high) : 0;
	return band;
}

/* ---- replicates ---- */

struct search_options band_search(
	const struct search_options *plan, uint64_t answer, uint64_t coarseness)
{
	uint64_t most = answer > plan->maximum / BAND_RANGE ? plan->maximum : answer * BAND_RANGE;

	return (struct search_options){
		.is_least = plan->is_least,
		.minimum = u64_max(plan->minimum, answer / BAND_RANGE),
		.maximum = most,
		.first = answer,
		.precision = plan->precision * coarseness,
		.first_step = FIRST_STEP,
		.width = 1,
	};
}

uint64_t band_value(
	const struct search_answer *answer, bool is_least, double pass_margin, double fail_margin)
{
	if (!answer->has_pass) {
		return is_least ? BAND_MORE : BAND_LESS;
	}
	if (!answer->has_fail) {
		return is_least ? BAND_LESS : BAND_MORE;
	}
	double pass = (double)answer->highest_pass, fail = (double)answer->lowest_fail;
	bool has_line = pass_margin <= 0 && fail_margin >= 0 && fail_margin > pass_margin;
	double share = has_line ? -pass_margin / (fail_margin - pass_margin) : 0.5;
	bool is_exact = fail - pass <= 1 && pass - fail <= 1;
	return is_exact ? answer->highest_pass : (uint64_t)(pass + (fail - pass) * share + 0.5);
}

struct band_window band_window_of(uint64_t span_ns, uint64_t latency_ns)
{
	uint64_t longest = u64_max(span_ns / BAND_WINDOWS_MIN, 1);
	uint64_t least = u64_max(span_ns / BAND_WINDOWS_MOST, 1);
	u128 needed = (u128)latency_ns * BAND_LATENCIES;
	u128 all = needed * BAND_WINDOWS_MIN;
	struct band_window out = {
		.window_ns = needed > longest ? longest : u64_max((uint64_t)needed, least),
		.is_too_short = needed > longest,
		.needed_ns = all > UINT64_MAX ? UINT64_MAX : (uint64_t)all,
	};

	out.windows = u64_divide_up(span_ns, out.window_ns);
	return out;
}
