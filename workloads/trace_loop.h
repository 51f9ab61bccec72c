#ifndef WORKLOADS_TRACE_LOOP_H
#define WORKLOADS_TRACE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/trace.h"

/* A trace that begins again when it ends, for runs that are longer than it.

   A repetition follows a mean gap after the last row of the one before it:

       rows      |r0   r1 r2      r3|      |r4   r5 r6      r7|      |r8 ...
       times     |<-- last - first -->|<-->|  mean gap: (last - first) / (rows - 1)

   Its rows go on in number. Its sessions are new ones: the name of the second repetition's ends in
   "#2". Hash ids and token ids of prompts are

       LOOP_FRESH    other ones in each repetition, so none of them hits what an earlier one left
       LOOP_SHARED   the same ones, so prefixes that requests share are shared across repetitions

   Prompts without ids are made from the number of their row, so they are other ones in both. */

enum loop_mode { LOOP_OFF, LOOP_FRESH, LOOP_SHARED };

struct trace_loop;

/* path: borrowed until the loop is closed. */
enum status trace_loop_open(struct trace_loop **out, const char *path,
	const struct trace_options *options, enum loop_mode mode, struct error *error);

/* Accepts NULL. */
void trace_loop_close(struct trace_loop *loop);

/* The next row, as trace_next(); with LOOP_OFF *has_row is false at the end of the file. A
   repetition whose times end beyond 2^64 ns stays there. */
enum status trace_loop_next(
	struct trace_loop *loop, struct trace_row *row, bool *has_row, struct error *error);

/* Whether the trace has begun again. */
bool trace_loop_is_repetition(const struct trace_loop *loop);

/* Whether this is a repetition and has the times of the one before it: all rows have one time. */
bool trace_loop_stands_still(const struct trace_loop *loop);

/* The first reading of the file, for its block size, format and hash. */
struct trace *trace_loop_trace(const struct trace_loop *loop);

#endif
