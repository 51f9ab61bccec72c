#include "sim/price_by_curves.h"

#include <string.h>

void price_by_curves(const struct step_curve_table *curves, const struct step_counts *counts,
	bool is_ahead, struct step_price *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < STEP_CURVE_COUNT; i++) {
		enum step_curve curve = (enum step_curve)i;
		struct step_curve_point point = step_curve_point_of(curve, counts, is_ahead);
		double ns = point.factor * step_curve_at(&curves[i], point.x);
		if (step_curve_is_host(curve)) {
			out->host += ns;
		} else if (curve == STEP_CURVE_decode_attention ||
			   curve == STEP_CURVE_decode_shared ||
			   curve == STEP_CURVE_decode_attention_rows ||
			   curve == STEP_CURVE_decode_spread || curve == STEP_CURVE_decode_merge) {
			out->decode_attention += ns;
		} else if (curve == STEP_CURVE_prefill_attention ||
			   curve == STEP_CURVE_prefill_context) {
			out->prefill_attention += ns;
		} else if (curve == STEP_CURVE_sampled_rows) {
			out->sampling += ns;
		} else {
			out->step_fixed += ns;
		}
	}
}
