#ifndef BENCH_PLAN_KNOB_H
#define BENCH_PLAN_KNOB_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/replay/replay_config.h"

/* What a plan varies: one option of a replay. A load is its value, of a MILLIONTHS option in
   millionths. */

enum knob_index {
	KNOB_SPEEDUP,
	KNOB_RATE,
	KNOB_CONCURRENCY,
	KNOB_KV_BLOCKS,
	KNOB_REPLICAS,
	KNOB_COUNT
};

struct knob {
	const char *name;  /* of the option */
	const char *field; /* the option in summary.json */
	const char *unit;  /* of a value in a sentence; "" of a factor */
	bool is_least;	   /* more makes it easier to pass: the least is looked for */
	bool is_fraction;  /* loads are millionths */
	uint64_t first;	   /* the load to begin with, where the option was not given */
};

extern const struct knob knobs[KNOB_COUNT];

/* The words of --vary. */
const char *knob_word(uint32_t index);

/* The option's range and, of a configuration, its value; 0: not given. */
void knob_range(enum knob_index knob, uint64_t *minimum, uint64_t *maximum);
uint64_t knob_given(enum knob_index knob, const struct replay_config *config);

/* As if --NAME LOAD had been given. */
void knob_set(enum knob_index knob, struct replay_config *config, uint64_t load);

/* The load as a number, and as the command line has it, without trailing zeros; text:
   (NUMBER_TEXT_BYTES). */
double knob_value(enum knob_index knob, uint64_t load);
void knob_text(enum knob_index knob, uint64_t load, char *text);

#endif
