#ifndef SIM_PROFILE_LAWS_H
#define SIM_PROFILE_LAWS_H

#include "engine/base/status.h"
#include "sim/operation_prices.h"

/* What every price of a step obeys, whatever it was fitted to:

     1. a step costs no less than the same step with fewer rows, tokens or context;
     2. no less than its operations take at the limits of the GPU (operation_roofline());
     3. a mixed step costs at least the dearer of its two kinds of rows alone, and at most
	PRICE_MIXED_MOST times their sum;
     4. one more row, prompt token or token of context adds at most 5 %, but at an edge that the
	profile names; the token that ends a prompt brings a sampled row, whose logits are not
	counted as a jump; nor is a prompt more, with which no graph may hold the step;
     5. shared tokens that every row reads, or that are read again for more rows, cost no more
	than tokens that no other row holds.

   Over the edge `sharing` a step may also cost less than a smaller one: with a row more the engine
   reads once what every row has read for itself. So the first law compares steps on one side of
   it.

   The first law compares chunks of prompts that begin at the same token. Tiles are cut from a
   chunk's first token on, so one that begins earlier and ends at the same token may cost less, by
   0.74 % at most in random steps of the profiles of 2026-11-30 (by a fuzzer not in the tree).

   The laws compare steps whose shared tokens are held by the same rows: of two that are equal but
   for that, the one whose rows, or whose prompts, share more may cost less.

   Steps whose counts are all known are meant. Where a count is not, a mean stands in for the
   longest, which falls when a short row or prompt joins.

   Non-negative prices and rising parts make the first three true (sim/price_by_operations.h), and
   prices of shared tokens within that of a token the fifth. */

/* Where a step's time may jump. X(name, between which steps) */
#define PRICE_EDGE_LIST(X)                                                                         \
	X(graph_bucket, "decode rows that a graph of one size holds, and one more")                \
	X(captured, "decode rows in a graph, and the same beside one prompt token; prompts, and "  \
		    "the same beside a decode row; a step with prompts in a graph, and one "       \
		    "with too many rows or tokens for it")                                         \
	X(second_row, "one decode row, which has a kernel of its own, and two")                    \
	X(prompt_tile, "prompt tokens that fill tiles of queries or halves of them, and one more") \
	X(product_tile, "prompt tokens and rows that fill tiles of products, and one more")        \
	X(sharing, "shared tokens that every row reads, and one more, read once for all rows")     \
	X(readers, "rows that one reading of shared tokens serves, and one more")                  \
	X(row_round, "a row alone that fills rounds of its kernel, and one token more")            \
	X(long_row, "a row alone, which has a kernel of its own, and a token too many for that")

enum price_edge {
#define PRICE_EDGE_ENUM(name, what) PRICE_EDGE_##name,
	PRICE_EDGE_LIST(PRICE_EDGE_ENUM)
#undef PRICE_EDGE_ENUM
		PRICE_EDGE_COUNT
};

const char *price_edge_name(enum price_edge edge);

/* Whether the prices are non-negative numbers, parts rise, K and V cost at least what memory takes
   to deliver them, and shared ones no more than others. *term: the one that is not so. */
bool operation_prices_are_sound(
	const struct operation_prices *prices, enum operation_term *term, const char **expected);

/* What a token of context costs at least where no other row holds it, in ns, and what a shared one
   costs at most where every row reads it. */
double operation_distinct_token_ns(const struct operation_prices *prices);
double operation_shared_token_ns(const struct operation_prices *prices);

/* Tries the laws on a grid of steps, and where the prices have numbers of their own: where a ramp
   or a capped price turns, where few rows begin to share, and at the largest graphs. edges: bits of
   enum price_edge. STATUS_INPUT, with the law and a pair of steps, where one is broken. */
enum status operation_prices_check(
	const struct operation_prices *prices, uint32_t edges, struct error *error);

/* The edges that a profile of these prices names: over which they jump by more than 4 % on that
   grid, since steps between those of the grid may jump by more; from rows that read shared tokens
   each for themselves to rows that read them once, by more than 5 %, or downwards. */
uint32_t operation_prices_edges(const struct operation_prices *prices);

#endif
