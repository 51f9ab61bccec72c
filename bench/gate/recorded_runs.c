#include "bench/gate/recorded_runs.h"

#include "engine/base/integer.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/base/table.h"
#include "reports/results/results.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* ---- tables as long as their summary says ---- */

static enum status count_rows(const char *path, uint64_t *rows, struct error *error)
{
	struct table_reader table;

	*rows = 0;
	table_reader_open(&table, path, NULL, error);
	while (table_reader_next(&table, error)) {
		(*rows)++;
	}
	table_reader_close(&table);
	return error->status;
}

static enum status check_rows(const char *path, uint64_t expected, struct error *error)
{
	uint64_t rows;

	TRY(count_rows(path, &rows, error));
	return rows == expected
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT,
				 "%s: found %llu %s, expected the %llu of its " RESULT_SUMMARY,
				 path, (unsigned long long)rows, word_of_count(rows, "row", "rows"),
				 (unsigned long long)expected);
}

/* Adds a count of the summary. Sticky. */
static void add_count(const struct json_object *summary, enum result_number number, uint64_t *sum,
	struct error *error)
{
	const struct metric *metric = &metrics_table[number];
	struct json_object section;
	uint64_t count = 0;

	json_object(summary, metric->section, &section, error);
	json_u64(&section, metric->field, 0, JSON_INTEGER_MAX, &count, error);
	*sum += count;
}

static enum status check_tables(
	const char *folder, const struct json_object *summary, bool has_steps, struct error *error)
{
	char path[PATH_BYTES_MAX];
	uint64_t requests = 0, steps = 0;

	add_count(summary, VALUE_SUBMITTED, &requests, error);
	add_count(summary, VALUE_STEPS_BEFORE, &steps, error);
	add_count(summary, VALUE_STEPS, &steps, error);
	add_count(summary, VALUE_STEPS_AFTER, &steps, error);
	TRY(error->status);
	TRY(path_format(path, error, "%s/%s", folder, RESULT_REQUESTS));
	TRY(check_rows(path, requests, error));
	TRY(path_format(path, error, "%s/%s", folder, RESULT_STEPS));
	return has_steps ? check_rows(path, steps, error) : STATUS_OK;
}

/* has_steps: of the first run, which finds it out. */
static enum status check_steps(
	const char *folder, bool is_first, bool *has_steps, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool is_there;

	TRY(path_format(path, error, "%s/%s", folder, RESULT_STEPS));
	TRY(path_is_there(path, &is_there, error));
	if (!is_first && is_there != *has_steps) {
		return error_set(error, STATUS_INPUT, "%s: %s", path,
			is_there ? "is there, but the case's first run has none"
				 : "is not there, but the case's first run has one");
	}
	*has_steps = is_there;
	return STATUS_OK;
}

/* ---- which runs there are ---- */

/* The highest N of FOLDER/NAME.N; 1: there is none. */
static enum status find_last(
	const char *folder, const char *name, uint64_t *last, struct error *error)
{
	DIR *entries = opendir(folder);
	size_t bytes = strlen(name);

	*last = 1;
	if (entries == NULL) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be read: %s", folder, strerror(errno));
	}
	for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
		uint64_t number;
		if (strncmp(entry->d_name, name, bytes) == 0 && entry->d_name[bytes] == '.' &&
			text_to_u64(entry->d_name + bytes + 1, &number)) {
			*last = u64_max(*last, number);
		}
	}
	closedir(entries);
	return *last <= SUITE_REPEATS_MAX
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT,
				 "%s/%s.%llu: found a run of this number, "
				 "expected at most %d runs of a case",
				 folder, name, (unsigned long long)*last, SUITE_REPEATS_MAX);
}

static enum status add_run(
	struct evidence *evidence, const char *run, bool *has_steps, struct error *error)
{
	struct json_document document = {.root = NULL};
	struct json_object summary;
	char path[PATH_BYTES_MAX];

	TRY(check_steps(run, evidence->run_count == 0, has_steps, error));
	TRY(evidence_add_run(evidence, run, error));
	TRY(path_format(path, error, "%s/%s", run, RESULT_SUMMARY));
	TRY(json_document_open(&document, path, error));
	json_root(&summary, &document, error);
	if (error->status == STATUS_OK && metrics_check(&summary, error) == STATUS_OK) {
		check_tables(run, &summary, *has_steps, error);
	}
	json_document_close(&document);
	return error->status;
}

enum status recorded_runs_add(
	struct evidence *evidence, const char *folder, const char *name, struct error *error)
{
	char run[PATH_BYTES_MAX], summary[PATH_BYTES_MAX];
	bool has_steps = false, is_there;
	uint64_t last;

	TRY(find_last(folder, name, &last, error));
	for (uint64_t number = 1; number <= last; number++) {
		if (number == 1) {
			TRY(path_format(run, error, "%s/%s", folder, name));
		} else {
			TRY(path_format(run, error, "%s/%s.%llu", folder, name,
				(unsigned long long)number));
		}
		TRY(path_format(summary, error, "%s/%s", run, RESULT_SUMMARY));
		TRY(path_is_there(summary, &is_there, error));
		if (!is_there && number < last) {
			return error_set(error, STATUS_FILE, "%s is not there, but %s.%llu is",
				summary, name, (unsigned long long)last);
		}
		if (!is_there) {
			return error_set(error, STATUS_FILE, "%s is not there", summary);
		}
		TRY(add_run(evidence, run, &has_steps, error));
	}
	return STATUS_OK;
}
