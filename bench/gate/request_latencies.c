#include "bench/gate/request_latencies.h"

#include "engine/base/memory.h"
#include "engine/base/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_kept(uint32_t latency)
{
	return latency != LATENCY_ITL;
}

static void take(struct request_latencies *out, uint64_t count)
{
	*out = (struct request_latencies){.count = (uint32_t)count};
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		if (!is_kept(i)) {
			continue;
		}
		out->ns[i] = memory_take_uncleared((size_t)count * sizeof(*out->ns[i]));
		for (uint64_t j = 0; j < count; j++) {
			out->ns[i][j] = NO_LATENCY;
		}
	}
}

static enum status read_rows(struct request_latencies *out, struct table_reader *table,
	uint64_t first, struct error *error)
{
	uint32_t columns[LATENCY_COUNT] = {0}, id_column, finish_column;

	table_reader_column(table, "id", &id_column, error);
	TRY(table_reader_column(table, "finish_ns", &finish_column, error));
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s_ns", latency_names[i]);
		if (is_kept(i)) {
			TRY(table_reader_column(table, name, &columns[i], error));
		}
	}
	while (table_reader_next(table, error)) {
		uint64_t id;
		TRY(table_reader_u64(table, id_column, UINT64_MAX, &id, error));
		bool is_finished = strcmp(table->cells[finish_column], "-") != 0;
		if (!is_finished || id < first || id - first >= out->count) {
			continue;
		}
		for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
			if (is_kept(i) && strcmp(table->cells[columns[i]], "-") != 0) {
				TRY(table_reader_u64(table, columns[i], JSON_INTEGER_MAX,
					&out->ns[i][id - first], error));
			}
		}
	}
	return error->status;
}

enum status request_latencies_read(struct request_latencies *out, const char *path, uint64_t first,
	uint64_t count, struct error *error)
{
	struct table_reader table;

	*out = (struct request_latencies){.count = 0};
	if (count == 0 || count > REQUEST_LATENCIES_MAX) {
		return STATUS_OK;
	}
	take(out, count);
	enum status status = table_reader_open(&table, path, NULL, error);
	if (status == STATUS_OK) {
		status = read_rows(out, &table, first, error);
	}
	table_reader_close(&table);
	return status;
}

void request_latencies_close(struct request_latencies *latencies)
{
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		free(latencies->ns[i]);
	}
	*latencies = (struct request_latencies){.count = 0};
}

cJSON *request_latencies_to_json(const struct request_latencies *latencies)
{
	cJSON *object = cJSON_CreateObject();

	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		if (!is_kept(i)) {
			continue;
		}
		cJSON *list = cJSON_CreateArray();
		for (uint32_t j = 0; j < latencies->count; j++) {
			uint64_t ns = latencies->ns[i][j];
			cJSON_AddItemToArray(list, ns == NO_LATENCY
							   ? cJSON_CreateNull()
							   : cJSON_CreateNumber((double)ns));
		}
		cJSON_AddItemToObject(object, latency_names[i], list);
	}
	return object;
}

static enum status list_from_json(uint64_t *out, const cJSON *list,
	const struct json_object *object, const char *name, struct error *error)
{
	uint32_t count = 0;

	for (const cJSON *item = list->child; item != NULL; item = item->next, count++) {
		double ns = item->valuedouble;
		if (cJSON_IsNull(item)) {
			continue;
		}
		if (!cJSON_IsNumber(item) || !(ns >= 0) || ns > (double)JSON_INTEGER_MAX ||
			ns != floor(ns)) {
			return json_refuse(object, name, "nanoseconds, or null", error);
		}
		out[count] = (uint64_t)ns;
	}
	return STATUS_OK;
}

enum status request_latencies_from_json(
	struct request_latencies *out, const struct json_object *object, struct error *error)
{
	*out = (struct request_latencies){.count = 0};
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		if (!is_kept(i)) {
			continue;
		}
		const cJSON *list = json_find(object, latency_names[i]);
		int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
		if (count > 0 && count <= REQUEST_LATENCIES_KEPT_MAX && out->count == 0) {
			take(out, (uint64_t)count);
		}
		if (count == 0 || (uint32_t)count != out->count) {
			return json_refuse(object, latency_names[i],
				"a list of 1 to 512 latencies, as many as of the others", error);
		}
		TRY(list_from_json(out->ns[i], list, object, latency_names[i], error));
	}
	return STATUS_OK;
}
