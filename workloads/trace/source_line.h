#ifndef WORKLOADS_TRACE_SOURCE_LINE_H
#define WORKLOADS_TRACE_SOURCE_LINE_H

#include <stdbool.h>
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

/* ---- names that nothing reads ---- */

/* Traces of others have many, so these are no fault; but one that resembles a field which is
   missing may be meant as that field. */

enum { UNREAD_NOTE_BYTES = 448 };

/* Whether an unknown name is few edits away from a known one. Small and capital letters are alike.
   found: (bytes), need not end in a zero. */
bool unread_is_meant(const char *found, size_t bytes, const char *known);

/* "PATH:LINE: found field FOUND, which is not read; is KNOWN meant?" what: "field" or "column". */
void unread_note(char note[UNREAD_NOTE_BYTES], const struct source_line *at, const char *what,
	const char *found, size_t bytes, const char *known);

#endif
