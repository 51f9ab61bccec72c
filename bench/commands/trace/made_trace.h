#ifndef BENCH_COMMANDS_TRACE_MADE_TRACE_H
#define BENCH_COMMANDS_TRACE_MADE_TRACE_H

#include "bench/replay/replay_config.h"
#include "engine/base/path.h"
#include "engine/base/text.h"

/* A trace that a command makes for itself, as `quire trace make` makes it from the same options and
   --seed. Its file is in no folder, so it is gone with the program, whatever way that ends. */

/* Rows of a trace, unless a preset or the user says otherwise. */
enum { MADE_TRACE_REQUESTS = 10000 };

struct made_trace_options {
	uint32_t preset; /* of trace_preset_at() */
	uint64_t requests;
	const char *input, *output, *prefix, *turns, *follow_up; /* NULL: not given */
	uint64_t think;						 /* seconds * 10^6 */
	bool has_think;
	uint64_t session_rate; /* sessions a second * 10^6; 0: not given */
};

struct made_trace {
	char path[PATH_BYTES_MAX]; /* by which this process and those it forks read it; "": none */
};

/* Whether an option was given that makes a trace. */
bool made_trace_is_wanted(const struct made_trace_options *options);

/* Appends the command that makes the same trace: "quire trace make --preset chat ...". config: as
   given, with the arrivals. */
void made_trace_add_command(const struct made_trace_options *options,
	const struct replay_config *config, struct text *text);

/* Takes arrivals (--rate, --arrivals, --burstiness) and the block size out of `config`: they are
   the trace's. --rate is of sessions where there are turns and no --session-rate. Without a rate it
   is the preset's, or 1/s. Traces of different seeds may be open at once. To be closed after a
   failure too. */
enum status made_trace_open(struct made_trace *made, const struct made_trace_options *options,
	struct replay_config *config, struct error *error);

/* Accepts a zeroed one. */
void made_trace_close(struct made_trace *made);

#endif
