#ifndef BENCH_REPLAY_TRACE_READING_H
#define BENCH_REPLAY_TRACE_READING_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/options/options.h"
#include "workloads/trace/trace.h"

/* How a trace is read, for every command that reads one. */
enum { TRACE_READING_ROWS = 4, TRACE_READING_WORDS_MAX = 32 };

struct trace_reading {
	uint32_t format; /* index of trace_format_word() */
	uint64_t trace_block_size;
	bool sort;

	/* Texts of the option table: the words of --format, and its help. */
	const char *format_words[TRACE_READING_WORDS_MAX];
	char format_help[256];
};

/* Fills (TRACE_READING_ROWS) rows of an option table, a heading first. */
void trace_reading_options(struct trace_reading *reading, struct option *rows);

enum status trace_reading_open(struct trace **trace, const char *path,
	const struct trace_reading *reading, struct error *error);

/* The block size for what needs one: the trace's own, or 512 where it has no hash ids. */
uint32_t trace_reading_block_size(const struct trace *trace);

/* Says on stderr how many rows the reader passed over, if any. */
void trace_reading_report(const struct trace *trace);

#endif
