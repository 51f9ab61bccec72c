#ifndef WORKLOADS_TRACE_TRACE_H
#define WORKLOADS_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A trace: a file of requests in order of arrival, read as a stream, one row at a time, so that its
   length costs no memory. Errors carry file, line, field, what was found and what was expected.

   Limits, each refused by name beyond: input_length and output_length in [1, 2^28], timestamps up
   to 2^63 ns, hash ids below 2^63, 2^22 hash ids a row. Lines with nothing on them are allowed at
   the end of the file only; a file without any row is refused. */

struct trace;

#define TRACE_TIME_NS_MAX ((UINT64_C(1) << 63) - 1)
enum { TRACE_LENGTH_MAX = 1 << 28 };

struct trace_format; /* workloads/trace/format.h */

struct trace_options {
	const struct trace_format *format; /* NULL: told by the first line */
	uint32_t trace_block_size; /* tokens a hash id stands for; 0: the format's own (512) */
	bool sort; /* rows by time, ties by line, instead of refusing those out of order; the whole
		      file is kept in memory */
};

/* Tokens [first, first + count) of a prompt that are not what its own ids or its own row say, but
   what an earlier turn said there: words of that row's own (its completion among them), or of the
   block that its prompt ended in. */
struct token_span {
	uint64_t source; /* index of the earlier row, or hash id of the block */
	uint32_t first, count;
	uint32_t origin; /* where in the prompt the source's own position 0 lies */
	bool is_block;
};

#define NO_TURN UINT64_MAX

/* One row. Pointers are borrowed and die with the next call on the same trace. */
struct trace_row {
	uint64_t index;		  /* from 0, in the order in which rows are handed out */
	uint64_t line;		  /* in the file, from 1 */
	uint64_t arrival_ns;	  /* from the trace's own zero */
	uint32_t input_length;	  /* tokens, >= 1 */
	uint32_t output_length;	  /* tokens, >= 1 */
	const uint64_t *hash_ids; /* (hash_id_count); NULL: the prompt shares nothing by ids */
	uint32_t hash_id_count;	  /* one for each whole block; for the rest too, or not */
	const uint64_t
		*prompt_ids; /* (input_length) token ids that the trace spells out, or NULL */
	const uint64_t *output_ids; /* (output_length) likewise */

	const char *session; /* NULL: the row belongs to none */
	const char *turn;    /* name by which later rows call this one; NULL: the session's */
	const char *parent;  /* with .turn: the turn that it follows, or NULL */
	uint64_t delay_ns;   /* from the end of the turn before to this one; 0 without has_delay */
	bool has_delay;

	/* Filled by workloads/conversations.h only. */
	uint64_t turn_index;		/* NO_TURN: the row belongs to no session */
	const struct token_span *spans; /* (span_count), disjoint */
	uint32_t span_count;
};

/* Opens a trace; a file that is none is refused here if its first row shows it. */
enum status trace_open(struct trace **out, const char *path, const struct trace_options *options,
	struct error *error);
void trace_close(struct trace *trace);

/* The next row: *has_row is false at the end of the trace. */
enum status trace_next(
	struct trace *trace, struct trace_row *row, bool *has_row, struct error *error);

uint32_t trace_block_size(const struct trace *trace);

/* As --format spells it. */
const char *trace_format_name(const struct trace *trace);

/* Rows passed over so far because they stand for no request, and what they are; NULL: the format
   has none. */
uint64_t trace_skipped_count(const struct trace *trace);
const char *trace_skip_reason(const struct trace *trace);

/* Reads the file to its end without looking at further rows, for those who stop early. */
enum status trace_finish(struct trace *trace, struct error *error);

/* XXH64 with seed 0 of the file as it lies on disk (packed, if it is): what `xxhsum -H64` prints.
   Of the whole file once trace_next() has said that there are no more rows, or after
   trace_finish(). */
uint64_t trace_xxh64(const struct trace *trace);

#endif
