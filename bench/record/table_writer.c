#include "bench/record/table_writer.h"

#include "engine/base/check.h"

#include <errno.h>
#include <string.h>

size_t decimal_text(char *text, u128 value, uint32_t places)
{
	char reversed[TABLE_CELL_BYTES];
	size_t count = 0;

	check(places <= 18);
	do {
		if (count == places && places > 0) {
			reversed[count++] = '.';
			places = 0; /* the point is written once */
		}
		if (value <= UINT64_MAX) {
			uint64_t small = (uint64_t)value;
			reversed[count++] = (char)('0' + small % 10);
			value = small / 10;
		} else {
			reversed[count++] = (char)('0' + (char)(value % 10));
			value /= 10;
		}
	} while (value > 0 || (places > 0 && count <= places));
	for (size_t i = 0; i < count; i++) {
		text[i] = reversed[count - 1 - i];
	}
	text[count] = '\0';
	return count;
}

size_t ratio_text(char *text, u128 numerator, u128 denominator, uint32_t places, const char *none)
{
	u128 scale = 1;

	if (denominator == 0) {
		strcpy(text, none);
		return strlen(none);
	}
	for (uint32_t i = 0; i < places; i++) {
		scale *= 10;
	}
	/* Whole and fraction apart, so that the product stays in range. */
	u128 whole = numerator / denominator;
	u128 rest = numerator % denominator;
	return decimal_text(text, whole * scale + rest * scale / denominator, places);
}

static void table_flush(struct table_writer *table)
{
	errno = 0;
	if (fwrite(table->buffer, 1, table->used, table->file) < table->used &&
		table->write_errno == 0) {
		/* Told at the end; by then errno is another's. */
		table->write_errno = errno == 0 ? EIO : errno;
	}
	table->used = 0;
}

static void table_bytes(struct table_writer *table, const char *bytes, size_t count)
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

enum status table_open(
	struct table_writer *table, const char *path, const char *header, struct error *error)
{
	table->used = 0;
	table->is_row_started = false;
	table->write_errno = 0;
	table->file = fopen(path, "wb");
	if (table->file == NULL) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(errno));
	}
	setvbuf(table->file, NULL, _IONBF, 0); /* the table has its own buffer */
	table_bytes(table, header, strlen(header));
	table_end_row(table);
	return STATUS_OK;
}

enum status table_close(struct table_writer *table, struct error *error)
{
	if (table->file == NULL) {
		return STATUS_OK;
	}
	table_flush(table);
	if (fclose(table->file) != 0 && table->write_errno == 0) {
		table->write_errno = errno == 0 ? EIO : errno;
	}
	table->file = NULL;
	if (table->write_errno != 0) {
		return error_set(error, STATUS_FILE,
			"a result file could not be written to its end: %s",
			strerror(table->write_errno));
	}
	return STATUS_OK;
}

void table_u64(struct table_writer *table, uint64_t value)
{
	char digits[20];
	size_t start = sizeof(digits);

	do {
		digits[--start] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	table_cell(table, digits + start, sizeof(digits) - start);
}

void table_decimal(struct table_writer *table, uint64_t value, uint32_t places)
{
	char text[TABLE_CELL_BYTES];

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
