#include "sim/price_by_curves.h"

#include <string.h>

/* The sum that a curve is added to. */
static double *sum_of(struct step_price *price, enum step_curve curve)
{
	switch (curve) {
	case STEP_CURVE_decode_attention:
	case STEP_CURVE_decode_shared:
	case STEP_CURVE_decode_attention_rows:
	case STEP_CURVE_decode_spread:
	case STEP_CURVE_decode_merge:
		return &price->decode_attention;
	case STEP_CURVE_prefill_attention:
	case STEP_CURVE_prefill_context:
		return &price->prefill_attention;
	case STEP_CURVE_sampled_rows:
		return &price->sampling;
	default:
		return step_curve_is_host(curve) ? &price->host : &price->step_fixed;
	}
}

void price_by_curves(const struct step_curve_table *curves, const struct step_counts *counts,
	bool is_ahead, struct step_price *out)
{
	struct step_variables variables;

	memset(out, 0, sizeof(*out));
	step_variables_set(&variables, counts, is_ahead);
	for (uint32_t i = 0; i < STEP_CURVE_COUNT; i++) {
		enum step_curve curve = (enum step_curve)i;
		struct step_curve_point point = step_curve_point_at(curve, &variables);
		if (point.x != 0) { /* else the curve adds nothing */
			*sum_of(out, curve) += point.factor * step_curve_at(&curves[i], point.x);
		}
	}
}
