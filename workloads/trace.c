#include "workloads/trace.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/format.h"
#include "workloads/line_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace {
	struct line_reader *lines;
	const struct format *format;
	void *state;
	uint32_t trace_block_size;
	uint64_t row_count;
	uint64_t blank_line; /* the first of blank lines just passed; 0: none */
	uint64_t last_arrival_ns, last_line;
	bool is_at_end;
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

static struct place place_of(const struct trace *trace, uint64_t line)
{
	return (struct place){line_reader_path(trace->lines), line};
}

/* The next line with something on it; NULL at the end of the file. */
static enum status next_line(
	struct trace *trace, const char **line, size_t *line_bytes, struct error *error)
{
	enum status status;

	do {
		status = line_reader_next(trace->lines, line, line_bytes, error);
		if (status != STATUS_OK || *line == NULL) {
			return status;
		}
		if (is_blank(*line, *line_bytes) && trace->blank_line == 0) {
			trace->blank_line = line_reader_line(trace->lines);
		}
	} while (is_blank(*line, *line_bytes));
	if (trace->blank_line != 0) {
		struct place place = place_of(trace, trace->blank_line);
		return place_error(error, &place, NULL, "a line with nothing on it", 25, "a row");
	}
	return STATUS_OK;
}

static enum status choose_format(struct trace *trace, enum trace_format wanted, const char *line,
	size_t line_bytes, struct error *error)
{
	char names[120];
	size_t used = 0;
	struct place place = place_of(trace, 1);

	if (wanted != TRACE_FORMAT_ANY) {
		trace->format = formats[wanted - 1];
		return STATUS_OK;
	}
	trace->format = format_of_line(line, line_bytes);
	if (trace->format != NULL) {
		return STATUS_OK;
	}
	for (uint32_t i = 0; i < TRACE_FORMAT_COUNT - 1; i++) {
		int added = snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
			formats[i]->name);
		check(added > 0);
		used += (size_t)added;
		check(used < sizeof(names));
	}
	return place_error(
		error, &place, NULL, line, line_bytes, "the first line of a trace (%s)", names);
}

static enum status read_start(
	struct trace *trace, const struct trace_options *options, struct error *error)
{
	const char *line = NULL;
	size_t line_bytes = 0;
	enum status status = next_line(trace, &line, &line_bytes, error);
	struct place place = place_of(trace, 0);

	if (status != STATUS_OK) {
		return status;
	}
	if (line == NULL) {
		return place_error(
			error, &place, NULL, "an empty file", 13, "a trace with at least one row");
	}
	status = choose_format(trace, options->format, line, line_bytes, error);
	if (status != STATUS_OK) {
		return status;
	}
	trace->trace_block_size = options->trace_block_size != 0 ? options->trace_block_size
								 : trace->format->trace_block_size;
	trace->state = trace->format->open();
	if (trace->format->header != NULL) {
		place.line = 1;
		return trace->format->header(trace->state, &place, line, line_bytes, error);
	}
	line_reader_unread(trace->lines);
	return STATUS_OK;
}

enum status trace_open(struct trace **out, const char *path, const struct trace_options *options,
	struct error *error)
{
	struct trace *trace = memory_take(1, sizeof(*trace));
	enum status status = line_reader_open(&trace->lines, path, error);

	*out = NULL;
	if (status == STATUS_OK) {
		status = read_start(trace, options, error);
	}
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
	free(trace);
}

static enum status check_ids(const struct trace *trace, const struct place *place,
	const struct trace_row *row, struct error *error)
{
	char found[64];

	if (row->hash_ids == NULL) {
		return STATUS_OK;
	}
	check(trace->trace_block_size > 0);
	uint64_t expected = u64_divide_up(row->input_length, trace->trace_block_size);
	if (row->hash_id_count == expected) {
		return STATUS_OK;
	}
	int bytes = snprintf(found, sizeof(found), "%" PRIu32 " ids for input_length %" PRIu32,
		row->hash_id_count, row->input_length);
	return place_error(error, place, "hash_ids", found, (size_t)bytes,
		"%" PRIu64 ", one for each %" PRIu32 " tokens and the rest (--trace-block-size)",
		expected, trace->trace_block_size);
}

static enum status check_order(struct trace *trace, const struct place *place,
	const struct trace_row *row, struct error *error)
{
	char found[96];

	if (row->arrival_ns < trace->last_arrival_ns) {
		int bytes = snprintf(found, sizeof(found), "%" PRIu64 " ns", row->arrival_ns);
		return place_error(error, place, "time", found, (size_t)bytes,
			"no less than the %" PRIu64 " ns of line %" PRIu64, trace->last_arrival_ns,
			trace->last_line);
	}
	trace->last_arrival_ns = row->arrival_ns;
	trace->last_line = place->line;
	return STATUS_OK;
}

enum status trace_next(
	struct trace *trace, struct trace_row *row, bool *has_row, struct error *error)
{
	bool is_skipped = true;
	struct place place;

	*has_row = false;
	memset(row, 0, sizeof(*row));
	while (is_skipped) {
		const char *line = NULL;
		size_t line_bytes = 0;
		enum status status = next_line(trace, &line, &line_bytes, error);
		if (status != STATUS_OK || line == NULL) {
			return status;
		}
		place = place_of(trace, line_reader_line(trace->lines));
		status = trace->format->row(
			trace->state, &place, line, line_bytes, row, &is_skipped, error);
		if (status != STATUS_OK) {
			return status;
		}
	}
	row->line = place.line;
	row->index = trace->row_count;
	row->turn_index = NO_TURN;
	enum status status = check_ids(trace, &place, row, error);
	if (status == STATUS_OK) {
		status = check_order(trace, &place, row, error);
	}
	trace->row_count += status == STATUS_OK;
	*has_row = status == STATUS_OK;
	return status;
}

uint32_t trace_block_size(const struct trace *trace)
{
	return trace->trace_block_size;
}

const char *trace_format_name(const struct trace *trace)
{
	return trace->format->name;
}

enum status trace_finish(struct trace *trace, struct error *error)
{
	return line_reader_finish(trace->lines, error);
}

uint64_t trace_xxh64(const struct trace *trace)
{
	return line_reader_xxh64(trace->lines);
}
