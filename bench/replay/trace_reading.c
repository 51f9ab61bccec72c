#include "bench/replay/trace_reading.h"

#include "engine/base/integer.h"
#include "workloads/trace/format.h"

#include <inttypes.h>
#include <stdio.h>

struct trace_options trace_reading_options(const struct replay_config *config)
{
	return (struct trace_options){
		.format = trace_format_of_word(config->trace_format),
		.trace_block_size = u32_from(config->trace_block_size),
		.sort = config->sort,
	};
}

enum status trace_reading_open(struct trace **trace, const char *path,
	const struct replay_config *config, struct error *error)
{
	const struct trace_options options = trace_reading_options(config);

	return trace_open(trace, path, &options, error);
}

uint32_t trace_reading_block_size(const struct trace *trace)
{
	uint32_t block_size = trace_block_size(trace);

	return block_size == 0 ? MOONCAKE_BLOCK_SIZE : block_size;
}

static enum status find_session(
	struct trace *trace, uint64_t max_requests, bool *is_found, struct error *error)
{
	struct trace_row row;
	bool has_row = true;

	for (uint64_t i = 0; !*is_found && (max_requests == 0 || i < max_requests); i++) {
		TRY(trace_next(trace, &row, &has_row, error));
		if (!has_row) {
			return STATUS_OK;
		}
		*is_found = row.session != NULL;
	}
	return STATUS_OK;
}

enum status trace_reading_need_sessions(const char *path, const struct trace_options *options,
	uint64_t max_requests, struct error *error)
{
	struct trace *trace = NULL;
	bool is_found = false;

	TRY(trace_open(&trace, path, options, error));
	enum status status = find_session(trace, max_requests, &is_found, error);
	bool has_none = status == STATUS_OK && !is_found;
	if (has_none) {
		trace_reading_report(trace);
	}
	trace_close(trace);
	if (has_none) {
		return error_set(error, STATUS_INPUT,
			"%.200s: found no session in any row, expected some: --sessions closed "
			"waits for the turn before",
			path);
	}
	return status;
}

enum status trace_reading_check(
	const char *path, const struct trace_options *options, struct error *error)
{
	struct trace *trace = NULL;
	struct trace_row row;
	bool has_row;

	TRY(trace_open(&trace, path, options, error));
	enum status status = trace_next(trace, &row, &has_row, error);
	trace_close(trace);
	return status;
}

void trace_reading_report(const struct trace *trace)
{
	uint64_t count = trace_skipped_count(trace);

	if (count > 0) {
		fprintf(stderr, "note: passed over %" PRIu64 " %s\n", count,
			trace_skip_reason(trace));
	}
	for (uint32_t i = 0; trace_note(trace, i) != NULL; i++) {
		fprintf(stderr, "note: %s\n", trace_note(trace, i));
	}
}
