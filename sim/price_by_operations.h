#ifndef SIM_PRICE_BY_OPERATIONS_H
#define SIM_PRICE_BY_OPERATIONS_H

#include <stdbool.h>

#include "engine/batch.h"
#include "sim/operation_prices.h"

/* The price of a step by a calibrated profile (sim/operation_prices.h).

     price of one kind of rows    whole(step)
     of a mixed step              whole(step), but at least the dearer and at most
                                  PRICE_MIXED_MOST times the sum of the decode rows alone and
                                  the prompts alone

     whole(step) = floor of lm_head + max(floors of all other operations,
                                          base of products + sum of price * basis function)

   Prices are 0 or more, and floors, base and basis functions do not fall when a row, a token or a
   context is added. So neither does the price, but where more shared tokens make the engine read
   them once; and it is never below the floors.

   + - * / on doubles in one order only, so every machine computes the same nanoseconds. */

/* A mixed step costs at most this times the sum of its two kinds of rows alone. Measured steps of
   an H200 stay below it. */
#define PRICE_MIXED_MOST 1.25

struct operation_price {
	double gpu_ns, host_ns;
};

/* Terms with prices, ready to be added up. */
struct operation_line {
	uint32_t x, y; /* variables */
	double at, ns;
};

struct operation_ramp {
	uint32_t x, count;
	uint32_t latest; /* part of the latest step, where the next is looked for; changes no price
			    */
	double at[OPERATION_PARTS], ns[OPERATION_PARTS];
	double height[OPERATION_PARTS]; /* of all parts before */
};

enum {
	OPERATION_SECTIONS = OPERATION_SECTION_HOST + 1,
	OPERATION_LINES = 4 * OPERATION_PARTS /* no section has more than 4 terms of a kind */
};

struct operation_section_sum {
	uint32_t line_count, dearer_count, cheaper_count, reread_count, ramp_count;
	struct operation_line lines[OPERATION_TERM_COUNT];
	struct operation_line dearer[OPERATION_LINES], cheaper[OPERATION_LINES];
	struct operation_line reread[OPERATION_LINES];
	/* Of shared tokens; they come to 0, or to the distinct ones, where none is shared. */
	struct operation_line dearer_shared[OPERATION_LINES], cheaper_shared[OPERATION_LINES];
	uint32_t dearer_shared_count, cheaper_shared_count;
	double reread_ns; /* price of a token where none is shared */
	/* Of whole rounds; they come to the distinct tokens where these are more. */
	struct operation_line rounds[OPERATION_LINES];
	uint32_t round_count;
	double rounds_ns;
	struct operation_ramp ramps[OPERATION_TERM_COUNT];
};

struct operation_pricer {
	struct operation_floors floors;
	struct operation_sharing sharing;
	uint32_t graph_tokens;
	struct operation_section_sum sections[OPERATION_SECTIONS];
};

/* prices: as operation_prices_check() accepts them. */
void operation_pricer_init(struct operation_pricer *out, const struct operation_prices *prices);

/* is_ahead: the step was launched before its predecessor ended. */
struct operation_price price_by_operations(
	struct operation_pricer *pricer, const struct step_counts *counts, bool is_ahead);

/* The floors of all operations of a step, in ns. */
double operation_roofline(const struct operation_floors *floors, const struct step_counts *counts);

#endif
