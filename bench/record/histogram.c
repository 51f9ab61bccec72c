#include "bench/record/histogram.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <math.h>
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

void histogram_add(struct histogram *histogram, uint64_t value, uint64_t times)
{
	if (times == 0) {
		return;
	}
	histogram->min = histogram->count == 0 ? value : u64_min(histogram->min, value);
	histogram->count += times;
	histogram->sum += (u128)value * times;
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

uint64_t histogram_deviation(const struct histogram *histogram)
{
	double mean = (double)histogram->sum / (double)histogram->count, squares = 0;

	check(histogram->count > 0);
	for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		if (histogram->counts[bucket] > 0) {
			double value = (double)u64_min(histogram_upper(bucket), histogram->max);
			squares +=
				(value - mean) * (value - mean) * (double)histogram->counts[bucket];
		}
	}
	return (uint64_t)sqrt(squares / (double)histogram->count);
}
