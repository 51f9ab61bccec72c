#include "bench/replay/trace_reading.h"

#include "engine/base/integer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_SIZE_DEFAULT = 512 };

void trace_reading_options(struct trace_reading *reading, struct option *rows)
{
	static const char *const names[] = {
		"any", "mooncake", "bailian", "azure", "burstgpt", "token-ids", NULL};
	static_assert(sizeof(names) / sizeof(names[0]) == TRACE_FORMAT_COUNT + 1,
		"a name for each enum trace_format");
	const struct option added[TRACE_READING_ROWS] = {
		{.kind = OPTION_HEADING, .help = "How the trace is read (gzip and zstd files too)"},
		{"format", OPTION_CHOICE, &reading->format, "NAME",
			"mooncake, bailian, azure, burstgpt or token-ids (any: told by the first "
			"line)",
			0, 0, names, NULL},
		{"trace-block-size", OPTION_COUNT, &reading->trace_block_size, "N",
			"tokens a hash id stands for (the format's own: 512, bailian 16)", 1,
			1 << 20, NULL, NULL},
		{"sort", OPTION_FLAG, &reading->sort, NULL,
			"bring rows in order of time instead of refusing those out of order", 0, 0,
			NULL, NULL},
	};

	memcpy(rows, added, sizeof(added));
}

enum status trace_reading_open(struct trace **trace, const char *path,
	const struct trace_reading *reading, struct error *error)
{
	const struct trace_options options = {
		.format = (enum trace_format)reading->format,
		.trace_block_size = u32_from(reading->trace_block_size),
		.sort = reading->sort,
	};

	return trace_open(trace, path, &options, error);
}

uint32_t trace_reading_block_size(const struct trace *trace)
{
	uint32_t block_size = trace_block_size(trace);

	return block_size == 0 ? BLOCK_SIZE_DEFAULT : block_size;
}

void trace_reading_report(const struct trace *trace)
{
	uint64_t count = trace_skipped_count(trace);

	if (count > 0) {
		fprintf(stderr, "note: passed over %" PRIu64 " %s\n", count,
			trace_skip_reason(trace));
	}
}
