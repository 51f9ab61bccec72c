#ifndef SIM_STEP_PRICE_H
#define SIM_STEP_PRICE_H

#include "engine/shape/weight_shape.h"

/* What a step costs, in nanoseconds and by what costs it; layers are summed. */
struct step_price {
	double linear[MODEL_LINEAR_COUNT];
	double decode_attention;
	double prefill_attention;
	double elementwise;
	double exchange; /* between ranks: sums behind o and down, and candidates */
	double sampling;
	double step_fixed;
	double host;
};

/* A step takes no longer, in nanoseconds: 12 days. */
#define STEP_PRICE_LIMIT 1e15

#endif
