#ifndef BENCH_REPLAY_TRACE_READING_H
#define BENCH_REPLAY_TRACE_READING_H

#include <stdint.h>

#include "bench/replay/replay_config.h"
#include "workloads/trace/trace.h"

/* How commands that only look at a trace read it: by --format, --trace-block-size and --sort of
   their configuration. */

#define TRACE_READING_OPTIONS                                                                      \
	{.kind = OPTION_HEADING, .help = "How the trace is read (gzip and zstd files too)"},       \
		{FROM_TABLE("format")}, {FROM_TABLE("trace-block-size")},                          \
	{                                                                                          \
		FROM_TABLE("sort")                                                                 \
	}

struct trace_options trace_reading_options(const struct replay_config *config);

enum status trace_reading_open(struct trace **trace, const char *path,
	const struct replay_config *config, struct error *error);

/* The block size for what needs one: the trace's own, or 512 where its format has none. */
uint32_t trace_reading_block_size(const struct trace *trace);

/* Refuses a trace none of whose first max_requests rows (0: of all rows) names a session. */
enum status trace_reading_need_sessions(const char *path, const struct trace_options *options,
	uint64_t max_requests, struct error *error);

/* Refuses a trace that cannot be opened or whose first row cannot be read. */
enum status trace_reading_check(
	const char *path, const struct trace_options *options, struct error *error);

/* Says on stderr how many rows the reader passed over, if any, and what else must be known of how
   it read them. */
void trace_reading_report(const struct trace *trace);

#endif
