#include "engine/base/table.h"

#include "engine/base/input_file.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FOUND_CHARACTERS = 32 };

#define ZERO_BYTE "found a zero byte, expected a table of text"

/* ---- writing ---- */

static void table_flush(struct table_writer *table)
{
	if (table->file != NULL) {
		fwrite(table->buffer, 1, table->used, table->file);
	}
	table->used = 0;
}

/* A call for each cell would cost 2 % of a simulation. */
static inline void table_bytes(struct table_writer *table, const char *bytes, size_t count)
{
	while (count > 0) {
		size_t part = u64_min(count, TABLE_BUFFER_BYTES - table->used);
		memcpy(table->buffer + table->used, bytes, part);
		table->used += part;
		bytes += part;
		count -= part;
		if (table->used == TABLE_BUFFER_BYTES) {
			table_flush(table);
		}
	}
}

static void table_cell(struct table_writer *table, const char *bytes, size_t count)
{
	if (table->is_row_started) {
		table_bytes(table, "\t", 1);
	}
	table->is_row_started = true;
	table_bytes(table, bytes, count);
}

void table_begin(struct table_writer *table, FILE *file, const char *header)
{
	table->used = 0;
	table->is_row_started = false;
	table->file = file;
	setvbuf(file, NULL, _IONBF, 0); /* the table has its own buffer */
	table_bytes(table, header, strlen(header));
	table_end_row(table);
}

void table_end(struct table_writer *table)
{
	table_flush(table);
	table->file = NULL;
}

void table_u64(struct table_writer *table, uint64_t value)
{
	if (TABLE_BUFFER_BYTES - table->used < 1 + U64_DIGITS_MAX) {
		table_flush(table);
	}
	if (table->is_row_started) {
		table->buffer[table->used++] = '\t';
	}
	table->is_row_started = true;
	table->used += u64_digits(table->buffer + table->used, value);
}

void table_decimal(struct table_writer *table, uint64_t value, uint32_t places)
{
	char text[NUMBER_TEXT_BYTES];

	table_cell(table, text, decimal_text(text, value, places));
}

void table_text(struct table_writer *table, const char *text)
{
	if (text == NULL) {
		table_none(table);
		return;
	}
	table_cell(table, "", 0);
	while (*text != '\0') {
		size_t bytes = strcspn(text, "\t\n\r");
		table_bytes(table, text, bytes);
		text += bytes;
		if (*text != '\0') {
			table_bytes(table, " ", 1);
			text++;
		}
	}
}

void table_none(struct table_writer *table)
{
	table_cell(table, "-", 1);
}

void table_end_row(struct table_writer *table)
{
	table_bytes(table, "\n", 1);
	table->is_row_started = false;
}

/* ---- reading ---- */

static enum status refuse_line(
	const struct table_reader *table, const char *what, struct error *error)
{
	return error_set(error, STATUS_INPUT, "%s:%llu: %s", table->path,
		(unsigned long long)table->line_number, what);
}

/* Reads a line without its end. False: end of file, or an invalid line. */
static bool read_line(struct table_reader *table, size_t *bytes, struct error *error)
{
	errno = 0;
	ssize_t length = getline(&table->line, &table->line_capacity, table->file);
	if (length < 0) {
		if (!feof(table->file)) { /* it had no memory for the line, too */
			error_set(error, STATUS_FILE, "cannot read %s: %s", table->path,
				strerror(errno));
		}
		return false;
	}
	table->line_number++;
	*bytes = (size_t)length;
	size_t mark = table->line_number == 1 ? text_order_mark(table->line, *bytes) : 0;
	if (mark > 0) {
		*bytes -= mark;
		memmove(table->line, table->line + mark, *bytes + 1);
	}
	if (*bytes > 0 && table->line[*bytes - 1] == '\n') {
		table->line[--*bytes] = '\0';
	}
	if (memchr(table->line, '\0', *bytes) != NULL) {
		refuse_line(table, ZERO_BYTE, error);
		return false;
	}
	if (*bytes > 0 && table->line[*bytes - 1] == '\r') {
		table->line[--*bytes] = '\0';
	}
	if (memchr(table->line, '\r', *bytes) != NULL) {
		refuse_line(table, "found a carriage return, expected line feeds alone", error);
		return false;
	}
	return true;
}

/* Cuts a line at its tabs. Returns the number of cells; cells beyond the limit are not stored. A
   cell has few bytes, so a loop over bytes is faster than memchr() per cell. */
static uint32_t split(char *line, size_t bytes, const char **cells)
{
	uint32_t count = 1;

	cells[0] = line;
	for (size_t i = 0; i < bytes; i++) {
		if (line[i] == '\t') {
			line[i] = '\0';
			if (count < TABLE_COLUMNS_MAX) {
				cells[count] = &line[i + 1];
			}
			count++;
		}
	}
	return count;
}

static enum status check_header(const struct table_reader *table, struct error *error)
{
	for (uint32_t i = 1; i < table->column_count; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (strcmp(table->names[i], table->names[j]) == 0) {
				return error_set(error, STATUS_INPUT,
					"%s:%llu: found column %.60s twice, expected it once",
					table->path, (unsigned long long)table->line_number,
					table->names[i]);
			}
		}
	}
	return STATUS_OK;
}

/* Looks at the first line without taking it into memory. */
static enum status look_at_start(struct table_reader *table, struct error *error)
{
	char start[TABLE_FIRST_LINE_BYTES_MAX];
	size_t bytes = fread(start, 1, sizeof(start), table->file);

	if (ferror(table->file) || fseek(table->file, 0, SEEK_SET) != 0) {
		return error_set(
			error, STATUS_FILE, "cannot read %s: %s", table->path, strerror(errno));
	}
	if (bytes < sizeof(start) || memchr(start, '\n', bytes) != NULL) {
		return STATUS_OK;
	}
	if (memchr(start, '\0', bytes) != NULL) {
		table->line_number = 1;
		return refuse_line(table, ZERO_BYTE, error);
	}
	return error_set(error, STATUS_INPUT,
		"%s:1: found a line of %d bytes or more, expected a table with a header",
		table->path, TABLE_FIRST_LINE_BYTES_MAX);
}

static enum status read_header(
	struct table_reader *table, struct text *remarks, struct error *error)
{
	size_t bytes = 0;

	TRY(look_at_start(table, error));
	bool has_line = read_line(table, &bytes, error);
	while (has_line && remarks != NULL && table->line[0] == '#') {
		text_add_bytes(remarks, table->line, bytes);
		text_add(remarks, "\n");
		has_line = read_line(table, &bytes, error);
	}
	TRY(error->status);
	if (!has_line) {
		table->line_number = 1;
		return refuse_line(
			table, "found an empty file, expected a table with a header", error);
	}
	/* The header keeps its buffer; the next line gets a new one. */
	table->header = table->line;
	table->line = NULL;
	table->line_capacity = 0;
	table->column_count = split(table->header, bytes, table->names);
	if (table->column_count > TABLE_COLUMNS_MAX) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: found %u columns, expected at most %d", table->path,
			(unsigned long long)table->line_number, table->column_count,
			TABLE_COLUMNS_MAX);
	}
	return check_header(table, error);
}

enum status table_reader_open(
	struct table_reader *table, const char *path, struct text *remarks, struct error *error)
{
	size_t bytes = strlen(path) + 1;

	*table = (struct table_reader){.path = NULL};
	TRY(error->status);
	table->path = memory_take(bytes, 1);
	memcpy(table->path, path, bytes);
	TRY(input_file_open(&table->file, path, INPUT_FILE, error));
	return read_header(table, remarks, error);
}

void table_reader_close(struct table_reader *table)
{
	if (table->file != NULL) {
		fclose(table->file);
	}
	free(table->path);
	free(table->header);
	free(table->line);
	*table = (struct table_reader){.path = NULL};
}

uint32_t table_reader_find(const struct table_reader *table, const char *name)
{
	for (uint32_t i = 0; i < table->column_count; i++) {
		if (strcmp(table->names[i], name) == 0) {
			return i;
		}
	}
	return TABLE_NO_COLUMN;
}

const char *table_reader_way_out(const struct table_reader *table)
{
	const char *name = table->names[0];
	bool has_others =
		table->column_count == 1 && name[0] != '#' && strpbrk(name, " ,;") != NULL;

	return has_others ? "; columns are separated by tabs" : "";
}

enum status table_reader_column(
	const struct table_reader *table, const char *name, uint32_t *column, struct error *error)
{
	TRY(error->status);
	*column = table_reader_find(table, name);
	if (*column == TABLE_NO_COLUMN) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: column %s is missing from the header%s", table->path,
			(unsigned long long)table->line_number, name, table_reader_way_out(table));
	}
	return STATUS_OK;
}

bool table_reader_next(struct table_reader *table, struct error *error)
{
	size_t bytes = 0;

	if (error->status != STATUS_OK || !read_line(table, &bytes, error)) {
		return false;
	}
	uint32_t count = split(table->line, bytes, table->cells);
	if (count != table->column_count) {
		error_set(error, STATUS_INPUT, "%s:%llu: found %u %s, expected the header's %u",
			table->path, (unsigned long long)table->line_number, count,
			word_of_count(count, "column", "columns"), table->column_count);
		return false;
	}
	return true;
}

enum status table_reader_u64(const struct table_reader *table, uint32_t column, uint64_t maximum,
	uint64_t *value, struct error *error)
{
	char expected[64];
	uint64_t number;

	TRY(error->status);
	if (text_to_u64(table->cells[column], &number) && number <= maximum) {
		*value = number;
		return STATUS_OK;
	}
	snprintf(
		expected, sizeof(expected), "an integer in [0, %llu]", (unsigned long long)maximum);
	return table_reader_refuse(table, column, expected, error);
}

enum status table_reader_refuse(const struct table_reader *table, uint32_t column,
	const char *expected, struct error *error)
{
	TRY(error->status);
	return error_set(error, STATUS_INPUT, "%s:%llu: column %s: found '%.*s', expected %s",
		table->path, (unsigned long long)table->line_number, table->names[column],
		FOUND_CHARACTERS, table->cells[column], expected);
}
