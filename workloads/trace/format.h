#ifndef WORKLOADS_TRACE_FORMAT_H
#define WORKLOADS_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/source_line.h"
#include "workloads/trace/trace.h"

/* What tells one trace format from another: how its first line looks and how a line becomes a row.
   A format is one file and one row of the table in format.c. */

struct trace_format {
	const char *name;	   /* as --format spells it */
	uint32_t trace_block_size; /* tokens a hash id stands for unless told; 0: it has no ids */

	bool starts_at_first_row; /* times count from the first row's, not from 0 */
	const char *skip_reason;  /* what rows are passed over, if any are */

	/* Whether the first line of a file can only be this format's. */
	bool (*recognises)(const char *line, size_t line_bytes);

	void *(*open)(void);
	void (*close)(void *state); /* NULL allowed */

	/* For formats with a header line, else NULL. */
	enum status (*header)(void *state, const struct source_line *at, const char *line,
		size_t line_bytes, struct error *error);

	/* Fills all of row but index, line and what follows from the order of rows. A row that
	   stands for no request sets *is_skipped. */
	enum status (*row)(void *state, const struct source_line *at, const char *line,
		size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error);
};

/* The formats in the order of the table; NULL behind the last. */
const struct trace_format *trace_format_at(uint32_t index);

/* NULL: there is none of that name. */
const struct trace_format *trace_format_find(const char *name);

/* NULL: none recognises it. */
const struct trace_format *trace_format_of_line(const char *line, size_t line_bytes);

/* What may stand behind --format: "any", then the names; NULL behind the last. */
const char *trace_format_word(uint32_t index);

/* The format that a word means, NULL for "any". */
const struct trace_format *trace_format_of_word(uint32_t index);

/* Whether the line has this text in it; lines hold no zero bytes a text could hide behind. */
bool line_contains(const char *line, size_t line_bytes, const char *text);

#endif
