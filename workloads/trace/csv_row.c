#include "workloads/trace/csv_row.h"

#include "engine/base/check.h"
#include "engine/base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The end of a field in double quotes, in which "" is an escaped quote (not unescaped here). NULL:
   the field does not end. */
static const char *quoted_end(const char *from, const char *end)
{
	const char *at = from;

	for (;;) {
		at = memchr(at, '"', (size_t)(end - at));
		if (at == NULL) {
			return NULL;
		}
		if (at + 1 == end || at[1] != '"') {
			return at;
		}
		at += 2;
	}
}

uint32_t csv_split(const char *line, size_t line_bytes, struct csv_field *fields)
{
	const char *end = line + line_bytes;
	const char *from = line;
	uint32_t count = 0;

	for (;;) {
		const char *comma;
		if (count == CSV_FIELDS_MAX) {
			return 0;
		}
		if (from < end && *from == '"') {
			const char *close = quoted_end(from + 1, end);
			if (close == NULL || (close + 1 < end && close[1] != ',')) {
				return 0;
			}
			fields[count++] = (struct csv_field){from + 1, (size_t)(close - from - 1)};
			comma = close + 1 < end ? close + 1 : NULL;
		} else {
			comma = from;
			while (comma < end && *comma != ',') {
				comma++;
			}
			comma = comma == end ? NULL : comma;
			size_t bytes = (size_t)((comma == NULL ? end : comma) - from);
			fields[count++] = (struct csv_field){from, bytes};
		}
		if (comma == NULL) {
			return count;
		}
		from = comma + 1;
	}
}

/* Whether no column of the table is in this field. */
static bool is_unread(const struct csv_layout *layout, uint32_t field)
{
	for (uint32_t i = 0; i < layout->column_count; i++) {
		if (layout->field_of[i] == field) {
			return false;
		}
	}
	return true;
}

static void look_at_names(
	struct csv_layout *layout, const struct source_line *at, const struct csv_field *fields)
{
	layout->note[0] = '\0';
	for (uint32_t i = 0; i < layout->column_count; i++) {
		const char *known = layout->columns[i].name;
		if (layout->field_of[i] != CSV_ABSENT) {
			continue;
		}
		for (uint32_t j = 0; j < layout->field_count; j++) {
			if (is_unread(layout, j) &&
				unread_is_meant(fields[j].text, fields[j].bytes, known)) {
				unread_note(layout->note, at, "column", fields[j].text,
					fields[j].bytes, known);
				return;
			}
		}
	}
}

enum status csv_header(struct csv_layout *layout, const struct csv_column *columns,
	uint32_t column_count, const struct source_line *at, const char *line, size_t line_bytes,
	struct error *error)
{
	struct csv_field fields[CSV_FIELDS_MAX];

	check(column_count <= CSV_COLUMNS_MAX);
	layout->columns = columns;
	layout->column_count = column_count;
	layout->field_count = csv_split(line, line_bytes, fields);
	for (uint32_t i = 0; i < column_count; i++) {
		size_t bytes = strlen(columns[i].name);
		layout->field_of[i] = CSV_ABSENT;
		for (uint32_t j = 0; j < layout->field_count; j++) {
			if (fields[j].bytes != bytes ||
				memcmp(fields[j].text, columns[i].name, bytes) != 0) {
				continue;
			}
			if (layout->field_of[i] != CSV_ABSENT) {
				return source_line_error(error, at, columns[i].name,
					"the column twice", 16, "it once");
			}
			layout->field_of[i] = j;
		}
		if (columns[i].is_required && layout->field_of[i] == CSV_ABSENT) {
			return source_line_error(error, at, columns[i].name, line, line_bytes,
				"a header line with this column");
		}
	}
	look_at_names(layout, at, fields);
	return STATUS_OK;
}

/* Whether a field in quotes is open at the line's end: "" within one is a quote of it. */
static bool is_broken(const char *line, size_t line_bytes)
{
	bool is_open = false;

	for (size_t i = 0; i < line_bytes; i++) {
		is_open = is_open != (line[i] == '"');
	}
	return is_open;
}

enum status csv_line(const struct csv_layout *layout, const struct source_line *at,
	const char *line, size_t line_bytes, struct csv_field *values, struct error *error)
{
	struct csv_field fields[CSV_FIELDS_MAX];
	uint32_t count = csv_split(line, line_bytes, fields);

	if (count != layout->field_count) {
		return source_line_error(error, at, NULL, line, line_bytes,
			"%" PRIu32 " values between commas, as in the header%s",
			layout->field_count,
			is_broken(line, line_bytes)
				? "; a field in quotes does not end on its line, and line breaks "
				  "within fields are not read: leave that column out"
				: "");
	}
	for (uint32_t i = 0; i < layout->column_count; i++) {
		values[i] = layout->field_of[i] == CSV_ABSENT ? (struct csv_field){"", 0}
							      : fields[layout->field_of[i]];
	}
	return STATUS_OK;
}

/* An integer, with zeros behind a point too: so a table is written whose column has gaps. */
static bool count_of(const struct csv_field *field, uint64_t *value)
{
	size_t bytes = field->bytes;
	const char *point = memchr(field->text, '.', bytes);

	while (point != NULL && field->text[bytes - 1] == '0') {
		bytes--;
	}
	bytes -= point != NULL && point + 1 == field->text + bytes;
	return digits_to_u64(field->text, bytes, value);
}

enum status csv_count(const struct source_line *at, const char *name, const struct csv_field *field,
	uint64_t minimum, uint64_t maximum, uint64_t *value, struct error *error)
{
	if (!count_of(field, value) || *value < minimum || *value > maximum) {
		return source_line_error(error, at, name, field->text, field->bytes,
			"an integer in [%" PRIu64 ", %" PRIu64 "]%s", minimum, maximum,
			field->bytes == 0 && minimum == 0
				? "; a row with 0 is passed over, as a request that failed"
				: "");
	}
	return STATUS_OK;
}
