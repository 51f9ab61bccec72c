#ifndef BENCH_RECORD_TABLE_WRITER_H
#define BENCH_RECORD_TABLE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/integer.h"
#include "engine/base/status.h"

/* Tab-separated rows written as they come, through a buffer of its own: a replay writes a row a
   request, and printf would cost more than the simulation. All figures are integers or decimals
   made of integers, so their text is the same everywhere. */

enum { TABLE_BUFFER_BYTES = 1 << 16, TABLE_CELL_BYTES = 64 };

struct table_writer {
	FILE *file; /* NULL: closed */
	bool is_row_started;
	int write_errno; /* of the first write that failed; 0: none did */
	size_t used;
	char buffer[TABLE_BUFFER_BYTES];
};

/* Creates the file and writes the header line (without its line break). */
enum status table_open(
	struct table_writer *table, const char *path, const char *header, struct error *error);

/* Writes what is buffered and closes; a closed or zeroed table is accepted. */
enum status table_close(struct table_writer *table, struct error *error);

void table_u64(struct table_writer *table, uint64_t value);

/* value / 10^places, with exactly that many places, at most 18. */
void table_decimal(struct table_writer *table, uint64_t value, uint32_t places);

/* Text; tabs and line breaks in it become blanks. NULL: the cell has no value. */
void table_text(struct table_writer *table, const char *text);

/* `-`, a cell without a value. */
void table_none(struct table_writer *table);

void table_end_row(struct table_writer *table);

/* The text of value / 10^places; text: (TABLE_CELL_BYTES). Returns its length. */
size_t decimal_text(char *text, u128 value, uint32_t places);

/* numerator / denominator with `places` places, rounded down; `none` when the denominator is 0. */
size_t ratio_text(char *text, u128 numerator, u128 denominator, uint32_t places, const char *none);

#endif
