#include "bench/replay/trace_reading.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "workloads/trace/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_SIZE_DEFAULT = 512 };

void trace_reading_options(struct trace_reading *reading, struct option *rows)
{
	char *help = reading->format_help;
	const size_t room = sizeof(reading->format_help);
	size_t used = 0;

	memset(reading->format_words, 0, sizeof(reading->format_words));
	for (uint32_t i = 0; trace_format_word(i) != NULL; i++) {
		const char *next = trace_format_word(i + 1);
		check(i + 1 < TRACE_READING_WORDS_MAX);
		reading->format_words[i] = trace_format_word(i);
		if (next != NULL) {
			const char *between = trace_format_word(i + 2) == NULL ? " or " : ", ";
			used += (size_t)snprintf(
				help + used, room - used, "%s%s", i == 0 ? "" : between, next);
			check(used < room);
		}
	}
	used += (size_t)snprintf(help + used, room - used, " (any: told by the first line)");
	check(used < room);
	const struct option added[TRACE_READING_ROWS] = {
		{.kind = OPTION_HEADING, .help = "How the trace is read (gzip and zstd files too)"},
		{"format", OPTION_CHOICE, &reading->format, "NAME", help, 0, 0,
			reading->format_words, NULL},
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
		.format = trace_format_of_word(reading->format),
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
