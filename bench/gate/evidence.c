#include "bench/gate/evidence.h"

#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

#include <stdlib.h>
#include <string.h>

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
	evidence->run_count++;
}

/* Finds what judging needs in a summary, which stays in its document. */
static enum status find_fields(struct evidence *evidence, struct error *error)
{
	const struct json_object *summary = &evidence->summary;
	struct json_object config, trace;
	const char *schema, *kind;

	TRY(json_text(summary, SUMMARY_SCHEMA, &schema, error));
	if (strcmp(schema, RESULT_SCHEMA) != 0) {
		return json_refuse(summary, SUMMARY_SCHEMA, "\"" RESULT_SCHEMA "\"", error);
	}
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

	TRY(path_format(path, error, "%s/%s", folder, RESULT_SUMMARY));
	TRY(json_document_open(&evidence->document, path, error));
	TRY(json_root(&evidence->summary, &evidence->document, error));
	TRY(find_fields(evidence, error));
	evidence->has_same_decisions = true;
	add_figures(evidence, &evidence->summary);
	TRY(path_format(path, error, "%s/%s", folder, RESULT_STEPS));
	return decision_trail_read(&evidence->trail, path, error);
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
		status = json_text(&summary, SUMMARY_RESULT_HASH, &hash, error);
	}
	if (status == STATUS_OK) {
		add_figures(evidence, &summary);
		evidence->has_same_decisions &= strcmp(hash, evidence->result_hash) == 0;
	}
	json_document_close(&document);
	return status;
}

/* ---- the baseline ---- */

/* The runs' figures, by the metrics' names. */
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
	if (evidence->is_computed) {
		cJSON_AddItemToObject(root, "runs", runs_to_json(evidence));
	}
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		if (evidence->costs.is_known[i]) {
			cJSON_AddNumberToObject(
				costs, gate_cost_names[i], evidence->costs.amount[i]);
		}
	}
	cJSON_AddItemToObject(root, "costs", costs);
	cJSON_AddStringToObject(root, "environment",
		evidence->environment.bytes == NULL ? "" : evidence->environment.bytes);
	json_print(root, file);
	cJSON_Delete(root);
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
	for (const cJSON *run = runs->child; run != NULL; run = run->next) {
		add_figures(evidence, &evidence->summary);
		double *figures =
			evidence->figures + (size_t)(evidence->run_count - 1) * METRIC_COUNT;
		bool *is_present =
			evidence->is_present + (size_t)(evidence->run_count - 1) * METRIC_COUNT;
		for (uint32_t i = 0; i < METRIC_COUNT; i++) {
			const cJSON *figure =
				cJSON_GetObjectItemCaseSensitive(run, metrics_table[i].name);
			is_present[i] = cJSON_IsNumber(figure);
			figures[i] = is_present[i] ? figure->valuedouble : 0;
		}
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
		if (json_has(&costs, gate_cost_names[i])) {
			TRY(json_double(&costs, gate_cost_names[i], 0, 1e18,
				&evidence->costs.amount[i], error));
			evidence->costs.is_known[i] = true;
		}
	}
	return STATUS_OK;
}

enum status evidence_read(struct evidence *evidence, const char *path, struct error *error)
{
	struct json_object root, decisions;
	const char *schema;

	memset(evidence, 0, sizeof(*evidence));
	TRY(json_document_open(&evidence->document, path, error));
	TRY(json_root(&root, &evidence->document, error));
	TRY(json_text(&root, SUMMARY_SCHEMA, &schema, error));
	if (strcmp(schema, BASELINE_SCHEMA) != 0) {
		return json_refuse(&root, SUMMARY_SCHEMA, "\"" BASELINE_SCHEMA "\"", error);
	}
	json_bool(&root, "same_decisions", &evidence->has_same_decisions, error);
	json_object(&root, "summary", &evidence->summary, error);
	json_object(&root, "decisions", &decisions, error);
	TRY(error->status);
	TRY(find_fields(evidence, error));
	TRY(decision_trail_from_json(&evidence->trail, &decisions, error));
	TRY(read_runs(evidence, &root, error));
	return read_costs(evidence, &root, error);
}

void evidence_close(struct evidence *evidence)
{
	json_document_close(&evidence->document);
	decision_trail_close(&evidence->trail);
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
