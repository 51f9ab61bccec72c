#include "bench/sweep/sweep_internal.h"

#include "engine/base/number.h"

#include <stdio.h>
#include <string.h>

/* Runs that assume more KV blocks than the GPU's memory has room for. */

/* The fields of an entry of the summary, which are the facts of a warning too. */
static void add_entry(
	cJSON *list, const char *name, const cJSON *root, const struct json_object *config)
{
	const cJSON *found = cJSON_GetObjectItemCaseSensitive(root, SUMMARY_FOUND_KV_BLOCKS);
	const cJSON *blocks = json_find(config, "kv_blocks");
	const cJSON *gpu = json_find(config, "gpu");

	if (!cJSON_IsNumber(blocks) || !cJSON_IsString(gpu)) {
		return;
	}
	cJSON *entry = cJSON_CreateObject();
	cJSON_AddStringToObject(entry, "run", name);
	cJSON_AddStringToObject(entry, "gpu", gpu->valuestring);
	cJSON_AddNumberToObject(entry, "kv_blocks", blocks->valuedouble);
	cJSON_AddNumberToObject(
		entry, SUMMARY_FOUND_KV_BLOCKS, cJSON_IsNumber(found) ? found->valuedouble : 0);
	cJSON_AddItemToArray(list, entry);
}

cJSON *sweep_memory_json(const struct sweep *sweep, struct error *error)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < sweep->grid.count && error->status == STATUS_OK; i++) {
		struct json_document document = {0};
		struct json_object root, config;
		if (sweep->items[i].status != SWEEP_RUN_COMPLETE ||
			sweep_open_json(sweep, i, RESULT_SUMMARY, &document, error) != STATUS_OK) {
			continue;
		}
		json_root(&root, &document, error);
		if (cJSON_IsTrue(json_find(&root, SUMMARY_BEYOND_MEMORY)) &&
			json_object(&root, SUMMARY_CONFIG, &config, error) == STATUS_OK) {
			add_entry(list, sweep->grid.list[i].name, root.node, &config);
		}
		json_document_close(&document);
	}
	return list;
}

static uint64_t number_of(const cJSON *entry, const char *field)
{
	return (uint64_t)cJSON_GetObjectItemCaseSensitive(entry, field)->valuedouble;
}

/* Whether an entry before it has the same GPU and KV blocks. */
static bool is_said(const cJSON *list, const cJSON *entry)
{
	const cJSON *gpu = cJSON_GetObjectItemCaseSensitive(entry, "gpu");
	const cJSON *other = NULL;

	cJSON_ArrayForEach(other, list)
	{
		if (other == entry) {
			return false;
		}
		if (number_of(other, "kv_blocks") == number_of(entry, "kv_blocks") &&
			number_of(other, SUMMARY_FOUND_KV_BLOCKS) ==
				number_of(entry, SUMMARY_FOUND_KV_BLOCKS) &&
			cJSON_Compare(cJSON_GetObjectItemCaseSensitive(other, "gpu"), gpu, true)) {
			return true;
		}
	}
	return false;
}

static void warn(const cJSON *entry)
{
	uint64_t blocks = number_of(entry, "kv_blocks");
	uint64_t found = number_of(entry, SUMMARY_FOUND_KV_BLOCKS);

	fprintf(stderr, "warning: %llu KV %s more than the memory of %s has room for",
		(unsigned long long)blocks, word_of_count(blocks, "block is", "blocks are"),
		cJSON_GetObjectItemCaseSensitive(entry, "gpu")->valuestring);
	if (found > 0) {
		fprintf(stderr, ", which is %llu\n", (unsigned long long)found);
	} else {
		fprintf(stderr, ": beside the weights none fits\n");
	}
}

/* More values than these are counted only. */
enum { WARNINGS_MAX = 8 };

enum status sweep_warn_of_memory(const struct sweep *sweep, struct error *error)
{
	cJSON *list = sweep_memory_json(sweep, error);
	const cJSON *entry = NULL;
	uint64_t values = 0;

	cJSON_ArrayForEach(entry, list)
	{
		bool is_new = !is_said(list, entry);
		values += is_new;
		if (is_new && values <= WARNINGS_MAX) {
			warn(entry);
		}
	}
	if (values > WARNINGS_MAX) {
		fprintf(stderr, "warning: likewise %llu more %s of KV blocks\n",
			(unsigned long long)(values - WARNINGS_MAX),
			word_of_count(values - WARNINGS_MAX, "value", "values"));
	}
	cJSON_Delete(list);
	return error->status;
}
