#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/number.h"
#include "workloads/trace/json_row.h"

#include <inttypes.h>
#include <stdio.h>

/* JSONL with the token ids of prompts: {"arrival_time_ns": n, "input_tok_ids": [...],
   "output_toks": n}, optionally "input_toks" and "output_tok_ids", which must agree with the
   others, and "priority". */

/* Tokens per hash id that is made of such a trace. What a replay shares is whole blocks, so it is
   the smallest default of a policy's --block-size: the others are multiples of it. */
enum { TOKEN_IDS_BLOCK_SIZE = 16 };

enum {
	FIELD_TIME,
	FIELD_PROMPT,
	FIELD_INPUT,
	FIELD_OUTPUT,
	FIELD_COMPLETION,
	FIELD_PRIORITY,
	FIELD_COUNT
};

static const struct json_field fields[FIELD_COUNT] = {
	[FIELD_TIME] = {"arrival_time_ns", JSON_TIME, true, 0, 0, CLOCK_NS_MAX,
		"nanoseconds in [0, 2^63)"},
	[FIELD_PROMPT] = {"input_tok_ids", JSON_IDS, true, 0, 0, INT32_MAX,
		"an array of integers in [0, 2^31)"},
	[FIELD_INPUT] = {"input_toks", JSON_COUNT, false, 0, 1, TRACE_LENGTH_MAX,
		"an integer in [1, 268435456]"},
	[FIELD_OUTPUT] = {"output_toks", JSON_COUNT, true, 0, 1, TRACE_LENGTH_MAX,
		"an integer in [1, 268435456]"},
	[FIELD_COMPLETION] = {"output_tok_ids", JSON_IDS, false, 0, 0, INT32_MAX,
		"an array of integers in [0, 2^31)"},
	[FIELD_PRIORITY] = {"priority", JSON_SIGNED, false, 0, 0, INT32_MAX,
		"an integer in (-2^31, 2^31)"},
};

static bool token_ids_recognises(const char *line, size_t line_bytes)
{
	return line_bytes > 0 && line[0] == '{' &&
	       line_contains(line, line_bytes, "\"input_tok_ids\"");
}

static void *token_ids_open(const struct trace_options *options)
{
	(void)options;
	return json_reader_open(fields, FIELD_COUNT);
}

static void token_ids_close(void *state)
{
	json_reader_close(state);
}

static enum status wrong_count(const struct source_line *at, const char *field, size_t found,
	uint64_t expected, const char *by, struct error *error)
{
	char text[32];
	int bytes =
		snprintf(text, sizeof(text), "%zu %s", found, word_of_count(found, "id", "ids"));

	return source_line_error(
		error, at, field, text, (size_t)bytes, "%" PRIu64 " as in %s", expected, by);
}

static const char *token_ids_misspelt(const void *state)
{
	return json_reader_note(state);
}

static enum status token_ids_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct json_value values[FIELD_COUNT];

	TRY(json_reader_row(state, at, line, line_bytes, values, error));
	const struct json_value *prompt = &values[FIELD_PROMPT];
	const struct json_value *completion = &values[FIELD_COMPLETION];
	if (prompt->id_count == 0) {
		return source_line_error(
			error, at, fields[FIELD_PROMPT].name, "no id", 5, "at least one");
	}
	if (values[FIELD_INPUT].is_present && values[FIELD_INPUT].number != prompt->id_count) {
		return wrong_count(at, fields[FIELD_PROMPT].name, prompt->id_count,
			values[FIELD_INPUT].number, fields[FIELD_INPUT].name, error);
	}
	if (completion->is_present && values[FIELD_OUTPUT].number != completion->id_count) {
		return wrong_count(at, fields[FIELD_COMPLETION].name, completion->id_count,
			values[FIELD_OUTPUT].number, fields[FIELD_OUTPUT].name, error);
	}
	*is_skipped = false;
	row->arrival_ns = values[FIELD_TIME].number;
	row->input_length = u32_from(prompt->id_count);
	row->output_length = u32_from(values[FIELD_OUTPUT].number);
	row->prompt_ids = prompt->ids;
	row->output_ids = completion->ids;
	row->priority = json_signed(&values[FIELD_PRIORITY]);
	return STATUS_OK;
}

const struct trace_format format_token_ids = {
	.name = "token-ids",
	.trace_block_size = TOKEN_IDS_BLOCK_SIZE,
	.recognises = token_ids_recognises,
	.open = token_ids_open,
	.close = token_ids_close,
	.row = token_ids_row,
	.misspelt = token_ids_misspelt,
};
