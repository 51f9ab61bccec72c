#include "reports/results/result.h"

#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "reports/results/fields.h"
#include "reports/results/result_tables.h"
#include "reports/results/results.h"

#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *const latency_names[LATENCY_COUNT] = {
#define LATENCY_NAME(metric, name, title) name,
	LATENCY_METRIC_LIST(LATENCY_NAME)
#undef LATENCY_NAME
};

const char *const latency_titles[LATENCY_COUNT] = {
#define LATENCY_TITLE(metric, name, title) title,
	LATENCY_METRIC_LIST(LATENCY_TITLE)
#undef LATENCY_TITLE
};

const char *const latency_statistics[STATISTIC_COUNT] = {
#define STATISTIC_NAME(of, statistic, name, is_main) name,
	LATENCY_STATISTIC_LIST(STATISTIC_NAME, )
#undef STATISTIC_NAME
};

const bool latency_is_main[STATISTIC_COUNT] = {
#define STATISTIC_IS_MAIN(of, statistic, name, is_main) is_main,
	LATENCY_STATISTIC_LIST(STATISTIC_IS_MAIN, )
#undef STATISTIC_IS_MAIN
};

/* A field whose value is one of a few words. */
static enum status read_word(const struct json_object *object, const char *field,
	const char *const *words, const char *expected, const char **out, struct error *error)
{
	uint32_t place;

	TRY(field_word(object, field, words, expected, &place, error));
	*out = words[place];
	return STATUS_OK;
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

	if (json_find(&result->root, SUMMARY_RUNNER_KIND) == NULL) {
		result->runner_kind = kind_by_runner(result);
		return STATUS_OK;
	}
	TRY(read_word(&result->root, SUMMARY_RUNNER_KIND, kinds, "computed, priced or recorded",
		&kind, error));
	result->runner_kind = RUNNER_COMPUTED;
	while (strcmp(kinds[result->runner_kind], kind) != 0) {
		result->runner_kind++;
	}
	return STATUS_OK;
}

static enum status read_heads(struct result *result, struct error *error)
{
	static const char *const schemas[] = {RESULT_SCHEMA, NULL};
#define WORD(name, text) text,
	static const char *const ends[] = {RUN_END_LIST(WORD) NULL};
	static const char *const verdicts[] = {VERDICT_LIST(WORD) NULL};
#undef WORD
	const struct json_object *root = &result->root;
	struct json_object trace, load;
	const char *schema;

	read_word(root, SUMMARY_SCHEMA, schemas, "\"" RESULT_SCHEMA "\"", &schema, error);
	read_word(root, SUMMARY_STATUS, ends, "complete, interrupted or failed", &result->status,
		error);
	json_object(root, SUMMARY_CONFIG, &result->config, error);
	read_runner_kind(result, error);
	json_object(root, SUMMARY_TRACE, &trace, error);
	json_text(&trace, SUMMARY_TRACE_NAME, &result->trace_name, error);
	json_text(&trace, SUMMARY_TRACE_XXH64, &result->trace_xxh64, error);
	json_bool(root, SUMMARY_CALIBRATED, &result->is_calibrated, error);
	field_optional_text(root, SUMMARY_PROFILE_NOTE, &result->profile_note, error);
	result->is_beyond_memory = cJSON_IsTrue(json_find(root, SUMMARY_BEYOND_MEMORY));
	json_object(root, SUMMARY_LOAD, &load, error);
	read_word(&load, SUMMARY_LOAD_VERDICT, verdicts,
		"stable, backlogged, overloaded or unserved", &result->verdict, error);
	json_text(root, SUMMARY_RESULT_HASH, &result->result_hash, error);
	result->failure = "";
	TRY(error->status);
	if (strcmp(result->status, "failed") == 0) {
		json_text(root, SUMMARY_FAILURE, &result->failure, error);
	}
	return error->status;
}

static enum status read_numbers(struct result *result, struct error *error)
{
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		const struct metric *row = &metrics_table[i];
		struct json_object section = result->root;
		if (row->section[0] != '\0') {
			json_object(&result->root, row->section, &section, error);
		}
		TRY(field_number(&section, row->field, row->is_optional, DBL_MAX,
			&result->numbers[i], error));
	}
	return STATUS_OK;
}

static enum status read_latencies(struct result *result, struct error *error)
{
	struct json_object latency, metric;

	json_object(&result->root, SUMMARY_LATENCY_MS, &latency, error);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		json_object(&latency, latency_names[i], &metric, error);
		for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
			TRY(field_number(&metric, latency_statistics[j], true, DBL_MAX,
				&result->latency_ms[i][j], error));
		}
	}
	return STATUS_OK;
}

enum status result_summary_open(
	struct json_document *summary, const char *directory, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool is_there = false;

	TRY(path_format(path, error, "%s/%s", directory, RESULT_SUMMARY));
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return error_set(error, STATUS_FILE,
			"%s: is no result folder: it has no summary.json", directory);
	}
	return json_document_open(summary, path, error);
}

static enum status read_summary(struct result *result, struct error *error)
{
	TRY(result_summary_open(&result->summary, result->directory, error));
	TRY(json_root(&result->root, &result->summary, error));
	TRY(read_heads(result, error));
	TRY(read_numbers(result, error));
	return read_latencies(result, error);
}

enum status result_open(struct result *result, const char *directory, struct error *error)
{
	memset(result, 0, sizeof(*result));
	result->directory = directory;
	TRY(read_summary(result, error));
	TRY(provenance_open(&result->provenance, directory, error));
	return result_tables_check(directory, &result->has_kernels, &result->has_requests, error);
}

void result_close(struct result *result)
{
	json_document_close(&result->summary);
	json_document_close(&result->provenance);
	text_deinit(&result->label);
	text_deinit(&result->legend);
}

/* ---- labels ---- */

/* The last `parts` components of a path. */
static const char *path_end(const char *path, uint32_t parts)
{
	const char *at = path + strlen(path);

	while (at > path && (at[-1] != '/' || --parts > 0)) {
		at--;
	}
	return at;
}

/* The path without trailing slashes; "." and ".." are resolved to the real path. */
static void label_path(struct text *out, const char *directory)
{
	const char *end = directory + strlen(directory);

	while (end > directory + 1 && end[-1] == '/') {
		end--;
	}
	text_add_bytes(out, directory, (size_t)(end - directory));
	const char *last = path_end(out->bytes, 1);
	if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
		char real[PATH_BYTES_MAX];
		if (realpath(directory, real) != NULL) {
			text_deinit(out);
			text_add(out, real);
		}
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
		bool is_same = parts == PARTS_MAX; /* the same folder given twice */
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
