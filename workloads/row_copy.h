#ifndef WORKLOADS_ROW_COPY_H
#define WORKLOADS_ROW_COPY_H

#include <stddef.h>

#include "workloads/trace/trace.h"

/* Rows that outlive the next call on their trace. */

/* Bytes of everything that the row points to. */
size_t row_copy_bytes(const struct trace_row *row);

/* Copies the row to *to and what it points to into `memory`, (row_copy_bytes()) bytes aligned for
   a uint64_t, to which the copy's pointers point. */
void row_copy(struct trace_row *to, const struct trace_row *row, void *memory);

#endif
