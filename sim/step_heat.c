#include "sim/step_heat.h"

double heat_flops_ns(const struct operation_floors *floors, const struct step_counts *counts)
{
	double tokens = (double)(counts->decode_rows + counts->prefill_tokens);

	return counts->prefill_tokens == 0
		       ? 0
		       : floors->product_token * tokens +
				 floors->head_row * (double)counts->sampled_rows +
				 floors->pair * (double)counts->prefill_attention_pairs;
}

double heat_extra_ns(const struct heat_prices *prices, double heat, double flops_ns,
	const struct step_counts *counts, double ns)
{
	double rise = counts->prefill_tokens > 0 ? prices->prompt : prices->decode;

	if (rise == 0) {
		return 0;
	}
	double after = heat_after(prices->decay_ns, heat, flops_ns, ns);
	return rise * ns * (after * after);
}

double heat_after(double decay_ns, double heat, double flops_ns, double elapsed_ns)
{
	double hot_ns = flops_ns < elapsed_ns ? flops_ns : elapsed_ns;

	return (heat * decay_ns + hot_ns) / (decay_ns + elapsed_ns);
}
