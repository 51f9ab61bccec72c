#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "workloads/trace/json_row.h"

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

static void *mooncake_open(const struct trace_options *options)
{
	(void)options;
	return json_reader_open(fields, FIELD_COUNT);
}

static void mooncake_close(void *state)
{
	json_reader_close(state);
}

static const char *mooncake_misspelt(const void *state)
{
	return json_reader_note(state);
}

static enum status mooncake_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct json_value values[FIELD_COUNT];

	TRY(json_reader_row(state, at, line, line_bytes, values, error));
	*is_skipped = false;
	row->arrival_ns = values[FIELD_TIMESTAMP].number;
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

#define NS_PER_MS UINT64_C(1000000)

/* Seconds since 1970 have ten digits from 2001 to 2286. Milliseconds with ten digits begin twelve
   days behind the trace's zero, and all of one file seldom lie within a quarter of an hour. */
static bool looks_like_epoch(const struct trace_totals *totals)
{
	const uint64_t least = 1000 * NS_PER_MS * NS_PER_MS;

	return totals->first_ns >= least && totals->last_ns < 10 * least &&
	       totals->last_ns - totals->first_ns < NS_PER_MS * NS_PER_MS;
}

/* More than any engine serves, from row to row and not in a burst alone. Seconds have decimals;
   milliseconds that were rounded have none. */
static bool looks_like_seconds(const struct trace_totals *totals)
{
	enum { ROWS_MIN = 20, TOKENS_PER_MS = 1000 };
	uint64_t ms = (totals->last_ns - totals->first_ns) / NS_PER_MS + 1;

	return totals->has_part_of_ms && totals->rows >= ROWS_MIN && totals->rows > ms &&
	       totals->input_tokens / TOKENS_PER_MS > ms;
}

static const char *mooncake_note(const void *state, const struct trace_totals *totals)
{
	(void)state;
	if (looks_like_epoch(totals)) {
		return "timestamps are read as milliseconds, and look like seconds since 1970: "
		       "jq -c '.timestamp *= 1000' makes them milliseconds";
	}
	return looks_like_seconds(totals)
		       ? "timestamps are read as milliseconds, by which more than 1,000 requests "
			 "and 1,000,000 prompt tokens arrive each second: if they are seconds, "
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
	.misspelt = mooncake_misspelt,
	.note = mooncake_note,
};
