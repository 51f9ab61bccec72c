#ifndef WORKLOADS_TRACE_TRACE_WRITER_H
#define WORKLOADS_TRACE_TRACE_WRITER_H

#include <stdio.h>

#include "engine/base/status.h"
#include "workloads/trace/trace.h"

/* Writes a row as a line of Mooncake JSONL. Times are milliseconds with as many decimals as they
   need, six at most, so that reading gives back the same nanoseconds. The block size is left out
   where it is the format's default. Failures are reported by
   ferror(file). */
void trace_write_row(FILE *file, const struct trace_row *row);

#endif
