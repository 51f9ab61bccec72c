#include "bench/gate/evidence.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "reports/results/fields.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gate_costs_add(struct gate_costs *costs, enum gate_cost cost, double value)
{
	check(costs->counts[cost] < SUITE_REPEATS_MAX);
	costs->values[cost][costs->counts[cost]++] = value;
}

double gate_costs_mean(const struct gate_costs *costs, enum gate_cost cost)
{
	double sum = 0;

	for (uint32_t i = 0; i < costs->counts[cost]; i++) {
		sum += costs->values[cost][i];
	}
	return sum / costs->counts[cost];
}

static uint32_t metric_index(const struct metric *metric)
{
	return (uint32_t)(metric - metrics_table);
}

static void add_figures(struct evidence *evidence, const struct json_object *summary)
{
	size_t count = (size_t)(evidence->run_count + 1) * METRIC_COUNT;

	evidence->figures = memory_resize(evidence->figures, count * sizeof(double));
	evidence->is_present = memory_resize(evidence->is_present, count * sizeof(bool));
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		struct result_value value = metric_value(summary, &metrics_table[i]);
		size_t at = (size_t)evidence->run_count * METRIC_COUNT + i;
		evidence->figures[at] = value.value;
		evidence->is_present[at] = value.has_value;
	}
	if (evidence->is_computed) {
		evidence->requests = memory_resize(evidence->requests,
			(evidence->run_count + 1) * sizeof(*evidence->requests));
		evidence->requests[evidence->run_count] = (struct request_latencies){.count = 0};
	}
	evidence->run_count++;
}

/* Takes the latencies of the last run's measured requests. */
static enum status add_requests(struct evidence *evidence, const struct json_object *summary,
	const char *folder, struct error *error)
{
	struct result_value first = metric_value(summary, &metrics_table[VALUE_WARMUP]),
			    count = metric_value(summary, &metrics_table[VALUE_MEASURED]);
	char path[PATH_BYTES_MAX];

	if (!evidence->is_computed || !(first.value >= 0 && first.value <= 1e15) ||
		!(count.value >= 0 && count.value <= 1e15)) {
		return STATUS_OK;
	}
	TRY(path_format(path, error, "%s/%s", folder, RESULT_REQUESTS));
	return request_latencies_read(&evidence->requests[evidence->run_count - 1], path,
		(uint64_t)first.value, (uint64_t)count.value, error);
}

/* Refuses what is no summary of a whole run. */
static enum status check_whole(const struct json_object *summary, struct error *error)
{
	const char *schema, *ended;

	TRY(json_text(summary, SUMMARY_SCHEMA, &schema, error));
	if (strcmp(schema, RESULT_SCHEMA) != 0) {
		return json_refuse(summary, SUMMARY_SCHEMA, "\"" RESULT_SCHEMA "\"", error);
	}
	TRY(json_text(summary, SUMMARY_STATUS, &ended, error));
	return strcmp(ended, "complete") == 0
		       ? STATUS_OK
		       : json_refuse(summary, SUMMARY_STATUS, "\"complete\"", error);
}

/* Finds what judging needs in a summary, which stays in its document. */
static enum status find_fields(struct evidence *evidence, struct error *error)
{
	const struct json_object *summary = &evidence->summary;
	struct json_object config, trace;
	const char *kind;

	TRY(check_whole(summary, error));
	json_text(summary, SUMMARY_RUNNER_KIND, &kind, error);
	json_object(summary, SUMMARY_CONFIG, &config, error);
	json_object(summary, SUMMARY_TRACE, &trace, error);
	json_text(&trace, SUMMARY_TRACE_XXH64, &evidence->trace_xxh64, error);
	json_text(summary, SUMMARY_RESULT_HASH, &evidence->result_hash, error);
	TRY(error->status);
	evidence->is_computed = strcmp(kind, "computed") == 0;
	return STATUS_OK;
}

static enum status add_first(struct evidence *evidence, const char *folder, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool has_steps;

	TRY(path_format(path, error, "%s/%s", folder, RESULT_SUMMARY));
	TRY(json_document_open(&evidence->document, path, error));
	TRY(json_root(&evidence->summary, &evidence->document, error));
	TRY(find_fields(evidence, error));
	evidence->has_same_decisions = true;
	add_figures(evidence, &evidence->summary);
	TRY(add_requests(evidence, &evidence->summary, folder, error));
	TRY(path_format(path, error, "%s/%s", folder, RESULT_LATENCY));
	TRY(histograms_read(&evidence->histograms, path, error));
	TRY(path_format(path, error, "%s/%s", folder, RESULT_STEPS));
	TRY(path_is_there(path, &has_steps, error));
	/* a case of which only costs are judged has no steps */
	evidence->trail.stride = 1;
	return has_steps ? decision_trail_read(&evidence->trail, path, error) : STATUS_OK;
}

bool evidence_is_filled_in(const char *field)
{
	return strcmp(field, "kv_blocks") == 0 || strcmp(field, "max_model_len") == 0;
}

static enum status refuse_other(const struct json_object *object, const char *field,
	const cJSON *first, struct error *error)
{
	char *value = first == NULL ? NULL : cJSON_PrintUnformatted(first);
	char expected[128];

	snprintf(expected, sizeof(expected), "%.64s as in the case's first run",
		value == NULL ? "nothing" : value);
	cJSON_free(value);
	return json_refuse(object, field, expected, error);
}

/* Runs of a case are of one trace and have the same settings. */
static enum status check_alike(
	const struct evidence *evidence, const struct json_object *summary, struct error *error)
{
	struct json_object trace, config, first;
	const char *hash;

	json_object(&evidence->summary, SUMMARY_CONFIG, &first, error);
	json_object(summary, SUMMARY_CONFIG, &config, error);
	json_object(&evidence->summary, SUMMARY_TRACE, &trace, error);
	TRY(error->status);
	const cJSON *first_hash = json_find(&trace, SUMMARY_TRACE_XXH64);
	json_object(summary, SUMMARY_TRACE, &trace, error);
	TRY(json_text(&trace, SUMMARY_TRACE_XXH64, &hash, error));
	if (strcmp(hash, evidence->trace_xxh64) != 0) {
		return refuse_other(&trace, SUMMARY_TRACE_XXH64, first_hash, error);
	}
	for (const cJSON *item = first.node->child; item != NULL; item = item->next) {
		if (!evidence_is_filled_in(item->string) &&
			!cJSON_Compare(item, json_find(&config, item->string), true)) {
			return refuse_other(&config, item->string, item, error);
		}
	}
	for (const cJSON *item = config.node->child; item != NULL; item = item->next) {
		if (json_find(&first, item->string) == NULL) {
			return refuse_other(&config, item->string, NULL, error);
		}
	}
	return STATUS_OK;
}

enum status evidence_add_run(struct evidence *evidence, const char *folder, struct error *error)
{
	if (evidence->run_count == 0) {
		return add_first(evidence, folder, error);
	}
	struct json_document document = {.root = NULL};
	struct json_object summary;
	char path[PATH_BYTES_MAX];
	const char *hash = NULL;

	TRY(path_format(path, error, "%s/%s", folder, RESULT_SUMMARY));
	enum status status = json_document_open(&document, path, error);
	if (status == STATUS_OK) {
		json_root(&summary, &document, error);
		status = check_whole(&summary, error);
	}
	if (status == STATUS_OK) {
		status = check_alike(evidence, &summary, error);
	}
	if (status == STATUS_OK) {
		status = json_text(&summary, SUMMARY_RESULT_HASH, &hash, error);
	}
	if (status == STATUS_OK) {
		add_figures(evidence, &summary);
		evidence->has_same_decisions &= strcmp(hash, evidence->result_hash) == 0;
		status = add_requests(evidence, &summary, folder, error);
	}
	json_document_close(&document);
	return status;
}

/* ---- the baseline ---- */

/* The runs' figures, by the metrics' names, and the latencies of their requests. */
static cJSON *runs_to_json(const struct evidence *evidence)
{
	cJSON *runs = cJSON_CreateArray();

	for (uint32_t run = 0; run < evidence->run_count; run++) {
		cJSON *figures = cJSON_CreateObject();
		for (uint32_t i = 0; i < METRIC_COUNT; i++) {
			size_t at = (size_t)run * METRIC_COUNT + i;
			if (evidence->is_present[at]) {
				cJSON_AddNumberToObject(
					figures, metrics_table[i].name, evidence->figures[at]);
			}
		}
		const struct request_latencies *requests = &evidence->requests[run];
		if (requests->count > 0 && requests->count <= REQUEST_LATENCIES_KEPT_MAX) {
			cJSON_AddItemToObject(
				figures, "requests_ns", request_latencies_to_json(requests));
		}
		cJSON_AddItemToArray(runs, figures);
	}
	return runs;
}

void evidence_write(const struct evidence *evidence, const char *name, FILE *file)
{
	cJSON *root = cJSON_CreateObject(), *costs = cJSON_CreateObject();

	cJSON_AddStringToObject(root, SUMMARY_SCHEMA, BASELINE_SCHEMA);
	cJSON_AddStringToObject(root, "case", name);
	cJSON_AddBoolToObject(root, "same_decisions", evidence->has_same_decisions);
	cJSON_AddItemToObject(root, "summary", cJSON_Duplicate(evidence->summary.node, true));
	cJSON_AddItemToObject(root, "decisions", decision_trail_to_json(&evidence->trail));
	if (evidence->histograms.is_known) {
		cJSON_AddItemToObject(
			root, "histograms", histograms_to_json(&evidence->histograms));
	}
	if (evidence->is_computed) {
		cJSON_AddItemToObject(root, "runs", runs_to_json(evidence));
	}
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		uint32_t count = evidence->costs.counts[i];
		if (count > 0) {
			cJSON_AddItemToObject(costs, gate_cost_names[i],
				count == 1 ? cJSON_CreateNumber(evidence->costs.values[i][0])
					   : cJSON_CreateDoubleArray(
						     evidence->costs.values[i], (int)count));
		}
	}
	cJSON_AddItemToObject(root, "costs", costs);
	cJSON_AddStringToObject(root, "environment",
		evidence->environment.bytes == NULL ? "" : evidence->environment.bytes);
	json_print(root, file);
	cJSON_Delete(root);
}

/* The figures of one run. */
static enum status read_run(
	struct evidence *evidence, const struct json_object *run, struct error *error)
{
	struct json_object requests;

	add_figures(evidence, &evidence->summary);
	uint32_t last = evidence->run_count - 1;
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		const char *name = metrics_table[i].name;
		size_t at = (size_t)last * METRIC_COUNT + i;
		struct result_value value = {.has_value = false};
		if (json_find(run, name) != NULL) {
			TRY(field_number(run, name, false, DBL_MAX, &value, error));
		}
		evidence->is_present[at] = value.has_value;
		evidence->figures[at] = value.value;
	}
	if (!json_has(run, "requests_ns")) {
		return STATUS_OK;
	}
	TRY(json_object(run, "requests_ns", &requests, error));
	return request_latencies_from_json(&evidence->requests[last], &requests, error);
}

static enum status read_runs(
	struct evidence *evidence, const struct json_object *root, struct error *error)
{
	const cJSON *runs = json_find(root, "runs");

	if (!evidence->is_computed) {
		add_figures(evidence, &evidence->summary);
		return STATUS_OK;
	}
	if (!cJSON_IsArray(runs) || runs->child == NULL ||
		cJSON_GetArraySize(runs) > SUITE_REPEATS_MAX) {
		return json_refuse(root, "runs", "a list of 1 to 64 runs", error);
	}
	for (const cJSON *item = runs->child; item != NULL; item = item->next) {
		struct json_object run = {.document = root->document, .node = item};
		snprintf(run.path, sizeof(run.path), "runs[%u]", evidence->run_count);
		TRY(read_run(evidence, &run, error));
	}
	return STATUS_OK;
}

static enum status read_costs(
	struct evidence *evidence, const struct json_object *root, struct error *error)
{
	struct json_object costs;
	const char *environment;

	TRY(json_object(root, "costs", &costs, error));
	TRY(json_text(root, "environment", &environment, error));
	text_add(&evidence->environment, environment);
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		const cJSON *node = json_find(&costs, gate_cost_names[i]);
		/* one value, or a list of each run's */
		const cJSON *item = cJSON_IsArray(node) ? node->child : node;
		for (; item != NULL; item = item == node ? NULL : item->next) {
			if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
				item->valuedouble > 1e18 ||
				evidence->costs.counts[i] == SUITE_REPEATS_MAX) {
				return json_refuse(&costs, gate_cost_names[i],
					"a number from 0 to 1e18, or 1 to 64 of them", error);
			}
			gate_costs_add(&evidence->costs, i, item->valuedouble);
		}
	}
	return STATUS_OK;
}

/* A file that was copied from another case would be judged as this one's. */
static enum status check_case(const struct json_object *root, const char *name, struct error *error)
{
	char expected[SUITE_NAME_BYTES + 48];
	const char *found;

	TRY(json_text(root, "case", &found, error));
	snprintf(expected, sizeof(expected), "\"%.*s\", the case of this file", SUITE_NAME_BYTES,
		name);
	return strcmp(found, name) == 0 ? STATUS_OK : json_refuse(root, "case", expected, error);
}

enum status evidence_read(
	struct evidence *evidence, const char *path, const char *name, struct error *error)
{
	struct json_object root, decisions, histograms;
	const char *schema;

	memset(evidence, 0, sizeof(*evidence));
	TRY(json_document_open(&evidence->document, path, error));
	TRY(json_root(&root, &evidence->document, error));
	TRY(json_text(&root, SUMMARY_SCHEMA, &schema, error));
	if (strcmp(schema, BASELINE_SCHEMA) != 0) {
		return json_refuse(&root, SUMMARY_SCHEMA, "\"" BASELINE_SCHEMA "\"", error);
	}
	TRY(check_case(&root, name, error));
	json_bool(&root, "same_decisions", &evidence->has_same_decisions, error);
	json_object(&root, "summary", &evidence->summary, error);
	json_object(&root, "decisions", &decisions, error);
	TRY(error->status);
	TRY(find_fields(evidence, error));
	TRY(metrics_check(&evidence->summary, error));
	TRY(decision_trail_from_json(&evidence->trail, &decisions, error));
	if (json_has(&root, "histograms")) {
		TRY(json_object(&root, "histograms", &histograms, error));
		TRY(histograms_from_json(&evidence->histograms, &histograms, error));
	}
	TRY(read_runs(evidence, &root, error));
	return read_costs(evidence, &root, error);
}

void evidence_close(struct evidence *evidence)
{
	json_document_close(&evidence->document);
	decision_trail_close(&evidence->trail);
	histograms_close(&evidence->histograms);
	for (uint32_t i = 0; evidence->requests != NULL && i < evidence->run_count; i++) {
		request_latencies_close(&evidence->requests[i]);
	}
	free(evidence->requests);
	free(evidence->figures);
	free(evidence->is_present);
	text_deinit(&evidence->environment);
	memset(evidence, 0, sizeof(*evidence));
}

uint32_t evidence_figures(
	const struct evidence *evidence, const struct metric *metric, double *values)
{
	uint32_t count = 0;

	for (uint32_t run = 0; run < evidence->run_count; run++) {
		size_t at = (size_t)run * METRIC_COUNT + metric_index(metric);
		if (evidence->is_present[at]) {
			values[count++] = evidence->figures[at];
		}
	}
	return count;
}
