#include "bench/gate/histograms.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Coarse histograms, against the values themselves. */

enum { VALUES_MAX = 300 };

struct made_values {
	uint32_t count;
	uint64_t values[VALUES_MAX]; /* rising */
};

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static struct made_values make_values(struct prop *prop)
{
	struct made_values out = {.count = prop_range(prop, 1, VALUES_MAX)};

	for (uint32_t i = 0; i < out.count; i++) {
		/* every magnitude, and often the ends of buckets */
		uint32_t bits = prop_range(prop, 0, 63);
		uint64_t power = UINT64_C(1) << bits, rest = prop_below(prop, power);
		out.values[i] = prop_chance(prop, 1, 3) ? power - (rest & 1) : power + rest;
	}
	qsort(out.values, out.count, sizeof(out.values[0]), by_value);
	return out;
}

/* Of one latency, as `quire replay` writes it. */
static void read_values(struct histograms *out, const struct made_values *made, const char *folder)
{
	char path[TEMPORARY_PATH_BYTES];
	struct error error = {0};

	snprintf(path, sizeof(path), "%s/latency.tsv", folder);
	FILE *file = fopen(path, "w");
	require(file != NULL, "%s", path);
	fputs("metric\tupper_ns\tcount\n", file);
	for (uint32_t i = 0; i < made->count; i++) {
		fprintf(file, "tpot\t%llu\t1\n", (unsigned long long)made->values[i]);
	}
	fclose(file);
	enum status status = histograms_read(out, path, &error);
	require(status == STATUS_OK, "%s", error.text);
}

/* As a baseline keeps it. */
static void read_again(struct histograms *out, const struct histograms *histograms)
{
	struct error error = {0};
	cJSON *json = histograms_to_json(histograms);
	struct json_document document = {.name = "baseline", .root = json};
	struct json_object object = {.document = &document, .node = json};

	enum status status = histograms_from_json(out, &object, &error);
	require(status == STATUS_OK, "%s", error.text);
	cJSON_Delete(json);
}

/* How many values are at most a number. */
static uint32_t count_to(const struct made_values *made, uint64_t at)
{
	uint32_t count = 0;

	while (count < made->count && made->values[count] <= at) {
		count++;
	}
	return count;
}

/* Buckets rise, are narrow, and hold the values that they should. */
static void require_histogram(
	const struct coarse_histogram *histogram, const struct made_values *made)
{
	uint64_t sum = 0;

	require_equal(histogram->values, made->count);
	for (uint32_t i = 0; i < histogram->count; i++) {
		const struct coarse_bucket *bucket = &histogram->buckets[i];
		sum += bucket->count;
		require(i == 0 || bucket->upper_ns > bucket[-1].upper_ns, "bucket %u", i);
		require_equal(sum, count_to(made, bucket->upper_ns));
		uint64_t largest = made->values[sum - 1];
		require(bucket->upper_ns - largest <= largest / 32, "%llu for %llu",
			(unsigned long long)bucket->upper_ns, (unsigned long long)largest);
	}
	require_equal(sum, made->count);
}

static void require_alike(const struct coarse_histogram *a, const struct coarse_histogram *b)
{
	struct histogram_gap gap;

	require_equal(a->count, b->count);
	require_equal(a->values, b->values);
	require(!histogram_part(a, b, &gap), "apart at %llu", (unsigned long long)gap.at_ns);
	for (uint32_t i = 0; i < a->count; i++) {
		require_equal(a->buckets[i].upper_ns, b->buckets[i].upper_ns);
		require_equal(a->buckets[i].count, b->buckets[i].count);
	}
}

/* The gap is that of the values at an end of a bucket, and no end has a larger one. */
static void require_gap(const struct coarse_histogram *a, const struct made_values *of_a,
	const struct coarse_histogram *b, const struct made_values *of_b)
{
	struct histogram_gap gap = {0};
	bool is_apart = histogram_part(a, b, &gap);
	double found = is_apart ? fabs(gap.share - gap.base_share) : 0, most = 0;

	if (is_apart) {
		double base = (double)count_to(of_a, gap.at_ns) / of_a->count;
		double share = (double)count_to(of_b, gap.at_ns) / of_b->count;
		require(base == gap.base_share && share == gap.share, "%g %g", base, share);
	}
	for (uint32_t i = 0; i < a->count + b->count; i++) {
		uint64_t at =
			i < a->count ? a->buckets[i].upper_ns : b->buckets[i - a->count].upper_ns;
		double base = (double)count_to(of_a, at) / of_a->count;
		double share = (double)count_to(of_b, at) / of_b->count;
		most = fmax(most, fabs(share - base));
	}
	require(most == found, "found %g, there is %g", found, most);
}

static void check_two(struct prop *prop, const void *folder)
{
	struct made_values made[2];
	struct histograms read[2], again;

	for (uint32_t i = 0; i < 2; i++) {
		made[i] = make_values(prop);
		read_values(&read[i], &made[i], folder);
		require_histogram(&read[i].of[LATENCY_TPOT], &made[i]);
		require_equal(read[i].of[LATENCY_TTFT].count, 0);
	}
	read_again(&again, &read[0]);
	require_alike(&read[0].of[LATENCY_TPOT], &again.of[LATENCY_TPOT]);
	require_gap(&read[0].of[LATENCY_TPOT], &made[0], &read[1].of[LATENCY_TPOT], &made[1]);
	histograms_close(&read[0]);
	histograms_close(&read[1]);
	histograms_close(&again);
}

Test(histograms, hold_the_values_and_tell_where_two_part)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	cr_assert(prop_holds(&(struct prop_options){
		.name = "histograms", .body = check_two, .context = folder, .trials = 200}));
	temporary_remove(folder);
}

/* What a baseline may not have in place of buckets and counts. */
Test(histograms, a_damaged_baseline_is_refused)
{
	static const char *const lists[] = {"7", "[1]", "[1, 0]", "[-1, 2]", "[1.5, 2]",
		"[1, 2, 0, 3]", "[1919, 2, 1, 2]", "[1920, 2]", "[1, \"x\"]", "[null, 2]", "{}"};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct error error = {0};
		struct json_document document;
		struct json_object object;
		struct histograms histograms;
		char text[256];
		snprintf(text, sizeof(text),
			"{\"queue\": [], \"ttft\": %s, \"tpot\": [], \"itl\": [], \"e2e\": []}",
			lists[i]);
		json_document_parse(&document, "b.json", text, strlen(text), &error);
		json_root(&object, &document, &error);
		require_equal(error.status, STATUS_OK);
		enum status status = histograms_from_json(&histograms, &object, &error);
		require(status == STATUS_INPUT && strstr(error.text, "ttft") != NULL, "%s: %s",
			lists[i], error.text);
		histograms_close(&histograms);
		json_document_close(&document);
	}
}
