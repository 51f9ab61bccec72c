#include "bench/record/histogram.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The value's leading 11 bits select the bucket, the number of bits below them its octave. */
static uint32_t bucket_of(uint64_t value)
{
	if (value >> (HISTOGRAM_SUB_BITS + 1) == 0) {
		return (uint32_t)value;
	}
	uint32_t shift = 63 - HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(value);
	return (shift << HISTOGRAM_SUB_BITS) + (uint32_t)(value >> shift);
}

uint64_t histogram_upper(uint32_t bucket)
{
	check(bucket < HISTOGRAM_BUCKETS);
	if (bucket >> (HISTOGRAM_SUB_BITS + 1) == 0) {
		return bucket;
	}
	uint32_t shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
	uint64_t leading = bucket - ((uint64_t)shift << HISTOGRAM_SUB_BITS);
	/* For the last bucket the sum wraps to 0 and the difference to the largest value. */
	return ((leading + 1) << shift) - 1;
}

void histogram_init(struct histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->counts = memory_take(HISTOGRAM_BUCKETS, sizeof(uint64_t));
}

void histogram_deinit(struct histogram *histogram)
{
	free(histogram->counts);
	memset(histogram, 0, sizeof(*histogram));
}

static inline void add_squares(struct histogram *histogram, u128 squares, uint64_t over)
{
	histogram->squares += squares;
	histogram->squares_over += over + (histogram->squares < squares);
}

void histogram_add(struct histogram *histogram, uint64_t value, uint64_t times)
{
	if (times == 0) {
		return;
	}
	histogram->min = histogram->count == 0 ? value : u64_min(histogram->min, value);
	histogram->count += times;
	const u128 product = (u128)value * times;
	histogram->sum += product;
	add_squares(histogram, (u128)(uint64_t)product * value, 0);
	if (product >> 64 != 0) {
		const u128 high = (product >> 64) * value;
		add_squares(histogram, high << 64, (uint64_t)(high >> 64));
	}
	histogram->max = u64_max(histogram->max, value);
	histogram->counts[bucket_of(value)] += times;
}

void histogram_add_all(struct histogram *histogram, const struct histogram *other)
{
	if (other->count == 0) {
		return;
	}
	histogram->min = histogram->count == 0 ? other->min : u64_min(histogram->min, other->min);
	histogram->max = u64_max(histogram->max, other->max);
	histogram->count += other->count;
	histogram->sum += other->sum;
	add_squares(histogram, other->squares, other->squares_over);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		histogram->counts[i] += other->counts[i];
	}
}

uint64_t histogram_percentile(const struct histogram *histogram, uint32_t per_mille)
{
	check(histogram->count > 0);
	check(per_mille >= 1 && per_mille <= 1000);
	uint64_t rank = (uint64_t)(((u128)histogram->count * per_mille + 999) / 1000);
	uint64_t seen = 0;
	for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		seen += histogram->counts[bucket];
		if (seen >= rank) {
			return u64_min(histogram_upper(bucket), histogram->max);
		}
	}
	check_unreachable("a rank beyond the histogram's count");
}

uint64_t histogram_mean(const struct histogram *histogram)
{
	check(histogram->count > 0);
	return (uint64_t)(histogram->sum / histogram->count);
}

/* The sum of the squared distances from the mean rounded down, m, where r is the rest of that
   division: sum of v^2 - m * (sum + r). Divided by the count; *rest is what is left. No variance of
   64-bit values reaches 2^127. */
static u128 divide_squares(const struct histogram *histogram, uint64_t mean, uint64_t r, u128 *rest)
{
	const uint64_t count = histogram->count;
	const u128 factor = histogram->sum + r;
	const u128 low = (u128)(uint64_t)factor * mean;
	const u128 high = (factor >> 64) * mean;
	const u128 product = low + (high << 64);
	uint64_t over = (uint64_t)(high >> 64) + (product < low);
	u128 squares = histogram->squares - product;

	over = histogram->squares_over - over - (squares > histogram->squares);
	const u128 upper = (u128)(over % count) << 64 | (uint64_t)(squares >> 64);
	const u128 lower = upper % count << 64 | (uint64_t)squares;
	*rest = lower % count;
	return upper / count << 64 | lower / count;
}

static uint64_t square_root(u128 value)
{
	uint64_t low = 0;

	for (uint32_t bit = 64; bit-- > 0;) {
		uint64_t root = low | UINT64_C(1) << bit;
		low = (u128)root * root <= value ? root : low;
	}
	return low;
}

uint64_t histogram_deviation(const struct histogram *histogram)
{
	uint64_t mean = histogram_mean(histogram);
	uint64_t r = (uint64_t)(histogram->sum % histogram->count);
	u128 rest, variance = divide_squares(histogram, mean, r, &rest);

	/* The mean itself is r / count above m. */
	variance -= rest * histogram->count < (u128)r * r;
	return square_root(variance);
}
