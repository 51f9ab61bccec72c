#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/trace/json_row.h"

#include <stdlib.h>

/* Mooncake JSONL: {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}. Two
   optional fields link the turns of a conversation: session_id, and delay, the milliseconds between
   the end of the preceding turn and this one. An optional block_size of the first row says how many
   tokens a hash id of the file stands for, an optional priority whom a scheduler that heeds it
   serves first. An optional stored_length says how many leading tokens of the prompt count as
   cached though nothing computed them: what they cost others is measured, what is answered has no
   meaning (bench/calibrate/plan.h). */

enum {
	FIELD_TIMESTAMP,
	FIELD_INPUT,
	FIELD_OUTPUT,
	FIELD_IDS,
	FIELD_SESSION,
	FIELD_DELAY,
	FIELD_BLOCK_SIZE,
	FIELD_PRIORITY,
	FIELD_STORED,
	FIELD_COUNT
};

static const struct json_field fields[FIELD_COUNT] = {
	[FIELD_TIMESTAMP] = {"timestamp", JSON_TIME, true, 6, 0, CLOCK_NS_MAX,
		"milliseconds in [0, 2^63 ns)"},
	[FIELD_INPUT] = {"input_length", JSON_COUNT, true, 0, 1, TRACE_LENGTH_MAX,
		"an integer in [1, 268435456]"},
	[FIELD_OUTPUT] = {"output_length", JSON_COUNT, true, 0, 1, TRACE_LENGTH_MAX,
		"an integer in [1, 268435456]"},
	[FIELD_IDS] = {"hash_ids", JSON_IDS, false, 0, 0, INT64_MAX,
		"an array of integers in [0, 2^63)"},
	[FIELD_SESSION] = {"session_id", JSON_LABEL, false, 0, 0, 0,
		"a text without control characters, or an integer"},
	[FIELD_DELAY] = {"delay", JSON_TIME, false, 6, 0, CLOCK_NS_MAX,
		"milliseconds in [0, 2^63 ns)"},
	[FIELD_BLOCK_SIZE] = {"block_size", JSON_COUNT, false, 0, 1, TRACE_BLOCK_SIZE_MAX,
		"an integer in [1, 1048576]"},
	[FIELD_PRIORITY] = {"priority", JSON_SIGNED, false, 0, 0, INT32_MAX,
		"an integer in (-2^31, 2^31)"},
	[FIELD_STORED] = {"stored_length", JSON_COUNT, false, 0, 0, TRACE_LENGTH_MAX,
		"an integer in [0, 268435456]"},
};

static bool mooncake_recognises(const char *line, size_t line_bytes)
{
	return line_bytes > 0 && line[0] == '{' &&
	       line_contains(line, line_bytes, "\"input_length\"");
}

struct mooncake {
	struct json_reader *rows;
	uint64_t first_ns, last_ns; /* times of all rows; last_ns < first_ns: there is none */
};

static void *mooncake_open(const struct trace_options *options)
{
	struct mooncake *mooncake = memory_take(1, sizeof(*mooncake));

	(void)options;
	mooncake->rows = json_reader_open(fields, FIELD_COUNT);
	mooncake->first_ns = UINT64_MAX;
	return mooncake;
}

static void mooncake_close(void *state)
{
	struct mooncake *mooncake = state;

	if (mooncake != NULL) {
		json_reader_close(mooncake->rows);
		free(mooncake);
	}
}

static enum status mooncake_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct mooncake *mooncake = state;
	struct json_value values[FIELD_COUNT];

	TRY(json_reader_row(mooncake->rows, at, line, line_bytes, values, error));
	*is_skipped = false;
	row->arrival_ns = values[FIELD_TIMESTAMP].number;
	mooncake->first_ns = u64_min(mooncake->first_ns, row->arrival_ns);
	mooncake->last_ns = u64_max(mooncake->last_ns, row->arrival_ns);
	row->input_length = u32_from(values[FIELD_INPUT].number);
	row->output_length = u32_from(values[FIELD_OUTPUT].number);
	row->session = values[FIELD_SESSION].text;
	row->has_delay = values[FIELD_DELAY].is_present;
	row->delay_ns = values[FIELD_DELAY].number;
	row->hash_ids = values[FIELD_IDS].ids;
	row->hash_id_count = u32_from(values[FIELD_IDS].id_count);
	row->block_size = u32_from(values[FIELD_BLOCK_SIZE].number);
	row->priority = json_signed(&values[FIELD_PRIORITY]);
	row->stored_length = u32_from(values[FIELD_STORED].number);
	return STATUS_OK;
}

/* Seconds since 1970 have ten digits from 2001 to 2286. Milliseconds with ten digits begin twelve
   days behind the trace's zero, and all of one file seldom lie within a quarter of an hour. */
static const char *mooncake_note(const void *state)
{
	const struct mooncake *mooncake = state;
	const uint64_t ms = UINT64_C(1000) * 1000, least = 1000 * ms * ms, most_span = ms * ms;
	bool is_epoch = mooncake->first_ns >= least && mooncake->last_ns < 10 * least &&
			mooncake->last_ns - mooncake->first_ns < most_span;

	return is_epoch ? "timestamps are read as milliseconds, and look like seconds since 1970: "
			  "jq -c '.timestamp *= 1000' makes them milliseconds"
			: NULL;
}

const struct trace_format format_mooncake = {
	.name = "mooncake",
	.trace_block_size = MOONCAKE_BLOCK_SIZE,
	.recognises = mooncake_recognises,
	.open = mooncake_open,
	.close = mooncake_close,
	.row = mooncake_row,
	.note = mooncake_note,
};
