#ifndef SIM_PRICE_BY_CURVES_H
#define SIM_PRICE_BY_CURVES_H

#include <stdbool.h>

#include "engine/batch.h"
#include "sim/step_curves.h"
#include "sim/step_price.h"

/* The price of a step by the curves of a calibrated profile. Attention and sampling have curves of
   their own. All other work on the GPU is one sum, step_fixed: its curves run over rows or tokens,
   so they do not tell linear layers from what lies between them.

   curves: (STEP_CURVE_COUNT). is_ahead: the step was launched before its predecessor ended.
   hints: kept from step to step. */
void price_by_curves(const struct step_curve_table *curves, const struct step_counts *counts,
	bool is_ahead, struct step_curve_hints *hints, struct step_price *out);

#endif
