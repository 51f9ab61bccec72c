#include "bench/commands/trace/trace_commands.h"

#include "bench/replay/trace_reading.h"
#include "engine/base/output_file.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "reports/results/result_names.h"
#include "workloads/conversations.h"
#include "workloads/study/references.h"
#include "workloads/trace/format.h"
#include "workloads/trace/trace_writer.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct converter {
	struct trace *trace;
	struct conversations *conversations;
	uint32_t block_size;
	uint64_t *ids;
	size_t id_capacity;
};

/* Turns token ids into hash ids, and chats with parents into sessions. Times are unchanged. */
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
	row->block_size = row->index == 0 ? converter->block_size : 0;
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

static enum status convert(struct converter *converter, const char *out, struct error *error)
{
	struct output_file output = {0};

	TRY(output_file_open(&output, out, error));
	enum status status = convert_rows(converter, output.file, error);
	if (status == STATUS_OK) {
		status = output_file_commit(&output, error);
	}
	output_file_abandon(&output);
	return status;
}

struct convert_request {
	struct replay_config config; /* how the trace is read */
	const char *out, *columns;
	bool is_forced;
};

static enum status open_trace(struct trace **trace, const char *path,
	const struct convert_request *request, struct error *error)
{
	struct trace_options options = trace_reading_options(&request->config);

	if (request->columns != NULL) {
		const struct trace_format *csv = trace_format_find("csv");
		if (options.format != NULL && options.format != csv) {
			return error_set(error, STATUS_USAGE,
				"--columns is for --format csv, found --format %s",
				options.format->name);
		}
		options.format = csv;
		options.columns = request->columns;
	}
	return trace_open(trace, path, &options, error);
}

static enum status run(struct command_line *line, struct error *error)
{
	const struct convert_request *request = line->values;
	struct converter converter = {0};

	if (request->out == NULL) {
		return error_set(error, STATUS_USAGE, "--out is missing");
	}
	TRY(result_names_refuse("--out", request->out, "trace.jsonl", error));
	TRY(open_trace(&converter.trace, line->positionals[0], request, error));
	enum status status = output_file_refuse_old(request->out, request->is_forced, error);
	converter.block_size = trace_reading_block_size(converter.trace);
	converter.conversations = conversations_open(converter.block_size);
	if (status == STATUS_OK) {
		status = convert(&converter, request->out, error);
	}
	if (status == STATUS_OK) {
		trace_reading_report(converter.trace);
	}
	free(converter.ids);
	conversations_close(converter.conversations);
	trace_close(converter.trace);
	return status;
}

static const struct option options[] = {
	TRACE_READING_OPTIONS,
	{"columns", OPTION_TEXT, offsetof(struct convert_request, columns),
		.argument = "arrival=A,input=I,output=O",
		.help = "columns of a CSV log; unit=s|ms|us|ns too. Default: common names"},
	{.kind = OPTION_HEADING, .help = "Output"},
	{"out", OPTION_TEXT, offsetof(struct convert_request, out), .argument = "FILE",
		.help = "file to write; - is the standard output"},
	{"force", OPTION_FLAG, offsetof(struct convert_request, is_forced),
		.help = "replace an existing file"},
};

const struct command command_trace_convert = {
	.name = "trace convert",
	.title = "convert any trace to Mooncake's JSON lines",
	.arguments = "TRACE --out FILE [options]",
	.summary = "Converts any trace that quire reads to Mooncake's JSON lines. Token ids become "
		   "hash\n"
		   "ids of their blocks; what a row says of its session is kept.",
	.examples =
		"  quire trace convert BurstGPT_1.csv --out burstgpt.jsonl\n"
		"  quire trace convert qwen_traceA_blksz_16.jsonl.gz --out - | head\n"
		"  quire trace convert vllm-bench.json --out served.jsonl    # of vllm bench serve "
		"--save-detailed\n"
		"  quire trace convert log.csv --columns arrival=ts,input=in,output=out,unit=ms "
		"--out log.jsonl\n",
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = offsetof(struct convert_request, config),
	.value_bytes = sizeof(struct convert_request),
	.positional_minimum = 1,
	.positional_maximum = 1,
	.run = run,
};
