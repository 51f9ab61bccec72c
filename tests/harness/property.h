#ifndef TESTS_HARNESS_PROPERTY_H
#define TESTS_HARNESS_PROPERTY_H

#include <stdbool.h>
#include <stdint.h>

/* Properties: a body draws choices and checks conditions (tests/harness/require.h, check()). Three
   drivers run the same body:

       prop_holds         random choices, from a seed
       prop_holds_always  every sequence of choices, counted through like an odometer
       (replay)           choices that were recorded, while a failure is being shrunk

   Trials run in a forked child that shares the record of choices with its parent, so anything that
   kills a child (a failed check, a sanitizer, a signal, the time limit) is a failure that can be
   shrunk. Shrinking works on the choices and never on values: it deletes spans and lowers numbers
   and lets the body draw from the rest. When the record runs out every choice is 0, so a body
   should make 0 its simplest case.

   PROP_SEED, PROP_TRIALS in the environment replace the first seed and the number of trials, and
   PROP_SHRINK=0 leaves a failure as it was found. */

struct prop;

/* A choice in [0, bound); bound >= 1. */
uint64_t prop_below(struct prop *prop, uint64_t bound);

/* A choice in [low, high]; low is the simplest. */
uint32_t prop_range(struct prop *prop, uint32_t low, uint32_t high);

/* True in `hits` cases of `of`; false is the simplest. */
bool prop_chance(struct prop *prop, uint32_t hits, uint32_t of);

/* Weights for a run in which some of `count` kinds of operation are rare or absent; the sum is
   never 0. */
void prop_swarm(struct prop *prop, uint32_t *weights, uint32_t count);

/* An index in [0, count), drawn by weight. */
uint32_t prop_weighted(struct prop *prop, const uint32_t *weights, uint32_t count);

/* A line of the script that a failure prints. Costs nothing otherwise. */
void prop_log(struct prop *prop, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct prop_options {
	const char *name;
	void (*body)(struct prop *prop, const void *context);
	const void *context;	      /* handed to the body */
	uint32_t trials;	      /* random trials; for prop_holds_always the most cases */
	uint32_t timeout_s;	      /* for one trial; 0: 20 */
	const uint64_t *always_seeds; /* (always_count) run before the random ones: old failures */
	uint32_t always_count;
	bool is_silent; /* a failure is expected: it is neither shrunk nor printed */
};

/* Whether no trial failed. The first failure is shrunk and printed: its seed, and what the body
   logged in its smallest form. */
bool prop_holds(const struct prop_options *options);

/* Whether no sequence of choices fails. *case_count: how many there were. Meant for bodies with few
   choices; more than options->trials cases are a failure, since the claim would not be proven. */
bool prop_holds_always(const struct prop_options *options, uint64_t *case_count);

#endif
