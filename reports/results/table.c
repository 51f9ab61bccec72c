#include "reports/results/table.h"

#include "engine/base/check.h"
#include "engine/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = TABLE_CELLS_MAX };

static enum status refuse(
	const struct table_reader *table, const char *what, const char *text, struct error *error)
{
	return error_set(error, STATUS_INPUT, "%s:%llu: %s%.60s", table->path.bytes,
		(unsigned long long)table->line_number, what, text);
}

/* The next line, split into cells. *is_end: there is none. */
static enum status read_line(struct table_reader *table, bool *is_end, struct error *error)
{
	errno = 0;
	ssize_t size = getline(&table->line, &table->capacity, table->file);
	*is_end = size < 0;
	if (size < 0) {
		return errno == 0 ? STATUS_OK
				  : error_set(error, STATUS_FILE, "cannot read %s: %s",
					    table->path.bytes, strerror(errno));
	}
	table->line_number++;
	if (strlen(table->line) != (size_t)size) {
		return refuse(table, "found a zero byte, expected text", "", error);
	}
	if (size > 0 && table->line[size - 1] == '\n') {
		table->line[size - 1] = '\0';
	}
	table->cell_count = 0;
	for (char *cell = table->line; cell != NULL;) {
		char *tab = strchr(cell, '\t');
		if (table->cell_count == TABLE_CELLS_MAX) {
			return refuse(table, "found more than 64 cells", "", error);
		}
		if (tab != NULL) {
			*tab = '\0';
		}
		table->cells[table->cell_count++] = cell;
		cell = tab == NULL ? NULL : tab + 1;
	}
	return STATUS_OK;
}

static uint32_t find_cell(const struct table_reader *table, const char *name)
{
	for (uint32_t i = 0; i < table->cell_count; i++) {
		if (strcmp(table->cells[i], name) == 0) {
			return i;
		}
	}
	return NONE;
}

static enum status read_header(
	struct table_reader *table, const struct table_format *format, struct error *error)
{
	bool is_end;
	enum status status = read_line(table, &is_end, error);

	if (status != STATUS_OK) {
		return status;
	}
	if (is_end) {
		return error_set(error, STATUS_INPUT,
			"%s: found an empty file, expected a table with a header",
			table->path.bytes);
	}
	table->header_count = table->cell_count;
	if (format->text_column != NULL && find_cell(table, format->text_column) == NONE) {
		return refuse(table, "there is no column ", format->text_column, error);
	}
	for (uint32_t i = 0; i < TABLE_COLUMNS_MAX && format->columns[i] != NULL; i++) {
		table->position[i] = find_cell(table, format->columns[i]);
		if (table->position[i] == NONE) {
			return refuse(table, "there is no column ", format->columns[i], error);
		}
		table->column_count++;
	}
	return STATUS_OK;
}

/* A finite number that is not negative, or `-`. Nothing in a result is below 0. */
static bool is_number(const char *cell)
{
	char *end = NULL;

	if (strcmp(cell, "-") == 0) {
		return true;
	}
	if (*cell < '0' || *cell > '9') {
		return false; /* strtod would take blanks, signs, "inf" and "nan" */
	}
	double value = strtod(cell, &end);
	return *end == '\0' && isfinite(value);
}

static enum status check_row(
	struct table_reader *table, const struct table_format *format, struct error *error)
{
	if (table->cell_count != table->header_count) {
		return error_set(error, STATUS_INPUT, "%s:%llu: found %u cells, expected %u",
			table->path.bytes, (unsigned long long)table->line_number,
			table->cell_count, table->header_count);
	}
	for (uint32_t i = 0; i < table->column_count; i++) {
		const char *cell = table->cells[table->position[i]];
		if (!is_number(cell)) {
			return error_set(error, STATUS_INPUT,
				"%s:%llu: column %s: found \"%.40s\", expected a number",
				table->path.bytes, (unsigned long long)table->line_number,
				format->columns[i], cell);
		}
	}
	return STATUS_OK;
}

enum status table_reader_next(struct table_reader *table, const struct table_format *format,
	bool *is_end, struct error *error)
{
	enum status status = read_line(table, is_end, error);

	return status == STATUS_OK && !*is_end ? check_row(table, format, error) : status;
}

const char *table_reader_cell(const struct table_reader *table, uint32_t column)
{
	check(column < table->column_count);
	return table->cells[table->position[column]];
}

double table_reader_number(const struct table_reader *table, uint32_t column)
{
	const char *cell = table_reader_cell(table, column);

	return strcmp(cell, "-") == 0 ? 0 : strtod(cell, NULL);
}

enum status table_reader_open(struct table_reader *table, const char *directory,
	const struct table_format *format, struct error *error)
{
	memset(table, 0, sizeof(*table));
	text_add(&table->path, directory);
	text_add(&table->path, "/");
	text_add(&table->path, format->name);
	table->file = fopen(table->path.bytes, "r");
	if (table->file == NULL) {
		return error_set(error, STATUS_FILE, "cannot open %s: %s", table->path.bytes,
			strerror(errno));
	}
	return read_header(table, format, error);
}

void table_reader_close(struct table_reader *table)
{
	if (table->file != NULL) {
		fclose(table->file);
	}
	free(table->line);
	text_deinit(&table->path);
}

enum status table_check(
	const char *directory, const struct table_format *format, struct error *error)
{
	struct table_reader table;
	bool is_end = false;

	enum status status = table_reader_open(&table, directory, format, error);
	while (status == STATUS_OK && !is_end) {
		status = table_reader_next(&table, format, &is_end, error);
	}
	table_reader_close(&table);
	return status;
}
