#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "workloads/trace/csv_row.h"

#include <stdlib.h>
#include <string.h>

/* BurstGPT's CSV: Timestamp (seconds), Session ID and Elapsed time (newer files only; empty for
   rows of an API), Model, Request tokens, Response tokens, Total tokens, Log Type. A row without
   response tokens is a request that failed when it was recorded; it is skipped. */

enum { COLUMN_TIME, COLUMN_INPUT, COLUMN_OUTPUT, COLUMN_SESSION, COLUMN_COUNT };

static const struct csv_column columns[COLUMN_COUNT] = {{"Timestamp", true},
	{"Request tokens", true}, {"Response tokens", true}, {"Session ID", false}};

struct burstgpt {
	struct csv_layout layout;
	char *session; /* of the latest row */
	size_t session_capacity;
};

static bool burstgpt_recognises(const char *line, size_t line_bytes)
{
	return line_contains(line, line_bytes, "Timestamp") &&
	       line_contains(line, line_bytes, "Request tokens");
}

static void *burstgpt_open(const struct trace_options *options)
{
	(void)options;
	return memory_take(1, sizeof(struct burstgpt));
}

static void burstgpt_close(void *state)
{
	struct burstgpt *burstgpt = state;

	free(burstgpt->session);
	free(burstgpt);
}

static enum status burstgpt_header(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct error *error)
{
	struct burstgpt *burstgpt = state;

	return csv_header(&burstgpt->layout, columns, COLUMN_COUNT, at, line, line_bytes, error);
}

/* Printable ASCII, as it goes into tab-separated files and JSON. */
static bool is_label(const struct csv_field *field)
{
	for (size_t i = 0; i < field->bytes; i++) {
		if (field->text[i] < ' ' || field->text[i] > '~') {
			return false;
		}
	}
	return true;
}

static enum status keep_session(struct burstgpt *burstgpt, const struct source_line *at,
	const struct csv_field *field, const char **session, struct error *error)
{
	*session = NULL;
	if (!is_label(field)) {
		return source_line_error(error, at, columns[COLUMN_SESSION].name, field->text,
			field->bytes, "printable ASCII, or nothing");
	}
	if (field->bytes > 0) {
		burstgpt->session = memory_grow(
			burstgpt->session, &burstgpt->session_capacity, field->bytes + 1, 1);
		memcpy(burstgpt->session, field->text, field->bytes);
		burstgpt->session[field->bytes] = '\0';
		*session = burstgpt->session;
	}
	return STATUS_OK;
}

static enum status burstgpt_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct burstgpt *burstgpt = state;
	struct csv_field values[COLUMN_COUNT];
	const struct csv_field *moment = &values[COLUMN_TIME];
	uint64_t input = 0;
	uint64_t output = 0;

	TRY(csv_line(&burstgpt->layout, at, line, line_bytes, values, error));
	if (!decimal_to_u64(moment->text, moment->bytes, 9, &row->arrival_ns) ||
		row->arrival_ns > CLOCK_NS_MAX) {
		return source_line_error(error, at, columns[COLUMN_TIME].name, moment->text,
			moment->bytes, "seconds in [0, 2^63 ns)");
	}
	TRY(csv_count(at, columns[COLUMN_OUTPUT].name, &values[COLUMN_OUTPUT], 0, TRACE_LENGTH_MAX,
		&output, error));
	*is_skipped = output == 0;
	TRY(csv_count(at, columns[COLUMN_INPUT].name, &values[COLUMN_INPUT], *is_skipped ? 0 : 1,
		TRACE_LENGTH_MAX, &input, error));
	row->input_length = (uint32_t)input;
	row->output_length = (uint32_t)output;
	return keep_session(burstgpt, at, &values[COLUMN_SESSION], &row->session, error);
}

static const char *burstgpt_misspelt(const void *state)
{
	const struct burstgpt *burstgpt = state;

	return burstgpt->layout.note[0] == '\0' ? NULL : burstgpt->layout.note;
}

const struct trace_format format_burstgpt = {
	.name = "burstgpt",
	.starts_at_first_row = true,
	.skipped = {"row without response tokens: failures at the source",
		"rows without response tokens: failures at the source"},
	.recognises = burstgpt_recognises,
	.open = burstgpt_open,
	.close = burstgpt_close,
	.header = burstgpt_header,
	.row = burstgpt_row,
	.misspelt = burstgpt_misspelt,
};
