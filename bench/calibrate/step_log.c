#include "bench/calibrate/step_log.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "sim/possible_step.h"
#include "sim/price_by_operations.h"
#include "sim/step_price.h"
#include "workloads/trace/line_reader.h"
#include "workloads/trace/source_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(name, is it required?) */
#define COLUMN_LIST(X)                                                                             \
	X(elapsed_ns, true)                                                                        \
	X(decode_rows, true)                                                                       \
	X(prefill_tokens, true)                                                                    \
	X(decode_context_tokens, true)                                                             \
	X(prefill_rows, false)                                                                     \
	X(sampled_rows, false)                                                                     \
	X(prefill_attention_pairs, false)                                                          \
	X(decode_longest_context, false)                                                           \
	X(prefill_longest_context, false)                                                          \
	X(prefill_tiles, false)                                                                    \
	X(prefill_tile_keys, false)                                                                \
	X(prefill_chain_keys, false)                                                               \
	X(prefill_half_chain_keys, false)                                                          \
	X(prefill_context_tokens, false)                                                           \
	X(prefill_shared_tokens, false)                                                            \
	X(shared_tokens, false)                                                                    \
	X(reread_tokens, false)                                                                    \
	X(repeat_tokens, false)

enum column {
#define COLUMN_ENUM(name, is_required) COLUMN_##name,
	COLUMN_LIST(COLUMN_ENUM)
#undef COLUMN_ENUM
		COLUMN_COUNT,
	COLUMN_PHASE = COLUMN_COUNT,
	CELLS
};

static const struct {
	const char *name;
	bool is_required;
} columns[CELLS] = {
#define COLUMN_ROW(name, is_required) {#name, is_required},
	COLUMN_LIST(COLUMN_ROW)
#undef COLUMN_ROW
		{"phase", false},
};

enum { FIELDS_MAX = 256, PHASE_BYTES = 64 };
static const uint64_t count_most = UINT32_MAX, sum_most = UINT64_C(1) << 52;

struct cell {
	const char *text;
	size_t bytes;
};

struct reader {
	struct line_reader *lines;
	struct source_line at;
	uint32_t field[CELLS]; /* index in a line; FIELDS_MAX: the log lacks it */
	uint32_t field_count;
	struct cell cells[FIELDS_MAX];
	uint64_t value[COLUMN_COUNT];
};

/* Splits a line at its tabs; 0: too many cells. */
static uint32_t split(struct cell *cells, const char *line, size_t line_bytes)
{
	uint32_t count = 0;
	const char *from = line, *end = line + line_bytes;

	while (count < FIELDS_MAX) {
		const char *tab = memchr(from, '\t', (size_t)(end - from));
		cells[count++] = (struct cell){from, (size_t)((tab == NULL ? end : tab) - from)};
		if (tab == NULL) {
			return count;
		}
		from = tab + 1;
	}
	return 0;
}

static enum status next_line(
	struct reader *reader, const char **line, size_t *line_bytes, struct error *error)
{
	TRY(line_reader_next(reader->lines, line, line_bytes, error));
	reader->at.line = line_reader_line(reader->lines);
	return STATUS_OK;
}

static bool is_text(const struct cell *cell, const char *text)
{
	return cell->bytes == strlen(text) && memcmp(cell->text, text, cell->bytes) == 0;
}

static enum status read_header(struct reader *reader, struct error *error)
{
	const char *line = NULL;
	size_t line_bytes = 0;

	TRY(next_line(reader, &line, &line_bytes, error));
	if (line == NULL) {
		return source_line_error(
			error, &reader->at, NULL, "an empty file", 13, "the log of steps");
	}
	reader->field_count = split(reader->cells, line, line_bytes);
	for (uint32_t i = 0; i < CELLS; i++) {
		reader->field[i] = FIELDS_MAX;
		for (uint32_t j = 0; j < reader->field_count; j++) {
			if (!is_text(&reader->cells[j], columns[i].name)) {
				continue;
			}
			if (reader->field[i] != FIELDS_MAX) {
				return source_line_error(error, &reader->at, columns[i].name,
					"the column twice", 16, "it once");
			}
			reader->field[i] = j;
		}
		if (columns[i].is_required && reader->field[i] == FIELDS_MAX) {
			return source_line_error(error, &reader->at, columns[i].name, line,
				line_bytes, "a header line with this column, and tabs between");
		}
	}
	return STATUS_OK;
}

static bool has(const struct reader *reader, enum column column)
{
	return reader->field[column] != FIELDS_MAX;
}

static enum status read_values(struct reader *reader, struct error *error)
{
	memset(reader->value, 0, sizeof(reader->value));
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		if (reader->field[i] == FIELDS_MAX) {
			continue;
		}
		const struct cell *cell = &reader->cells[reader->field[i]];
		bool is_count = i == COLUMN_decode_rows || i == COLUMN_prefill_rows ||
				i == COLUMN_sampled_rows || i == COLUMN_prefill_tokens;
		uint64_t least = i == COLUMN_elapsed_ns;
		uint64_t most = is_count ? count_most : sum_most;
		most = i == COLUMN_elapsed_ns ? (uint64_t)STEP_PRICE_LIMIT : most;
		if (!digits_to_u64(cell->text, cell->bytes, &reader->value[i]) ||
			reader->value[i] > most || reader->value[i] < least) {
			return source_line_error(error, &reader->at, columns[i].name, cell->text,
				cell->bytes, "an integer in [%llu, %llu]",
				(unsigned long long)least, (unsigned long long)most);
		}
	}
	return STATUS_OK;
}

/* Fills in what the log lacks. */
static void complete(struct reader *reader)
{
	uint64_t *value = reader->value;
	uint64_t tokens = value[COLUMN_prefill_tokens];

	if (!has(reader, COLUMN_prefill_rows)) {
		value[COLUMN_prefill_rows] = tokens > 0;
	}
	if (!has(reader, COLUMN_sampled_rows)) {
		value[COLUMN_sampled_rows] = value[COLUMN_decode_rows] + value[COLUMN_prefill_rows];
	}
	if (!has(reader, COLUMN_prefill_attention_pairs) && value[COLUMN_prefill_rows] > 0) {
		double each = (double)tokens / (double)value[COLUMN_prefill_rows];
		value[COLUMN_prefill_attention_pairs] = (uint64_t)((double)tokens * (each + 1) / 2);
	}
}

static enum status check_counts(
	const struct reader *reader, const struct step_counts *counts, struct error *error)
{
	struct step_fault fault;
	char found[24];

	if (counts->decode_rows + counts->prefill_tokens == 0) {
		return source_line_error(error, &reader->at, "decode_rows", "0", 1,
			"a decode row or a prompt token");
	}
	if (step_is_possible(counts, &fault)) {
		return STATUS_OK;
	}
	snprintf(found, sizeof(found), "%llu", (unsigned long long)fault.found);
	return source_line_error(
		error, &reader->at, fault.count, found, strlen(found), "%s", fault.expected);
}

static enum status append(
	struct calibrate_points *points, const struct reader *reader, struct error *error)
{
	struct calibrate_point point = {
		.samples = 1,
		.elapsed_ns = reader->value[COLUMN_elapsed_ns],
		.gpu_ns = reader->value[COLUMN_elapsed_ns],
	};

#define COPY_COUNT(name) point.counts.name = reader->value[COLUMN_##name];
	CALIBRATE_POINT_LIST(COPY_COUNT)
#undef COPY_COUNT
	TRY(check_counts(reader, &point.counts, error));
	const struct calibrate_points one = {.points = &point, .count = 1};
	calibrate_points_append(points, &one);
	return STATUS_OK;
}

static enum status read_row(struct reader *reader, struct step_log *out, const char *line,
	size_t line_bytes, const struct step_log_options *options, struct error *error)
{
	static const struct cell no_phase = {"", 0};

	if (split(reader->cells, line, line_bytes) != reader->field_count) {
		return source_line_error(error, &reader->at, NULL, line, line_bytes,
			"%u %s between tabs, as in the header", reader->field_count,
			word_of_count(reader->field_count, "cell", "cells"));
	}
	const struct cell *phase = reader->field[COLUMN_PHASE] == FIELDS_MAX
					   ? &no_phase
					   : &reader->cells[reader->field[COLUMN_PHASE]];
	if (options->left_out != NULL && is_text(phase, options->left_out)) {
		out->left_out_count++;
		return STATUS_OK;
	}
	TRY(read_values(reader, error));
	complete(reader);
	bool is_held_out = options->held_out != NULL && is_text(phase, options->held_out);
	return append(is_held_out ? &out->held_out : &out->fitted, reader, error);
}

static enum status read_rows(struct reader *reader, struct step_log *out,
	const struct step_log_options *options, struct error *error)
{
	const char *line = NULL;
	size_t line_bytes = 0;

	TRY(read_header(reader, error));
	for (;;) {
		TRY(next_line(reader, &line, &line_bytes, error));
		if (line == NULL) {
			break;
		}
		TRY(read_row(reader, out, line, line_bytes, options, error));
		if (out->fitted.count + out->held_out.count > STEP_LOG_STEPS_MAX) {
			return source_line_error(error, &reader->at, NULL, "more steps", 10,
				"at most %d in a log", STEP_LOG_STEPS_MAX);
		}
	}
	reader->at.line = 0;
	return out->fitted.count > 0
		       ? STATUS_OK
		       : source_line_error(error, &reader->at, NULL, "no step", 7,
				 "some to fit prices to, of other phases than those that are left "
				 "or held out");
}

enum status step_log_read(struct step_log *out, const char *path,
	const struct step_log_options *options, struct error *error)
{
	struct reader *reader = memory_take(1, sizeof(*reader));

	memset(out, 0, sizeof(*out));
	reader->at.path = path;
	enum status status = line_reader_open(&reader->lines, path, error);
	if (status == STATUS_OK) {
		status = read_rows(reader, out, options, error);
	}
	line_reader_close(reader->lines);
	free(reader);
	return status;
}

void step_log_free(struct step_log *log)
{
	calibrate_points_free(&log->fitted);
	calibrate_points_free(&log->held_out);
}

void step_log_drop_late(struct step_log *log, const struct operation_floors *floors)
{
	struct calibrate_points *points = &log->fitted;
	size_t kept = 0;
	bool was_late = false;

	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		bool is_late =
			(double)point->elapsed_ns < operation_roofline(floors, &point->counts);
		/* The one before it is the last that was kept, unless it was late itself. */
		kept -= is_late && !was_late && i > 0;
		if (!is_late) {
			points->points[kept++] = *point;
		}
		was_late = is_late;
	}
	log->late_count = points->count - kept;
	points->count = kept;
}
