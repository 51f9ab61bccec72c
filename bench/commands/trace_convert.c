#include "bench/commands/trace.h"

#include "bench/replay/trace_reading.h"
#include "engine/base/output_file.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/conversations.h"
#include "workloads/study/references.h"
#include "workloads/trace/trace_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct converter {
	struct trace *trace;
	struct conversations *conversations;
	uint32_t block_size;
	bool has_ids;
	uint64_t *ids;
	size_t id_capacity;
};

/* Token ids become hash ids; a chat and its parents one session; times stay. */
static void convert_row(struct converter *converter, struct trace_row *row)
{
	conversations_add(converter->conversations, row);
	if (row->hash_ids == NULL && row->prompt_ids != NULL) {
		uint64_t count = row_block_count(row, converter->block_size);
		converter->ids = memory_grow(
			converter->ids, &converter->id_capacity, count, sizeof(*converter->ids));
		row_block_ids(row, converter->block_size, converter->ids);
		row->hash_ids = converter->ids;
		row->hash_id_count = u32_from(count);
	}
	converter->has_ids = converter->has_ids || row->hash_ids != NULL;
}

static enum status convert_rows(struct converter *converter, FILE *file, struct error *error)
{
	struct trace_row row;
	bool has_row = true;

	for (;;) {
		enum status status = trace_next(converter->trace, &row, &has_row, error);
		if (status != STATUS_OK || !has_row) {
			return status;
		}
		convert_row(converter, &row);
		trace_write_row(file, &row);
	}
}

static enum status run(
	const char *path, const char *out, const struct trace_reading *reading, struct error *error)
{
	struct converter converter = {0};
	struct output_file output = {0};
	enum status status = trace_reading_open(&converter.trace, path, reading, error);

	if (status != STATUS_OK) {
		return status;
	}
	converter.block_size = trace_reading_block_size(converter.trace);
	converter.conversations = conversations_open(converter.block_size);
	status = output_file_open(&output, out, error);
	if (status == STATUS_OK) {
		status = convert_rows(&converter, output.file, error);
	}
	if (status == STATUS_OK) {
		status = output_file_commit(&output, error);
	}
	output_file_abandon(&output);
	if (status == STATUS_OK) {
		trace_reading_report(converter.trace);
	}
	if (status == STATUS_OK && converter.has_ids && converter.block_size != 512) {
		fprintf(stderr,
			"note: a hash id stands for %" PRIu32
			" tokens: read the file with --trace-block-size %" PRIu32 "\n",
			converter.block_size, converter.block_size);
	}
	free(converter.ids);
	conversations_close(converter.conversations);
	trace_close(converter.trace);
	return status;
}

int command_trace_convert(int argc, char **argv)
{
	struct trace_reading reading = {0};
	const char *out = NULL;
	struct option options[TRACE_READING_ROWS + 2] = {
		[TRACE_READING_ROWS] = {.kind = OPTION_HEADING, .help = "What is written"},
		{"out", OPTION_TEXT, &out, "FILE", "where to; - is the standard output", 0, 0, NULL,
			NULL},
	};
	const struct command command = {
		.name = "trace convert",
		.arguments = "TRACE --out FILE [options]",
		.summary = "Turns any trace that quire reads into Mooncake's JSON lines. Token ids "
			   "become hash\n"
			   "ids of their blocks; what a row says of its session is kept.",
		.examples = "  quire trace convert BurstGPT_1.csv --out burstgpt.jsonl\n"
			    "  quire trace convert qwen_traceA_blksz_16.jsonl.gz --out - | head\n",
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
		.positional_minimum = 1,
		.positional_maximum = 1,
	};
	const char *path = NULL;
	uint32_t positional_count = 0;
	bool wants_help = false;
	struct error error = {0};

	trace_reading_options(&reading, options);
	enum status status =
		options_parse(&command, argc, argv, &path, &positional_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK && out == NULL) {
		status = error_set(&error, STATUS_USAGE, "--out is missing");
	}
	if (status == STATUS_OK) {
		status = run(path, out, &reading, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
