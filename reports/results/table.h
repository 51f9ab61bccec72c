#ifndef REPORTS_RESULTS_TABLE_H
#define REPORTS_RESULTS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Columns of a tab-separated table that a figure reads; the others are not looked at. */
enum { TABLE_COLUMNS_MAX = 16, TABLE_CELLS_MAX = 64 };

struct table_format {
	const char *name;	 /* of the file in a result folder */
	const char *text_column; /* holds words instead of numbers; NULL: none does */
	const char *columns[TABLE_COLUMNS_MAX]; /* hold numbers; NULL behind the last */
};

/* A table being read, a line at a time. */
struct table_reader {
	struct text path;
	FILE *file;
	char *line;
	size_t capacity;
	uint64_t line_number;
	char *cells[TABLE_CELLS_MAX]; /* (cell_count), into line */
	uint32_t cell_count;
	uint32_t header_count;
	uint32_t position[TABLE_COLUMNS_MAX]; /* where the format's columns stand */
	uint32_t column_count;
};

/* Opens DIRECTORY/NAME and finds the columns. To be closed after a failure too; a zeroed table may
   be closed as well. */
enum status table_reader_open(struct table_reader *table, const char *directory,
	const struct table_format *format, struct error *error);
void table_reader_close(struct table_reader *table);

/* The next row. A row must have as many cells as the header, and numbers (or `-`) where numbers are
   expected. *is_end: there is none. */
enum status table_reader_next(struct table_reader *table, const struct table_format *format,
	bool *is_end, struct error *error);

/* Of the current row, the format's column of that index; `-` is 0 as a number. The text lasts until
   the next row. */
const char *table_reader_cell(const struct table_reader *table, uint32_t column);
double table_reader_number(const struct table_reader *table, uint32_t column);

/* Reads the whole table and demands that it could be read so: gnuplot would leave out what it
   cannot read, and the figure would be wrong without a word. */
enum status table_check(
	const char *directory, const struct table_format *format, struct error *error);

#endif
