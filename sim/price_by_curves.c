#include "sim/price_by_curves.h"

#include <string.h>

/* The sum that a curve is added to. */
static inline double *sum_of(struct step_price *price, enum step_curve curve, bool is_host)
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
		return is_host ? &price->host : &price->step_fixed;
	}
}

void price_by_curves(const struct step_curve_table *curves, const struct step_counts *counts,
	bool is_ahead, struct step_curve_hints *hints, struct step_price *out)
{
	double ns[STEP_CURVE_COUNT];

	memset(out, 0, sizeof(*out));
	step_curves_price(curves, counts, is_ahead, hints, ns);
#define ADD_CURVE(name, x, factor, is_host, what)                                                  \
	*sum_of(out, STEP_CURVE_##name, is_host) += ns[STEP_CURVE_##name];
	STEP_CURVE_LIST(ADD_CURVE)
#undef ADD_CURVE
}
