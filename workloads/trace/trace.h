#ifndef WORKLOADS_TRACE_TRACE_H
#define WORKLOADS_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A trace: a file of requests in order of arrival, read as a stream, one row at a time, so that its
   length costs no memory. Errors carry file, line, field, what was found and what was expected.

   Limits, beyond which a row is refused with the name of the field: input_length and output_length
   in [1, 2^28], timestamps up to CLOCK_NS_MAX, hash ids below 2^63, 2^22 hash ids a row. Blank
   lines are allowed only at the end of the file. A file without any row is refused. */

struct trace;

enum { TRACE_LENGTH_MAX = 1 << 28, TRACE_BLOCK_SIZE_MAX = 1 << 20 };

struct trace_format; /* workloads/trace/format.h */

struct trace_options {
	const struct trace_format *format; /* NULL: recognised by the first line */
	uint32_t trace_block_size;	   /* tokens per hash id; 0: what the first row says, or
					      else the format's default */
	const char *columns;		   /* for format csv: which columns its rows are in, as
				workloads/trace/format_csv.c describes; NULL: by their names */
	bool sort; /* sort rows by time, ties by line, instead of refusing rows out of order; keeps
		      the whole file in memory */
};

/* Tokens [first, first + count) of a prompt that repeat an earlier turn and that the row's own ids
   do not cover. They are either that row's own tokens (its completion included) or tokens of the
   partial block that ended its prompt. */
struct token_span {
	uint64_t source; /* index of the earlier row, or hash id of the block */
	uint32_t first, count;
	uint32_t origin; /* position in the prompt of the source's token 0 */
	bool is_block;
};

#define NO_TURN UINT64_MAX

/* One row. Pointers are borrowed and valid until the next call on the same trace. */
struct trace_row {
	uint64_t index;		  /* from 0, in the order in which rows are returned */
	uint64_t line;		  /* in the file, from 1 */
	uint64_t arrival_ns;	  /* since the trace's zero: its time 0, or its first row's time
				     (format.starts_at_first_row) */
	uint32_t input_length;	  /* tokens, >= 1 */
	uint32_t output_length;	  /* tokens, >= 1 */
	int32_t priority;	  /* smaller goes first; 0 where a row has none */
	uint32_t stored_length;	  /* leading tokens of the prompt whose K and V count as cached when
				       the row arrives, though nothing computed them */
	const uint64_t *hash_ids; /* (hash_id_count); NULL: the prompt shares nothing by ids */
	uint32_t hash_id_count;	  /* one per whole block, and optionally one for the rest */
	uint32_t block_size;	  /* tokens per hash id, as the row says it; 0: it does not */
	const uint64_t *prompt_ids; /* (input_length) token ids of the trace, or NULL */
	const uint64_t *output_ids; /* (output_length) likewise */

	const char *session; /* NULL: none */
	const char *turn;    /* name by which later rows refer to this one; NULL: the session's name
				*/
	const char *parent;  /* with .turn: the turn that it follows, or NULL */
	uint64_t delay_ns;   /* from the end of the preceding turn to this one; 0 without has_delay
				*/
	bool has_delay;

	/* Filled by workloads/conversations.h only. */
	uint64_t turn_index;		/* NO_TURN: the row belongs to no session */
	const struct token_span *spans; /* (span_count), disjoint, in order of .first */
	uint32_t span_count;
};

/* Opens a trace and recognises its format. A file whose first line has no known format is refused.
   */
enum status trace_open(struct trace **out, const char *path, const struct trace_options *options,
	struct error *error);
void trace_close(struct trace *trace);

/* The next row: *has_row is false at the end of the trace. */
enum status trace_next(
	struct trace *trace, struct trace_row *row, bool *has_row, struct error *error);

/* "PATH:LINE: found FOUND, expected EXPECTED" for a row that the caller refuses. */
enum status trace_refuse_row(const struct trace *trace, uint64_t line, const char *found,
	const char *expected, struct error *error);

uint32_t trace_block_size(const struct trace *trace);

/* As --format spells it. */
const char *trace_format_name(const struct trace *trace);

/* Number of rows skipped so far because they are not requests, and what they are; NULL: the format
   has no such rows. */
uint64_t trace_skipped_count(const struct trace *trace);
const char *trace_skip_reason(const struct trace *trace);

/* Note `index`, from 0, of what a user must know of how the file was read, known after the last
   row; NULL: there are no more. Valid while the trace is open. */
const char *trace_note(const struct trace *trace, uint32_t index);

/* Reads the rest of the file without parsing it, for callers that stop early but need its hash. */
enum status trace_finish(struct trace *trace, struct error *error);

/* Rows of a file, counted without parsing them: its lines that are not empty, without a header.
   Rows that a format skips are counted too. 0: it cannot be read, or is one line of JSON, which may
   hold many rows. */
uint64_t trace_estimate_rows(const char *path, struct error *error);

/* XXH64 with seed 0 of the file as stored on disk (compressed or not): what `xxhsum -H64` prints.
   It covers the whole file once trace_next() has returned no row, or after trace_finish(). */
uint64_t trace_xxh64(const struct trace *trace);

#endif
