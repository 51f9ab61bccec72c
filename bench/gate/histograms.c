#include "bench/gate/histograms.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A bucket is named by the leading 6 bits of its values and how many bits follow: those of 32
   buckets for each doubling. Values below 64 are exact. */
enum { LEADING_BITS = 6, SUB_BUCKETS = 1 << (LEADING_BITS - 1), INDEX_MAX = 60 * SUB_BUCKETS - 1 };

static uint32_t index_of(uint64_t value)
{
	if (value >> LEADING_BITS == 0) {
		return (uint32_t)value;
	}
	uint32_t shift = 64 - LEADING_BITS - (uint32_t)__builtin_clzll(value);
	return shift * SUB_BUCKETS + (uint32_t)(value >> shift);
}

static uint64_t upper_of(uint32_t index)
{
	if (index >> LEADING_BITS == 0) {
		return index;
	}
	uint32_t shift = index / SUB_BUCKETS - 1;
	uint64_t leading = index - (uint64_t)shift * SUB_BUCKETS;
	/* for the last bucket the sum wraps to 0, and the difference to the largest value */
	return ((leading + 1) << shift) - 1;
}

static void add(
	struct coarse_histogram *histogram, size_t *capacity, uint64_t value, uint64_t count)
{
	uint64_t upper = upper_of(index_of(value));
	uint32_t last = histogram->count;

	histogram->values += count;
	if (last > 0 && histogram->buckets[last - 1].upper_ns == upper) {
		histogram->buckets[last - 1].count += count;
		return;
	}
	histogram->buckets = memory_grow(
		histogram->buckets, capacity, (size_t)last + 1, sizeof(*histogram->buckets));
	histogram->buckets[histogram->count++] = (struct coarse_bucket){upper, count};
}

static uint32_t latency_named(const char *name)
{
	uint32_t latency = 0;

	while (latency < LATENCY_COUNT && strcmp(name, latency_names[latency]) != 0) {
		latency++;
	}
	return latency;
}

static enum status read_rows(
	struct histograms *out, struct table_reader *table, struct error *error)
{
	size_t capacity[LATENCY_COUNT] = {0};
	uint64_t last[LATENCY_COUNT] = {0};
	uint32_t metric, upper, count;

	table_reader_column(table, "metric", &metric, error);
	table_reader_column(table, "upper_ns", &upper, error);
	TRY(table_reader_column(table, "count", &count, error));
	while (table_reader_next(table, error)) {
		uint32_t latency = latency_named(table->cells[metric]);
		uint64_t value, values;
		if (latency == LATENCY_COUNT) {
			return table_reader_refuse(table, metric, "a latency's name", error);
		}
		table_reader_u64(table, upper, UINT64_MAX, &value, error);
		TRY(table_reader_u64(table, count, JSON_INTEGER_MAX, &values, error));
		if (value < last[latency]) {
			return table_reader_refuse(table, upper, "a rising number", error);
		}
		last[latency] = value;
		if (values > 0) {
			add(&out->of[latency], &capacity[latency], value, values);
		}
	}
	return error->status;
}

enum status histograms_read(struct histograms *out, const char *path, struct error *error)
{
	struct table_reader table;

	*out = (struct histograms){.is_known = true};
	enum status status = table_reader_open(&table, path, NULL, error);
	if (status == STATUS_OK) {
		status = read_rows(out, &table, error);
	}
	table_reader_close(&table);
	return status;
}

void histograms_close(struct histograms *histograms)
{
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		free(histograms->of[i].buckets);
	}
	*histograms = (struct histograms){.is_known = false};
}

cJSON *histograms_to_json(const struct histograms *histograms)
{
	cJSON *object = cJSON_CreateObject();

	for (uint32_t latency = 0; latency < LATENCY_COUNT; latency++) {
		const struct coarse_histogram *histogram = &histograms->of[latency];
		cJSON *list = cJSON_CreateArray();
		uint32_t before = 0;
		for (uint32_t i = 0; i < histogram->count; i++) {
			uint32_t index = index_of(histogram->buckets[i].upper_ns);
			cJSON_AddItemToArray(list, cJSON_CreateNumber(index - before));
			cJSON_AddItemToArray(
				list, cJSON_CreateNumber((double)histogram->buckets[i].count));
			before = index;
		}
		cJSON_AddItemToObject(object, latency_names[latency], list);
	}
	return object;
}

/* Whether a node is an integer in [minimum, maximum]. */
static bool is_integer(const cJSON *node, double minimum, double maximum)
{
	return cJSON_IsNumber(node) && node->valuedouble >= minimum &&
	       node->valuedouble <= maximum && node->valuedouble == floor(node->valuedouble);
}

static enum status list_from_json(struct coarse_histogram *out, const struct json_object *object,
	const char *name, struct error *error)
{
	const cJSON *list = json_find(object, name);
	size_t capacity = 0;
	double index = 0;

	if (!cJSON_IsArray(list)) {
		return json_refuse(object, name, "a list of buckets and counts", error);
	}
	for (const cJSON *item = list->child; item != NULL; item = item->next->next) {
		const cJSON *count = item->next;
		/* only the first bucket may be bucket 0 */
		bool is_bucket = is_integer(item, item == list->child ? 0 : 1, INDEX_MAX - index);
		if (!is_bucket || !is_integer(count, 1, (double)JSON_INTEGER_MAX)) {
			return json_refuse(object, name,
				"rising buckets, each with a count of 1 or more", error);
		}
		index += item->valuedouble;
		add(out, &capacity, upper_of((uint32_t)index), (uint64_t)count->valuedouble);
	}
	return STATUS_OK;
}

enum status histograms_from_json(
	struct histograms *out, const struct json_object *object, struct error *error)
{
	*out = (struct histograms){.is_known = true};
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		TRY(list_from_json(&out->of[i], object, latency_names[i], error));
	}
	return STATUS_OK;
}

bool histogram_part(const struct coarse_histogram *base, const struct coarse_histogram *value,
	struct histogram_gap *gap)
{
	uint64_t base_sum = 0, sum = 0;
	double most = 0;

	if (base->values == 0 || value->values == 0) {
		return false;
	}
	for (uint32_t i = 0, j = 0; i < base->count || j < value->count;) {
		uint64_t a = i < base->count ? base->buckets[i].upper_ns : UINT64_MAX;
		uint64_t b = j < value->count ? value->buckets[j].upper_ns : UINT64_MAX;
		uint64_t at = a < b ? a : b;
		base_sum += i < base->count && a == at ? base->buckets[i++].count : 0;
		sum += j < value->count && b == at ? value->buckets[j++].count : 0;
		double base_share = (double)base_sum / (double)base->values;
		double share = (double)sum / (double)value->values;
		if (fabs(share - base_share) > most) {
			most = fabs(share - base_share);
			*gap = (struct histogram_gap){at, base_share, share};
		}
	}
	return most > 0;
}
