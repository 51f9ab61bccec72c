#ifndef BENCH_GATE_HISTOGRAMS_H
#define BENCH_GATE_HISTOGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "reports/results/results.h"

/* The latencies of a run in a few kilobytes: histograms with 32 buckets for each doubling, made of
   those of latency.tsv, whose buckets are finer. They tell how much of a distribution moved, where
   a percentile tells of one request. */

struct coarse_bucket {
	uint64_t upper_ns; /* the largest value that it may hold */
	uint64_t count;	   /* > 0 */
};

struct coarse_histogram {
	struct coarse_bucket *buckets; /* (count) owned, by rising upper_ns */
	uint32_t count;
	uint64_t values; /* the sum of the buckets' counts */
};

struct histograms {
	bool is_known; /* false: of a baseline that has none */
	struct coarse_histogram of[LATENCY_COUNT];
};

/* Reads a latency.tsv. To be closed after a failure too. */
enum status histograms_read(struct histograms *out, const char *path, struct error *error);
void histograms_close(struct histograms *histograms);

/* To and from a baseline: for each latency a list of bucket, count, bucket, count; a bucket is
   given by its distance from the one before. */
cJSON *histograms_to_json(const struct histograms *histograms);
enum status histograms_from_json(
	struct histograms *out, const struct json_object *object, struct error *error);

/* Where two distributions are farthest apart (the distance of Kolmogorov and Smirnov). */
struct histogram_gap {
	uint64_t at_ns;
	double base_share, share; /* of the values that are at_ns or less */
};

/* False: the histograms are equal, or one has no values. */
bool histogram_part(const struct coarse_histogram *base, const struct coarse_histogram *value,
	struct histogram_gap *gap);

#endif
