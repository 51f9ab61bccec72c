#include "workloads/trace/format.h"

#include "engine/base/memory.h"
#include "workloads/trace/calendar_time.h"
#include "workloads/trace/csv_row.h"

#include <stdlib.h>

/* The CSV of the Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens. Times are
   calendar times, with an offset from UTC (2024: 2024-05-10 00:00:00.009930+00:00) or without one
   (2023: 2023-11-16 18:15:46.6805900). */

enum { COLUMN_TIME, COLUMN_INPUT, COLUMN_OUTPUT, COLUMN_COUNT };

static const struct csv_column columns[COLUMN_COUNT] = {
	{"TIMESTAMP", true}, {"ContextTokens", true}, {"GeneratedTokens", true}};

static bool azure_recognises(const char *line, size_t line_bytes)
{
	return line_contains(line, line_bytes, "TIMESTAMP") &&
	       line_contains(line, line_bytes, "ContextTokens");
}

static void *azure_open(const struct trace_options *options)
{
	(void)options;
	return memory_take(1, sizeof(struct csv_layout));
}

static void azure_close(void *state)
{
	free(state);
}

static enum status azure_header(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct error *error)
{
	return csv_header(state, columns, COLUMN_COUNT, at, line, line_bytes, error);
}

static enum status azure_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct csv_field values[COLUMN_COUNT];
	const struct csv_field *moment = &values[COLUMN_TIME];
	uint64_t input = 0;
	uint64_t output = 0;

	*is_skipped = false;
	TRY(csv_line(state, at, line, line_bytes, values, error));
	if (!calendar_time_ns(moment->text, moment->bytes, &row->arrival_ns)) {
		return source_line_error(error, at, columns[COLUMN_TIME].name, moment->text,
			moment->bytes, CALENDAR_TIME_FORM);
	}
	TRY(csv_count(at, columns[COLUMN_INPUT].name, &values[COLUMN_INPUT], 1, TRACE_LENGTH_MAX,
		&input, error));
	TRY(csv_count(at, columns[COLUMN_OUTPUT].name, &values[COLUMN_OUTPUT], 1, TRACE_LENGTH_MAX,
		&output, error));
	row->input_length = (uint32_t)input;
	row->output_length = (uint32_t)output;
	return STATUS_OK;
}

const struct trace_format format_azure = {
	.name = "azure",
	.starts_at_first_row = true,
	.recognises = azure_recognises,
	.open = azure_open,
	.close = azure_close,
	.header = azure_header,
	.row = azure_row,
};
