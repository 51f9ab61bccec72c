#include "reports/results/result_tables.h"

#include "engine/base/path.h"
#include "engine/base/table.h"
#include "reports/results/fields.h"
#include "reports/results/results.h"

#include <string.h>

struct column {
	const char *name;
	bool is_text;
};

#define TEXT(name) {#name, true},
#define NUMBER(name) {#name, false},
static const struct column timeline[] = {TIMELINE_COLUMN_LIST(TEXT, NUMBER)};
static const struct column step_grid[] = {STEP_GRID_COLUMN_LIST(TEXT, NUMBER)};
static const struct column latency[] = {LATENCY_COLUMN_LIST(TEXT, NUMBER)};
static const struct column kernel_phases[] = {KERNEL_PHASE_COLUMN_LIST(TEXT, NUMBER)};
static const struct column levels[] = {LEVEL_COLUMN_LIST(TEXT, NUMBER)};
static const struct column kernel_timeline[] = {KERNEL_TIMELINE_COLUMN_LIST(TEXT, NUMBER)};
static const struct column requests[] = {
	TEXT(status) NUMBER(prompt_tokens) NUMBER(output_tokens) NUMBER(ttft_ns)};
#undef TEXT
#undef NUMBER

static const struct table {
	const char *name;
	const struct column *columns;
	uint32_t column_count;
	enum { ALWAYS, WITH_KERNELS, WITH_REQUESTS, WITH_LEVELS } presence;
} tables[] = {
#define TABLE(name, columns, presence)                                                             \
	{                                                                                          \
		name, columns, sizeof(columns) / sizeof(columns[0]), presence                      \
	}
	TABLE(RESULT_REQUESTS, requests, WITH_REQUESTS),
	TABLE(RESULT_TIMELINE, timeline, ALWAYS),
	TABLE(RESULT_STEP_GRID, step_grid, ALWAYS),
	TABLE(RESULT_LATENCY, latency, ALWAYS),
	TABLE(RESULT_LEVELS, levels, WITH_LEVELS),
	TABLE(RESULT_KERNEL_PHASES, kernel_phases, WITH_KERNELS),
	TABLE(RESULT_KERNEL_TIMELINE, kernel_timeline, WITH_KERNELS),
#undef TABLE
};

enum { TABLE_COUNT = sizeof(tables) / sizeof(tables[0]) };

static enum status check_rows(
	struct table_reader *reader, const struct table *table, struct error *error)
{
	uint32_t numbers[TABLE_COLUMNS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < table->column_count; i++) {
		const struct column *column = &table->columns[i];
		TRY(table_reader_column(reader, column->name, &numbers[count], error));
		count += !column->is_text;
	}
	while (table_reader_next(reader, error)) {
		for (uint32_t i = 0; i < count; i++) {
			if (!cell_is_number(reader->cells[numbers[i]])) {
				return table_reader_refuse(reader, numbers[i], "a number", error);
			}
		}
	}
	return error->status;
}

static enum status check_table(const char *path, const struct table *table, struct error *error)
{
	struct table_reader reader;

	enum status status = table_reader_open(&reader, path, NULL, error);
	if (status == STATUS_OK) {
		status = check_rows(&reader, table, error);
	}
	table_reader_close(&reader);
	return status;
}

enum status result_tables_check(
	const char *directory, bool *has_kernels, bool *has_requests, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool has_levels;

	TRY(path_format(path, error, "%s/%s", directory, RESULT_LEVELS));
	TRY(path_is_there(path, &has_levels, error));
	TRY(path_format(path, error, "%s/%s", directory, RESULT_KERNEL_PHASES));
	TRY(path_is_there(path, has_kernels, error));
	TRY(path_format(path, error, "%s/%s", directory, RESULT_REQUESTS));
	TRY(path_is_there(path, has_requests, error));
	for (uint32_t i = 0; i < TABLE_COUNT; i++) {
		bool is_there = tables[i].presence == ALWAYS ||
				(tables[i].presence == WITH_KERNELS && *has_kernels) ||
				(tables[i].presence == WITH_LEVELS && has_levels) ||
				(tables[i].presence == WITH_REQUESTS && *has_requests);
		if (is_there) {
			TRY(path_format(path, error, "%s/%s", directory, tables[i].name));
			TRY(check_table(path, &tables[i], error));
		}
	}
	return STATUS_OK;
}
