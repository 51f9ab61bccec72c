#ifndef BENCH_COMMANDS_TRACE_TRACE_REQUEST_H
#define BENCH_COMMANDS_TRACE_TRACE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/replay/replay_config.h"
#include "workloads/generate/generator.h"

/* The options of `quire trace make`, as given on the command line. Texts are borrowed. */

struct trace_request {
	struct replay_config config; /* seed, block size and arrivals */
	uint32_t preset;	     /* of trace_preset_at() */
	const char *out;
	bool is_forced; /* replaces what is at .out */
	uint64_t requests;
	const char *input, *follow_up, *output, *turns; /* LENGTH: N, LOW:HIGH, lognormal:M:S */
	bool has_input, has_output;			/* given by the user, not by the preset */
	uint64_t session_rate;				/* a second * 10^6; 0: none */
	bool has_session_rate;				/* given by the user */
	const char *lengths_from;			/* a trace, or NULL */
	const char *wave;				/* PERIOD:LOW:HIGH, or NULL */
	uint64_t think;					/* seconds * 10^6 */
	const char *prefix;				/* TOKENS:COUNT,TOKENS:COUNT,... or NULL */
	uint64_t zipf;					/* * 10^6 */
	uint64_t max_context;
};

/* A workload to start from: options that apply unless the user gives others. */
enum { TRACE_PRESET_OPTIONS_MAX = 10 };

struct trace_preset {
	const char *name;
	struct {
		const char *option, *text;
	} options[TRACE_PRESET_OPTIONS_MAX]; /* ends with a NULL */
};

/* NULL past the end. The first is none. */
const struct trace_preset *trace_preset_at(uint32_t index);

/* Sets the defaults of `quire trace make`, then the options of a preset. */
void trace_request_init(struct trace_request *request, uint32_t preset);

/* The parsed options, with the memory that they own. */
struct trace_plan {
	struct generator_options options;
	struct arrival_profile profile;
	struct length_pair *pairs;
	size_t pair_capacity;
};

/* Invalid values and combinations are refused with the names of the options. To be closed after a
   failure too. */
enum status trace_plan_open(
	struct trace_plan *plan, const struct trace_request *request, struct error *error);
void trace_plan_close(struct trace_plan *plan);

#endif
