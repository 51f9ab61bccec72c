#ifndef WORKLOADS_TRACE_FORMAT_H
#define WORKLOADS_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/source_line.h"
#include "workloads/trace/trace.h"

/* A trace format: how to recognise it by its first line, and how a line becomes a row. A format is
   one file and one row of the table in format.c. */

/* Tokens per hash id of Mooncake's traces, where they do not say another number. */
enum { MOONCAKE_BLOCK_SIZE = 512 };

/* Of the rows that were read. */
struct trace_totals {
	uint64_t rows, input_tokens;
	uint64_t first_ns, last_ns; /* arrivals */
	bool has_part_of_ms;	    /* a row arrives within a millisecond */
};

struct trace_format {
	const char *name;	   /* as --format spells it */
	uint32_t trace_block_size; /* default tokens per hash id; 0: the format has no ids */

	bool starts_at_first_row; /* times are relative to the first row's, not to 0 */
	const char *skipped[2]; /* describes one row that is skipped, and several; NULL: none are */

	/* Whether the first line of a file can only be this format's. */
	bool (*recognises)(const char *line, size_t line_bytes);

	void *(*open)(const struct trace_options *options); /* borrowed until close() */
	void (*close)(void *state);			    /* NULL allowed */

	/* For formats with a header line, else NULL. */
	enum status (*header)(void *state, const struct source_line *at, const char *line,
		size_t line_bytes, struct error *error);

	/* Fills all of row but index, line and the fields that depend on the order of rows. Sets
	   *is_skipped for a row that is not a request. */
	enum status (*row)(void *state, const struct source_line *at, const char *line,
		size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error);

	/* For formats with many rows on a line, else NULL: the next row of the latest line; false:
	   there is none. Rows of a line come in order of time, and such a file has one line. */
	bool (*more)(void *state, struct trace_row *row, bool *is_skipped);

	/* What a user must know of names that were not read; NULL: nothing. */
	const char *(*misspelt)(const void *state);

	/* And of how the file was read, after its rows; NULL: nothing. */
	const char *(*note)(const void *state, const struct trace_totals *totals);
};

/* The formats in the order of the table; NULL past the end. */
const struct trace_format *trace_format_at(uint32_t index);

/* NULL: unknown name. */
const struct trace_format *trace_format_find(const char *name);

/* NULL: no format recognises the line. */
const struct trace_format *trace_format_of_line(const char *line, size_t line_bytes);

/* "; WHAT TO DO" about a line that is no trace's, which is not empty, or "". */
const char *trace_format_way_out(const char *line, size_t line_bytes);

/* The same for a line with commas, in format_csv.c: which columns it lacks. */
const char *csv_way_out(const char *line, size_t line_bytes);

/* The values of --format: "any", then the names; NULL past the end. */
const char *trace_format_word(uint32_t index);

/* The format at an index of trace_format_word(); NULL for "any". */
const struct trace_format *trace_format_of_word(uint32_t index);

/* Whether the line contains this text. Lines contain no zero bytes, so a string search suffices. */
bool line_contains(const char *line, size_t line_bytes, const char *text);

#endif
