#ifndef WORKLOADS_TRACE_FORMAT_H
#define WORKLOADS_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/place.h"
#include "workloads/trace/trace.h"

/* What tells one trace format from another: how its first line looks and how a line becomes a row.
   A format is one file and one row of the table in format.c. */

struct format {
	const char *name;	   /* as --format spells it */
	uint32_t trace_block_size; /* tokens a hash id stands for unless told; 0: it has no ids */

	bool starts_at_first_row; /* times count from the first row's, not from 0 */
	const char *skip_reason;  /* what rows are passed over, if any are */

	/* Whether the first line of a file can only be this format's. */
	bool (*recognises)(const char *line, size_t line_bytes);

	void *(*open)(void);
	void (*close)(void *state); /* NULL allowed */

	/* For formats with a header line, else NULL. */
	enum status (*header)(void *state, const struct place *place, const char *line,
		size_t line_bytes, struct error *error);

	/* Fills all of row but index, line and what follows from the order of rows. A row that
	   stands for no request sets *is_skipped. */
	enum status (*row)(void *state, const struct place *place, const char *line,
		size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error);
};

extern const struct format format_mooncake, format_bailian, format_azure, format_burstgpt,
	format_token_ids;

/* The formats in the order of enum trace_format, without its TRACE_FORMAT_ANY. */
extern const struct format *const formats[TRACE_FORMAT_COUNT - 1];

/* NULL: none. */
const struct format *format_of_line(const char *line, size_t line_bytes);

/* Whether the line has this text in it; lines hold no zero bytes a text could hide behind. */
bool line_contains(const char *line, size_t line_bytes, const char *text);

#endif
