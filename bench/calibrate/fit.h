#ifndef BENCH_CALIBRATE_FIT_H
#define BENCH_CALIBRATE_FIT_H

#include "bench/calibrate/points.h"
#include "sim/operation_prices.h"
#include "sim/profile.h"

/* Fits the prices of operations (sim/operation_prices.h) to measured points: non-negative least
   squares in relative error (bench/calibrate/least_squares.h), with

     - Huber weights: steps more than 4 % off, of a log 1 %, weigh less;
     - neighbouring prices of a ramp kept alike, and all kept small, where few steps tell;
     - a part of a ramp that no step enters by half its width continues the price before it;
     - caps for prices that few steps see;
     - K and V no faster than memory.

   The GPU's time and the host's are two systems; the errors of both are relative to the whole
   step. */

/* A GPU and a rank's share of the model. */
struct calibrate_setup {
	struct operation_limits limits;
	struct model_config shape;
	bool is_step_log;      /* the steps are another engine's */
	uint32_t graph_tokens; /* the most prompt tokens in a graph of the engine; 0: none */
};

struct calibrate_fit {
	struct operation_prices prices;
	uint32_t edges; /* bits of enum price_edge */
	struct profile_errors fitted, held_out;
};

/* Holds a third of the points out, chosen by a seeded hash of their counts, so that equal steps are
   treated alike in every fit; a step with the largest value of a count never. Prices are fitted to
   the others first: what these predict for the held-out points is held_out, and written into the
   points. Then to all: what these predict is fitted. STATUS_INPUT where there are too few points,
   or times that no profile can hold. */
enum status calibrate_fit(struct calibrate_fit *out, struct calibrate_points *points,
	const struct calibrate_setup *setup, uint64_t seed, struct error *error);

/* Prices fitted to the points that are not held out. */
void calibrate_prices(struct operation_prices *out, const struct calibrate_points *points,
	const struct calibrate_setup *setup);

/* Writes predictions into the points that are (not) held out, and returns their errors. */
struct profile_errors calibrate_predict(
	const struct operation_prices *prices, struct calibrate_points *points, bool is_held_out);

#endif
