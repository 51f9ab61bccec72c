#ifndef WORKLOADS_TRACE_SOURCE_LINE_H
#define WORKLOADS_TRACE_SOURCE_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A position in a file, and the one-line error about it:

       PATH:LINE: FIELD: found WHAT, expected WHAT  */

struct source_line {
	const char *path; /* borrowed */
	uint64_t line;	  /* from 1; 0: the file as a whole */
};

/* Returns STATUS_INPUT. found: (found_bytes) of the file, quoted, truncated, and with unprintable
   bytes shown as `?`. field: NULL: the whole line. */
enum status source_line_error(struct error *error, const struct source_line *at, const char *field,
	const char *found, size_t found_bytes, const char *expected_format, ...)
	__attribute__((format(printf, 6, 7)));

#endif
