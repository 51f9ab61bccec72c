#ifndef ENGINE_BASE_TABLE_H
#define ENGINE_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/status.h"

/* Tab-separated tables: one header line that names the columns, then rows with as many cells. Lines
   end in a line feed, the last one may lack it. A cell without a value is `-`. */

/* ---- writing ---- */

/* Rows are formatted into the table's own buffer: a replay writes a row per request, and printf
   would take longer than the simulation. All figures are integers, or decimals formatted from
   integers, so that their text is the same on every machine.

   A failed write is reported when the file is closed (engine/base/output_file.h). */

enum { TABLE_BUFFER_BYTES = 1 << 16 };

struct table_writer {
	FILE *file; /* borrowed; NULL: closed */
	bool is_row_started;
	size_t used;
	char buffer[TABLE_BUFFER_BYTES];
};

/* Writes the header line (given without its line feed) into an empty file. */
void table_begin(struct table_writer *table, FILE *file, const char *header);

/* Writes what is buffered; an ended or zeroed table is accepted. The file stays open. */
void table_end(struct table_writer *table);

void table_u64(struct table_writer *table, uint64_t value);

/* value / 10^places, with exactly that many places, at most 18. */
void table_decimal(struct table_writer *table, uint64_t value, uint32_t places);

/* Text; tabs and line breaks in it become spaces. NULL: the cell has no value. */
void table_text(struct table_writer *table, const char *text);

/* `-`, a cell without a value. */
void table_none(struct table_writer *table);

void table_end_row(struct table_writer *table);

/* ---- reading ---- */

/* Reads one row at a time, so memory does not depend on the table's length. A UTF-8 byte order mark
   at the start and a carriage return at the end of a line are no part of it. Refused with file and
   line: an empty file, a zero byte, another carriage return, a duplicate column, more than
   TABLE_COLUMNS_MAX columns, a row with another number of cells than the header. A first line that
   does not end within TABLE_FIRST_LINE_BYTES_MAX is refused before it is read to its end: what is
   no table may be one line of gigabytes. */

enum {
	TABLE_COLUMNS_MAX = 256,
	TABLE_NO_COLUMN = TABLE_COLUMNS_MAX,
	TABLE_FIRST_LINE_BYTES_MAX = 1 << 16
};

struct table_reader {
	char *path; /* owned */
	FILE *file;
	char *header, *line; /* owned; their tabs are NULs */
	size_t line_capacity;
	uint64_t line_number;
	uint32_t column_count;
	const char *names[TABLE_COLUMNS_MAX]; /* (column_count) of the columns */
	const char *cells[TABLE_COLUMNS_MAX]; /* (column_count) of the row that was read last */
};

struct text;

/* Opens a file and reads its header. Lines in front of it that begin with # are appended to
   `remarks`, with their line feeds; where that is NULL such a line is the header. To be closed
   after a failure too. */
enum status table_reader_open(
	struct table_reader *table, const char *path, struct text *remarks, struct error *error);

/* A zeroed table is accepted. */
void table_reader_close(struct table_reader *table);

/* The column of that name, or TABLE_NO_COLUMN. */
uint32_t table_reader_find(const struct table_reader *table, const char *name);

/* The same for a required column. Sticky. */
enum status table_reader_column(
	const struct table_reader *table, const char *name, uint32_t *column, struct error *error);

/* "; columns are separated by tabs" where the header looks as if other characters separated them,
   else "": for the end of an error about its columns. */
const char *table_reader_way_out(const struct table_reader *table);

/* Reads the next row into `cells`, which are valid until the next row is read. False: end of the
   table, or error->status is set. Sticky. */
bool table_reader_next(struct table_reader *table, struct error *error);

/* The integer in a cell, digits only and at most `maximum`. Sticky. */
enum status table_reader_u64(const struct table_reader *table, uint32_t column, uint64_t maximum,
	uint64_t *value, struct error *error);

/* "FILE:LINE: column NAME: found 'CELL', expected EXPECTED" for a cell that the caller refuses.
   Sticky. */
enum status table_reader_refuse(const struct table_reader *table, uint32_t column,
	const char *expected, struct error *error);

#endif
