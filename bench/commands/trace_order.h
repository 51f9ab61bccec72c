#ifndef BENCH_COMMANDS_TRACE_ORDER_H
#define BENCH_COMMANDS_TRACE_ORDER_H

#include <stdint.h>

#include "bench/replay/load.h"
#include "workloads/generate/generator.h"

/* A trace to be made, in the words of the command line. Texts are borrowed. */

struct trace_order {
	uint64_t requests, seed, trace_block_size;
	const char *input, *follow_up, *output, *turns; /* LENGTH: N, LOW:HIGH, lognormal:M:S */
	const char *lengths_from;			/* a trace, or NULL */
	struct load load;
	const char *wave;   /* PERIOD:LOW:HIGH, or NULL */
	uint64_t think;	    /* seconds * 10^6 */
	const char *prefix; /* TOKENS:COUNT,TOKENS:COUNT,... or NULL */
	uint64_t zipf;	    /* * 10^6 */
	uint64_t max_context;
};

/* Workloads to start from. The first is none: what holds where a preset has zero or NULL. */
struct trace_preset {
	const char *name;
	const char *imitates; /* for the help */
	struct trace_order order;
};

enum { TRACE_PRESET_COUNT = 5 };

extern const struct trace_preset trace_presets[TRACE_PRESET_COUNT];

/* preset_index < TRACE_PRESET_COUNT. */
void trace_order_init(struct trace_order *order, uint32_t preset_index);

/* What an order asks for, with what it has to hold in memory meanwhile. */
struct trace_plan {
	struct generator_options options;
	struct arrival_profile profile;
	struct length_pair *pairs;
	size_t pair_capacity;
};

/* Values and combinations that make no sense are refused, naming the options. To be closed after a
   failure too. */
enum status trace_plan_open(
	struct trace_plan *plan, const struct trace_order *order, struct error *error);
void trace_plan_close(struct trace_plan *plan);

#endif
