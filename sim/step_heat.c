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

/* Of a step's time, the part in which it heats. */
static double share_of(double flops_ns, double ns)
{
	return flops_ns < ns ? flops_ns / ns : ns > 0;
}

double heat_after(double decay_ns, double heat, double flops_ns, double elapsed_ns)
{
	double share = share_of(flops_ns, elapsed_ns);
	double q = decay_ns / (decay_ns + elapsed_ns);

	return share + (heat - share) * (q * q);
}

double heat_mean_square(double decay_ns, double heat, double flops_ns, double ns)
{
	double share = share_of(flops_ns, ns), off = heat - share;
	double q = decay_ns / (decay_ns + ns);

	return share * share + 2 * share * off * q + off * off * q * (1 + q + q * q) / 3;
}

double heat_extra_ns(const struct heat_prices *prices, double heat, double flops_ns,
	const struct step_counts *counts, double ns)
{
	double rise = counts->prefill_tokens > 0 ? prices->prompt : prices->decode;

	return rise == 0 ? 0 : rise * ns * heat_mean_square(prices->decay_ns, heat, flops_ns, ns);
}
