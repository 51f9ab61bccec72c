#include "workloads/trace/trace.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "workloads/trace/byte_source.h"
#include "workloads/trace/format.h"
#include "workloads/trace/line_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line that is kept, to be parsed again in order of time. */
struct sorted_line {
	uint64_t arrival_ns, line;
	size_t at, bytes; /* in sorted_text */
};

struct trace {
	struct line_reader *lines;
	const struct trace_format *format;
	void *state;
	uint32_t trace_block_size,
		own_block_size; /* own: as the first row says it; 0: it does not */
	struct trace_totals totals;
	uint64_t blank_line; /* the first of blank lines just passed; 0: none */
	uint64_t last_arrival_ns, last_line;
	uint64_t start_ns; /* subtracted from all times, so that the first row's is 0 */
	uint64_t skipped_count;

	bool is_sorted;		    /* rows come from `sorted`, not from lines */
	struct sorted_line *sorted; /* (sorted_count) */
	size_t sorted_count, sorted_next;
	char *sorted_text;
};

static bool is_blank(const char *line, size_t line_bytes)
{
	for (size_t i = 0; i < line_bytes; i++) {
		if (line[i] != ' ' && line[i] != '\t') {
			return false;
		}
	}
	return true;
}

static struct source_line source_line_of(const struct trace *trace, uint64_t line)
{
	return (struct source_line){line_reader_path(trace->lines), line};
}

enum status trace_refuse_row(const struct trace *trace, uint64_t line, const char *found,
	const char *expected, struct error *error)
{
	const struct source_line at = source_line_of(trace, line);

	return source_line_error(error, &at, NULL, found, strlen(found), "%s", expected);
}

/* The next line that is not blank; NULL at the end of the file. */
static enum status next_line(
	struct trace *trace, const char **line, size_t *line_bytes, struct error *error)
{
	do {
		TRY(line_reader_next(trace->lines, line, line_bytes, error));
		if (*line == NULL) {
			return STATUS_OK;
		}
		if (is_blank(*line, *line_bytes) && trace->blank_line == 0) {
			trace->blank_line = line_reader_line(trace->lines);
		}
	} while (is_blank(*line, *line_bytes));
	if (trace->blank_line != 0) {
		struct source_line at = source_line_of(trace, trace->blank_line);
		return source_line_error(
			error, &at, NULL, "a line with nothing on it", 25, "a row");
	}
	return STATUS_OK;
}

static enum status choose_format(struct trace *trace, const struct trace_format *wanted,
	const char *line, size_t line_bytes, struct error *error)
{
	char names[120];
	size_t used = 0;
	struct source_line at = source_line_of(trace, 1);

	trace->format = wanted != NULL ? wanted : trace_format_of_line(line, line_bytes);
	if (trace->format != NULL) {
		return STATUS_OK;
	}
	for (uint32_t i = 0; trace_format_at(i) != NULL; i++) {
		int added = snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
			trace_format_at(i)->name);
		check(added > 0);
		used += (size_t)added;
		check(used < sizeof(names));
	}
	return source_line_error(error, &at, NULL, line, line_bytes,
		"the first line of a trace (%s)%s", names, trace_format_way_out(line, line_bytes));
}

/* What the first row says; 0: nothing. A row that is wrong is reported when it is read. */
static uint32_t block_size_of(
	struct trace *trace, const struct source_line *at, const char *line, size_t line_bytes)
{
	struct trace_row row = {0};
	struct error ignored = {0};
	bool is_skipped;

	enum status status =
		trace->format->row(trace->state, at, line, line_bytes, &row, &is_skipped, &ignored);
	return status == STATUS_OK ? row.block_size : 0;
}

static enum status read_start(
	struct trace *trace, const struct trace_options *options, struct error *error)
{
	const char *line = NULL;
	size_t line_bytes = 0;
	struct source_line at = source_line_of(trace, 0);

	TRY(next_line(trace, &line, &line_bytes, error));
	if (line == NULL) {
		return source_line_error(
			error, &at, NULL, "an empty file", 13, "a trace with at least one row");
	}
	TRY(choose_format(trace, options->format, line, line_bytes, error));
	trace->state = trace->format->open(options);
	at.line = 1;
	if (trace->format->header != NULL) {
		TRY(trace->format->header(trace->state, &at, line, line_bytes, error));
	} else {
		trace->own_block_size = trace->format->more != NULL
						? 0
						: block_size_of(trace, &at, line, line_bytes);
		line_reader_unread(trace->lines);
	}
	trace->trace_block_size = options->trace_block_size != 0 ? options->trace_block_size
				  : trace->own_block_size != 0	 ? trace->own_block_size
								 : trace->format->trace_block_size;
	return STATUS_OK;
}

/* The power of two for which the number of ids would be right; 0: none. */
static uint32_t fitting_block_size(const struct trace_row *row)
{
	for (uint32_t size = 1; size <= 1 << 16; size *= 2) {
		if (row->hash_id_count == u64_divide_up(row->input_length, size) ||
			row->hash_id_count == row->input_length / size) {
			return size;
		}
	}
	return 0;
}

/* A row has an id for each whole block of its prompt. An id for the rest is optional: traces of
   both kinds exist. */
static enum status check_ids(const struct trace *trace, const struct source_line *at,
	const struct trace_row *row, struct error *error)
{
	char found[64];
	char expected[64];

	if (row->block_size != 0 && row->block_size != trace->own_block_size) {
		int bytes = snprintf(found, sizeof(found), "%" PRIu32, row->block_size);
		return source_line_error(error, at, "block_size", found, (size_t)bytes,
			"what the first row says, or nothing");
	}
	if (row->hash_ids == NULL) {
		return STATUS_OK;
	}
	check(trace->trace_block_size > 0);
	uint64_t whole = row->input_length / trace->trace_block_size;
	uint64_t all = u64_divide_up(row->input_length, trace->trace_block_size);
	if (row->hash_id_count == whole || row->hash_id_count == all) {
		return STATUS_OK;
	}
	int bytes = snprintf(found, sizeof(found), "%" PRIu32 " %s for input_length %" PRIu32,
		row->hash_id_count, word_of_count(row->hash_id_count, "id", "ids"),
		row->input_length);
	snprintf(expected, sizeof(expected), "%" PRIu64 "%s", whole,
		whole == all ? "" : " or one more for the rest");
	uint32_t fitting = fitting_block_size(row);
	if (fitting > 0) {
		return source_line_error(error, at, "hash_ids", found, (size_t)bytes,
			"%s at %" PRIu32 " %s an id (--trace-block-size %" PRIu32 " would fit)",
			expected, trace->trace_block_size,
			word_of_count(trace->trace_block_size, "token", "tokens"), fitting);
	}
	return source_line_error(error, at, "hash_ids", found, (size_t)bytes,
		"%s at %" PRIu32 " %s an id (--trace-block-size)", expected,
		trace->trace_block_size, word_of_count(trace->trace_block_size, "token", "tokens"));
}

static enum status check_order(struct trace *trace, const struct source_line *at,
	const struct trace_row *row, struct error *error)
{
	char found[96];

	if (trace->totals.rows > 0 && row->arrival_ns < trace->last_arrival_ns) {
		int bytes = snprintf(found, sizeof(found), "a time %" PRIu64 " ns earlier",
			trace->last_arrival_ns - row->arrival_ns);
		return source_line_error(error, at, NULL, found, (size_t)bytes,
			"a time not before that of line %" PRIu64 " (--sort brings rows in order)",
			trace->last_line);
	}
	trace->last_arrival_ns = row->arrival_ns;
	trace->last_line = at->line;
	return STATUS_OK;
}

/* Parses lines up to the next one that is a request; *has_row is false at the end. */
static enum status parse_next(struct trace *trace, struct trace_row *row, struct source_line *at,
	bool *has_row, struct error *error)
{
	bool is_skipped = true;

	*has_row = false;
	while (is_skipped) {
		const char *line = NULL;
		size_t line_bytes = 0;
		memset(row, 0, sizeof(*row));
		bool is_of_line = trace->format->more != NULL &&
				  trace->format->more(trace->state, row, &is_skipped);
		if (!is_of_line) {
			TRY(next_line(trace, &line, &line_bytes, error));
		}
		if (!is_of_line && line == NULL) {
			return STATUS_OK;
		}
		*at = source_line_of(trace, line_reader_line(trace->lines));
		if (!is_of_line) {
			TRY(trace->format->row(
				trace->state, at, line, line_bytes, row, &is_skipped, error));
		}
		trace->skipped_count += is_skipped;
	}
	*has_row = true;
	return STATUS_OK;
}

/* ---- rows in order of time, for --sort ---- */

static int by_time(const void *a, const void *b)
{
	const struct sorted_line *x = a;
	const struct sorted_line *y = b;

	if (x->arrival_ns != y->arrival_ns) {
		return x->arrival_ns < y->arrival_ns ? -1 : 1;
	}
	return x->line < y->line ? -1 : 1;
}

static enum status sort_lines(struct trace *trace, struct error *error)
{
	size_t text_bytes = 0;
	size_t text_capacity = 0;
	size_t capacity = 0;
	struct trace_row row;
	struct source_line at;
	bool has_row = true;

	for (;;) {
		TRY(parse_next(trace, &row, &at, &has_row, error));
		if (!has_row) {
			break;
		}
		const char *line = NULL;
		size_t line_bytes = 0;
		line_reader_last(trace->lines, &line, &line_bytes);
		trace->sorted_text =
			memory_grow(trace->sorted_text, &text_capacity, text_bytes + line_bytes, 1);
		memcpy(trace->sorted_text + text_bytes, line, line_bytes);
		trace->sorted = memory_grow(
			trace->sorted, &capacity, trace->sorted_count + 1, sizeof(*trace->sorted));
		trace->sorted[trace->sorted_count++] =
			(struct sorted_line){row.arrival_ns, at.line, text_bytes, line_bytes};
		text_bytes += line_bytes;
	}
	if (trace->sorted_count > 0) {
		qsort(trace->sorted, trace->sorted_count, sizeof(*trace->sorted), by_time);
	}
	trace->is_sorted = true;
	return STATUS_OK;
}

static enum status parse_sorted(struct trace *trace, struct trace_row *row, struct source_line *at,
	bool *has_row, struct error *error)
{
	bool is_skipped = false;

	*has_row = trace->sorted_next < trace->sorted_count;
	if (!*has_row) {
		return STATUS_OK;
	}
	const struct sorted_line *line = &trace->sorted[trace->sorted_next++];
	memset(row, 0, sizeof(*row));
	*at = source_line_of(trace, line->line);
	return trace->format->row(trace->state, at, trace->sorted_text + line->at, line->bytes, row,
		&is_skipped, error);
}

static enum status refuse_without_rows(const struct trace *trace, struct error *error)
{
	const struct source_line at = source_line_of(trace, 0);

	if (trace->skipped_count == 0) {
		return source_line_error(
			error, &at, NULL, "no row", 6, "a trace with at least one");
	}
	return source_line_error(error, &at, NULL, "no row", 6,
		"at least one beside the %" PRIu64 " %s that are passed over", trace->skipped_count,
		trace_skip_reason(trace));
}

/* Reads and checks the next row. */
static enum status read_row(struct trace *trace, struct trace_row *row, struct source_line *at,
	bool *has_row, struct error *error)
{
	TRY(trace->is_sorted ? parse_sorted(trace, row, at, has_row, error)
			     : parse_next(trace, row, at, has_row, error));
	if (!*has_row) {
		return trace->totals.rows > 0 ? STATUS_OK : refuse_without_rows(trace, error);
	}
	TRY(check_ids(trace, at, row, error));
	return check_order(trace, at, row, error);
}

static void count_row(struct trace_totals *totals, const struct trace_row *row)
{
	const uint64_t ns_per_ms = 1000000;

	totals->first_ns = totals->rows == 0 ? row->arrival_ns : totals->first_ns;
	totals->last_ns = row->arrival_ns;
	totals->has_part_of_ms = totals->has_part_of_ms || row->arrival_ns % ns_per_ms != 0;
	totals->input_tokens += row->input_length;
}

enum status trace_next(
	struct trace *trace, struct trace_row *row, bool *has_row, struct error *error)
{
	struct source_line at = source_line_of(trace, 0);
	enum status status = read_row(trace, row, &at, has_row, error);

	*has_row = *has_row && status == STATUS_OK;
	if (!*has_row) {
		return status;
	}
	if (trace->totals.rows == 0 && trace->format->starts_at_first_row) {
		trace->start_ns = row->arrival_ns;
	}
	count_row(&trace->totals, row);
	row->arrival_ns -= trace->start_ns;
	row->line = at.line;
	row->index = trace->totals.rows++;
	return STATUS_OK;
}

static enum status start(struct trace *trace, const char *path, const struct trace_options *options,
	struct error *error)
{
	TRY(line_reader_open(&trace->lines, path, error));
	TRY(read_start(trace, options, error));
	return options->sort && trace->format->more == NULL ? sort_lines(trace, error) : STATUS_OK;
}

enum status trace_open(struct trace **out, const char *path, const struct trace_options *options,
	struct error *error)
{
	struct trace *trace = memory_take(1, sizeof(*trace));
	enum status status = start(trace, path, options, error);

	*out = NULL;
	if (status != STATUS_OK) {
		trace_close(trace);
		return status;
	}
	*out = trace;
	return STATUS_OK;
}

void trace_close(struct trace *trace)
{
	if (trace == NULL) {
		return;
	}
	if (trace->format != NULL) {
		trace->format->close(trace->state);
	}
	line_reader_close(trace->lines);
	free(trace->sorted);
	free(trace->sorted_text);
	free(trace);
}

uint32_t trace_block_size(const struct trace *trace)
{
	return trace->trace_block_size;
}

const char *trace_format_name(const struct trace *trace)
{
	return trace->format->name;
}

uint64_t trace_skipped_count(const struct trace *trace)
{
	return trace->skipped_count;
}

const char *trace_skip_reason(const struct trace *trace)
{
	return word_of_count(
		trace->skipped_count, trace->format->skipped[0], trace->format->skipped[1]);
}

const char *trace_note(const struct trace *trace, uint32_t index)
{
	const struct trace_format *format = trace->format;
	const char *notes[] = {
		format->misspelt == NULL ? NULL : format->misspelt(trace->state),
		format->note == NULL ? NULL : format->note(trace->state, &trace->totals),
	};

	for (uint32_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		if (notes[i] != NULL && index-- == 0) {
			return notes[i];
		}
	}
	return NULL;
}

enum status trace_finish(struct trace *trace, struct error *error)
{
	return line_reader_finish(trace->lines, error);
}

uint64_t trace_xxh64(const struct trace *trace)
{
	return line_reader_xxh64(trace->lines);
}

static enum status count_lines(
	struct byte_source *source, uint64_t *count, bool *has_header, struct error *error)
{
	enum { CHUNK_BYTES = 1 << 16 };
	char *buffer = memory_take(CHUNK_BYTES, 1);
	size_t got = 1;
	bool is_first = true;
	char last = '\n';
	enum status status = STATUS_OK;

	while (status == STATUS_OK && got > 0) {
		status = byte_source_read(source, buffer, CHUNK_BYTES, &got, error);
		for (size_t i = 0; status == STATUS_OK && i < got; i++) {
			*count += last == '\n' && buffer[i] != '\n' && buffer[i] != '\r';
			last = buffer[i];
		}
		if (is_first && got > 0) {
			*has_header = buffer[0] != '{';
			is_first = false;
		}
	}
	free(buffer);
	return status;
}

uint64_t trace_estimate_rows(const char *path, struct error *error)
{
	struct byte_source *source = NULL;
	uint64_t count = 0;
	bool has_header = false;

	if (byte_source_open(&source, path, error) != STATUS_OK) {
		return 0;
	}
	enum status status = count_lines(source, &count, &has_header, error);
	byte_source_close(source);
	return status == STATUS_OK && count > 1 ? count - has_header : 0;
}
