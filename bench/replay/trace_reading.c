#include "bench/replay/trace_reading.h"

#include "engine/base/integer.h"
#include "workloads/trace/format.h"

#include <inttypes.h>
#include <stdio.h>

enum { BLOCK_SIZE_DEFAULT = 512 };

enum status trace_reading_open(struct trace **trace, const char *path,
	const struct replay_config *config, struct error *error)
{
	const struct trace_options options = {
		.format = trace_format_of_word(config->trace_format),
		.trace_block_size = u32_from(config->trace_block_size),
		.sort = config->sort,
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
