#ifndef WORKLOADS_GENERATE_GENERATOR_H
#define WORKLOADS_GENERATE_GENERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/generate/arrivals.h"
#include "workloads/generate/length_draw.h"
#include "workloads/trace/trace.h"

/* Generates traces from a seed. Draws use only integers and fixed point, so the same options give
   the same rows on every machine. Rows come in order of arrival.

   Sessions arrive, each of one or more turns. The first prompt is a path through a tree of
   prefixes, then input of its own. A later turn's prompt is the whole conversation so far, then a
   follow-up:

       turn 1   | prefix, level by level | input ... | completion |
       turn 2   | ............. all of turn 1 .............. | follow-up | completion |

   A turn arrives after the time of the preceding completion (token_ns per token) and a pause.
   Memory holds the sessions that are not over yet. */

enum { PREFIX_LEVELS_MAX = 8 };

struct prefix_level {
	uint32_t tokens; /* length of a prefix on this level */
	uint32_t count;	 /* different prefixes below each prefix of the level above */
};

/* Lengths of a row of another trace. */
struct length_pair {
	uint32_t input, output;
};

struct generator_options {
	uint64_t request_count; /* rows; sessions still active at that point end */
	uint64_t seed;
	struct length_draw input; /* of a first turn, without its prefix */
	struct length_draw follow_up;
	struct length_draw output;
	const struct length_pair *pairs; /* (pair_count), borrowed: input and output are drawn from
					    these together, in place of .input and .output */
	uint64_t pair_count;
	struct length_draw turns;
	uint64_t pause_ns;    /* mean of the exponential pause before a follow-up */
	uint64_t token_ns;    /* time per completion token, used for timestamps only */
	uint32_t context_max; /* tokens; a session ends before a turn would be longer, and a first
				 turn is cut */
	const struct arrival_profile *profile; /* of sessions, borrowed; NULL: all at time 0 */
	uint64_t duration_ns;		       /* no row at or after this time; 0: no end */
	struct prefix_level levels[PREFIX_LEVELS_MAX];
	uint32_t level_count;	   /* 0: no prefixes */
	uint64_t skew_millionths;  /* Zipf exponent * 10^6 of the choice on each level */
	uint32_t trace_block_size; /* tokens per hash id; only whole blocks are shared */
};

struct generator;

/* Sessions of more than one turn need a profile. The options are borrowed. */
struct generator *generator_open(const struct generator_options *options);
void generator_close(struct generator *generator);

/* False after the last row: request_count rows, or fewer where the next would be at or after
   duration_ns or beyond CLOCK_NS_MAX. Pointers of the row are valid until the next call. */
bool generator_next(struct generator *generator, struct trace_row *row);

#endif
