#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "workloads/trace/json_row.h"

#include <string.h>

/* Bailian JSONL: {"chat_id": n, "parent_chat_id": n or -1, "timestamp": seconds, "input_length": n,
   "output_length": n, "type": "text", "turn": n, "hash_ids": [...]} with a hash id for each 16
   tokens and one for the rest. A chat follows its parent; type and turn are ignored. */

enum { FIELD_CHAT, FIELD_PARENT, FIELD_TIME, FIELD_INPUT, FIELD_OUTPUT, FIELD_IDS, FIELD_COUNT };

static const struct json_field fields[FIELD_COUNT] = {
	[FIELD_CHAT] = {"chat_id", JSON_LABEL, true, 0, 0, 0,
		"a text without control characters, or an integer"},
	[FIELD_PARENT] = {"parent_chat_id", JSON_LABEL, false, 0, 0, 0,
		"a text without control characters, or an integer"},
	[FIELD_TIME] = {"timestamp", JSON_TIME, true, 9, 0, CLOCK_NS_MAX,
		"seconds in [0, 2^63 ns)"},
	[FIELD_INPUT] = {"input_length", JSON_COUNT, true, 0, 1, TRACE_LENGTH_MAX,
		"an integer in [1, 268435456]"},
	[FIELD_OUTPUT] = {"output_length", JSON_COUNT, true, 0, 1, TRACE_LENGTH_MAX,
		"an integer in [1, 268435456]"},
	[FIELD_IDS] = {"hash_ids", JSON_IDS, false, 0, 0, INT64_MAX,
		"an array of integers in [0, 2^63)"},
};

static bool bailian_recognises(const char *line, size_t line_bytes)
{
	return line_bytes > 0 && line[0] == '{' && line_contains(line, line_bytes, "\"chat_id\"");
}

static void *bailian_open(const struct trace_options *options)
{
	(void)options;
	return json_reader_open(fields, FIELD_COUNT);
}

static void bailian_close(void *state)
{
	json_reader_close(state);
}

static const char *bailian_misspelt(const void *state)
{
	return json_reader_note(state);
}

static enum status bailian_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct json_value values[FIELD_COUNT];

	TRY(json_reader_row(state, at, line, line_bytes, values, error));
	const char *parent = values[FIELD_PARENT].text;
	*is_skipped = false;
	row->arrival_ns = values[FIELD_TIME].number;
	row->input_length = u32_from(values[FIELD_INPUT].number);
	row->output_length = u32_from(values[FIELD_OUTPUT].number);
	row->hash_ids = values[FIELD_IDS].ids;
	row->hash_id_count = u32_from(values[FIELD_IDS].id_count);
	row->session = values[FIELD_CHAT].text;
	row->turn = values[FIELD_CHAT].text;
	row->parent = parent != NULL && strcmp(parent, "-1") != 0 ? parent : NULL;
	return STATUS_OK;
}

const struct trace_format format_bailian = {
	.name = "bailian",
	.trace_block_size = 16,
	.recognises = bailian_recognises,
	.open = bailian_open,
	.close = bailian_close,
	.row = bailian_row,
	.misspelt = bailian_misspelt,
};
