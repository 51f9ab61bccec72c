#ifndef BENCH_RECORD_HISTOGRAM_H
#define BENCH_RECORD_HISTOGRAM_H

#include <stdint.h>

#include "engine/base/integer.h"

/* A log-linear histogram of nanoseconds: exact below 2,048, above that buckets whose width is 2^-10
   of their value or less. Memory does not depend on the number of values. Mean, deviation, minimum
   and maximum are exact; a percentile is the upper end of the bucket that contains the nearest
   rank. */

enum {
	HISTOGRAM_SUB_BITS = 10,
	HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
	uint64_t count;
	u128 sum;
	/* The sum of the squares is squares + squares_over * 2^128. It fits for less than 2^63
	   values. */
	u128 squares;
	uint64_t squares_over;
	uint64_t min, max; /* of a value at least */
	uint64_t *counts;  /* (HISTOGRAM_BUCKETS) */
};

void histogram_init(struct histogram *histogram);
void histogram_deinit(struct histogram *histogram);

/* Adds the value `times` times. */
void histogram_add(struct histogram *histogram, uint64_t value, uint64_t times);

/* Adds all values of another one. */
void histogram_add_all(struct histogram *histogram, const struct histogram *other);

/* The value of the nearest rank, per_mille in [1, 1000]; the histogram must not be empty. */
uint64_t histogram_percentile(const struct histogram *histogram, uint32_t per_mille);

/* The standard deviation, rounded down; the histogram must not be empty. */
uint64_t histogram_deviation(const struct histogram *histogram);

/* Rounded down; the histogram must not be empty. */
uint64_t histogram_mean(const struct histogram *histogram);

/* The largest value of a bucket. */
uint64_t histogram_upper(uint32_t bucket);

#endif
