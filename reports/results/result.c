#include "reports/results/result.h"

#include "engine/base/memory.h"
#include "reports/results/table.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct result_number_row result_number_rows[RESULT_NUMBER_COUNT] = {
#define RESULT_NUMBER_ROW(name, section, field, is_optional, format, better, title)                \
	{section, field, is_optional, format, better, title},
	RESULT_NUMBER_LIST(RESULT_NUMBER_ROW)
#undef RESULT_NUMBER_ROW
};

const char *const latency_names[LATENCY_METRICS] = {"queue", "ttft", "tpot", "itl", "e2e"};
const char *const latency_titles[LATENCY_METRICS] = {"Time in the queue",
	"Time to first token (TTFT)", "Time per output token (TPOT)", "Inter-token latency (ITL)",
	"End-to-end latency (E2E)"};
const char *const latency_statistics[LATENCY_STATISTICS] = {"mean", "p50", "p90", "p99", "max"};

static const struct table_format tables[] = {
	{"timeline.tsv", NULL,
		{"time_s", "width_s", "running", "waiting", "used_blocks", "hit_tokens",
			"query_tokens", "output_tokens", "prefill_tokens", "preemptions", "steps",
			"busy_share"}},
	{"step_grid.tsv", NULL,
		{"decode_rows_low", "decode_rows_high", "prefill_tokens_low", "prefill_tokens_high",
			"steps", "mean_ns", "max_ns"}},
	{"latency.tsv", "metric", {"upper_ns", "count"}},
};

enum { TABLE_COUNT = sizeof(tables) / sizeof(tables[0]) };

/* There only when kernels were measured. */
static const struct table_format kernel_tables[] = {
	{"kernel_phases.tsv", NULL, {"steps", "step_ns", "busy_ns", "rank", "sum_ns", "below_ns"}},
	{"kernel_timeline.tsv", NULL, {"rank", "time_s", "width_s", "sum_ns", "below_ns"}},
};

enum { KERNEL_TABLE_COUNT = sizeof(kernel_tables) / sizeof(kernel_tables[0]) };

/* One of a few words. */
static enum status read_word(const struct json_object *place, const char *field,
	const char *const *words, const char *expected, const char **out, struct error *error)
{
	enum status status = json_text(place, field, out, error);

	if (status != STATUS_OK) {
		return status;
	}
	for (uint32_t i = 0; words[i] != NULL; i++) {
		if (strcmp(*out, words[i]) == 0) {
			return STATUS_OK;
		}
	}
	return json_refuse(place, field, expected, error);
}

/* Results from before runner_kind was written have the runner's name alone. */
static enum runner_kind kind_by_runner(const struct result *result)
{
	static const struct {
		const char *runner;
		enum runner_kind kind;
	} kinds[] = {{"cuda", RUNNER_COMPUTED}, {"reference", RUNNER_COMPUTED},
		{"sim", RUNNER_PRICED}, {"tape", RUNNER_RECORDED}};
	const cJSON *runner = json_find(&result->config, "runner");

	for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (cJSON_IsString(runner) && strcmp(runner->valuestring, kinds[i].runner) == 0) {
			return kinds[i].kind;
		}
	}
	return RUNNER_KIND_COUNT;
}

static enum status read_runner_kind(struct result *result, struct error *error)
{
	static const char *const kinds[RUNNER_KIND_COUNT + 1] = {
#define RUNNER_KIND_NAME(name, text) text,
		RUNNER_KIND_LIST(RUNNER_KIND_NAME)
#undef RUNNER_KIND_NAME
	};
	const char *kind;

	if (json_find(&result->root, "runner_kind") == NULL) {
		result->runner_kind = kind_by_runner(result);
		return STATUS_OK;
	}
	TRY(read_word(
		&result->root, "runner_kind", kinds, "computed, priced or recorded", &kind, error));
	result->runner_kind = RUNNER_COMPUTED;
	while (strcmp(kinds[result->runner_kind], kind) != 0) {
		result->runner_kind++;
	}
	return STATUS_OK;
}

static enum status read_heads(struct result *result, struct error *error)
{
	static const char *const schemas[] = {"quire-result-1", NULL};
	static const char *const states[] = {"complete", "interrupted", "failed", NULL};
	static const char *const verdicts[] = {"stable", "backlogged", "overloaded", NULL};
	const struct json_object *root = &result->root;
	struct json_object trace, load;
	const char *schema;
	enum status status;

	(void)((status = read_word(
			root, "schema", schemas, "\"quire-result-1\"", &schema, error)) ||
		(status = read_word(root, "status", states, "complete, interrupted or failed",
			 &result->status, error)) ||
		(status = json_object(root, "config", &result->config, error)) ||
		(status = read_runner_kind(result, error)) ||
		(status = json_object(root, "trace", &trace, error)) ||
		(status = json_text(&trace, "name", &result->trace_name, error)) ||
		(status = json_text(&trace, "xxh64", &result->trace_xxh64, error)) ||
		(status = json_bool(root, "calibrated", &result->is_calibrated, error)) ||
		(status = json_object(root, "load", &load, error)) ||
		(status = read_word(&load, "verdict", verdicts, "stable, backlogged or overloaded",
			 &result->verdict, error)) ||
		(status = json_text(root, "result_hash", &result->result_hash, error)));
	result->failure = "";
	if (status == STATUS_OK && strcmp(result->status, "failed") == 0) {
		status = json_text(root, "failure", &result->failure, error);
	}
	return status;
}

/* A number that is not negative; null too when it may be missing. */
static enum status read_value(const struct json_object *place, const char *field, bool is_optional,
	struct result_value *out, struct error *error)
{
	const cJSON *node = json_find(place, field);

	*out = (struct result_value){0};
	if (cJSON_IsNumber(node) && (node->valuedouble < 0 || node->valuedouble > DBL_MAX)) {
		return json_refuse(place, field, "a number >= 0", error);
	}
	if (is_optional && cJSON_IsNull(node)) {
		return STATUS_OK;
	}
	if (!cJSON_IsNumber(node)) {
		return json_refuse(
			place, field, is_optional ? "a number or null" : "a number", error);
	}
	enum status status = json_double(place, field, 0, DBL_MAX, &out->value, error);
	out->has_value = status == STATUS_OK;
	return status;
}

static enum status read_numbers(struct result *result, struct error *error)
{
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		const struct result_number_row *row = &result_number_rows[i];
		struct json_object section = result->root;
		enum status status = STATUS_OK;
		if (row->section[0] != '\0') {
			status = json_object(&result->root, row->section, &section, error);
		}
		if (status == STATUS_OK) {
			status = read_value(
				&section, row->field, row->is_optional, &result->numbers[i], error);
		}
		if (status != STATUS_OK) {
			return status;
		}
	}
	return STATUS_OK;
}

static enum status read_latencies(struct result *result, struct error *error)
{
	struct json_object latency, metric;

	enum status status = json_object(&result->root, "latency_ms", &latency, error);
	for (uint32_t i = 0; i < LATENCY_METRICS && status == STATUS_OK; i++) {
		status = json_object(&latency, latency_names[i], &metric, error);
		for (uint32_t j = 0; j < LATENCY_STATISTICS && status == STATUS_OK; j++) {
			status = read_value(&metric, latency_statistics[j], true,
				&result->latency_ms[i][j], error);
		}
	}
	return status;
}

/* Writes the file's path; is it there? */
static bool has_file(const struct result *result, const char *name, struct text *path)
{
	text_add(path, result->directory);
	text_add(path, "/");
	text_add(path, name);
	return access(path->bytes, F_OK) == 0;
}

static enum status read_kernels(struct result *result, struct error *error)
{
	struct text path = {0};
	enum status status = STATUS_OK;

	result->has_kernels = has_file(result, kernel_tables[0].name, &path);
	text_deinit(&path);
	for (uint32_t i = 0; i < KERNEL_TABLE_COUNT && result->has_kernels && status == STATUS_OK;
		i++) {
		status = table_check(result->directory, &kernel_tables[i], error);
	}
	return status;
}

static enum status read_provenance(struct result *result, struct error *error)
{
	struct text path = {0};
	struct json_object place;
	enum status status = STATUS_OK;

	if (has_file(result, "provenance.json", &path)) {
		status = json_document_open(&result->provenance, path.bytes, error);
		if (status == STATUS_OK) {
			status = json_root(&place, &result->provenance, error);
		}
	}
	text_deinit(&path);
	return status;
}

static enum status read_summary(struct result *result, struct error *error)
{
	struct text path = {0};
	enum status status;

	text_add(&path, result->directory);
	text_add(&path, "/summary.json");
	if (access(path.bytes, F_OK) != 0) {
		status = error_set(error, STATUS_FILE,
			"%s: is no result folder: it has no summary.json", result->directory);
	} else {
		(void)((status = json_document_open(&result->summary, path.bytes, error)) ||
			(status = json_root(&result->root, &result->summary, error)) ||
			(status = read_heads(result, error)) ||
			(status = read_numbers(result, error)) ||
			(status = read_latencies(result, error)));
	}
	text_deinit(&path);
	return status;
}

enum status result_open(struct result *result, const char *directory, struct error *error)
{
	memset(result, 0, sizeof(*result));
	result->directory = directory;
	enum status status = read_summary(result, error);
	if (status == STATUS_OK) {
		status = read_provenance(result, error);
	}
	for (uint32_t i = 0; i < TABLE_COUNT && status == STATUS_OK; i++) {
		status = table_check(directory, &tables[i], error);
	}
	return status == STATUS_OK ? read_kernels(result, error) : status;
}

void result_close(struct result *result)
{
	json_document_close(&result->summary);
	json_document_close(&result->provenance);
	text_deinit(&result->label);
}

/* ---- labels ---- */

/* The end of a path that has `parts` parts. */
static const char *path_end(const char *path, uint32_t parts)
{
	const char *at = path + strlen(path);

	while (at > path && (at[-1] != '/' || --parts > 0)) {
		at--;
	}
	return at;
}

/* The path without slashes at its end; a folder named only by dots by its real name. */
static void label_path(struct text *out, const char *directory)
{
	const char *end = directory + strlen(directory);

	while (end > directory + 1 && end[-1] == '/') {
		end--;
	}
	text_add_bytes(out, directory, (size_t)(end - directory));
	const char *last = path_end(out->bytes, 1);
	if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
		char *real = realpath(directory, NULL);
		if (real != NULL) {
			text_deinit(out);
			text_add(out, real);
		}
		free(real);
	}
}

static bool is_unique(const struct text *paths, uint32_t count, uint32_t index, uint32_t parts)
{
	const char *end = path_end(paths[index].bytes, parts);

	for (uint32_t i = 0; i < count; i++) {
		if (i != index && strcmp(path_end(paths[i].bytes, parts), end) == 0) {
			return false;
		}
	}
	return true;
}

void results_label(struct result *results, uint32_t count)
{
	struct text *paths = memory_take(count, sizeof(*paths));
	enum { PARTS_MAX = 64 };

	for (uint32_t i = 0; i < count; i++) {
		label_path(&paths[i], results[i].directory);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parts = 1;
		while (parts < PARTS_MAX && !is_unique(paths, count, i, parts)) {
			parts++;
		}
		bool is_same = parts == PARTS_MAX; /* the same folder twice */
		text_add(&results[i].label, path_end(paths[i].bytes, is_same ? 1 : parts));
		if (is_same) {
			text_format(&results[i].label, " (%u)", i + 1);
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		text_deinit(&paths[i]);
	}
	free(paths);
}
