#ifndef WORKLOADS_TRACE_MISSPELT_H
#define WORKLOADS_TRACE_MISSPELT_H

#include <stdbool.h>
#include <stddef.h>

#include "workloads/trace/source_line.h"

/* Names of a trace that nothing reads. Traces of others have many, so these are no fault; but one
   that resembles a field which is missing may be meant as that field. */

enum { MISSPELT_NOTE_BYTES = 448 };

/* Whether an unknown name is few edits away from a known one. Small and capital letters are alike.
   found: (bytes), need not end in a zero. */
bool misspelt_is_meant(const char *found, size_t bytes, const char *known);

/* "PATH:LINE: found field FOUND, which is not read; is KNOWN meant?" what: "field" or "column". */
void misspelt_note(char note[MISSPELT_NOTE_BYTES], const struct source_line *at, const char *what,
	const char *found, size_t bytes, const char *known);

#endif
