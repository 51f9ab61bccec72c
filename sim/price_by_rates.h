#ifndef SIM_PRICE_BY_RATES_H
#define SIM_PRICE_BY_RATES_H

#include "engine/batch.h"
#include "sim/profile.h"
#include "sim/step_price.h"

/* The price of a step by work and rates, in constant time.

   With T tokens in the step (decode rows + prefill tokens), S sampled rows, R rows, L layers, H
   query heads, G KV heads, head size D, and the numbers of the profile in brackets:

     gpu  = L * (sum over qkv, o, gate_up, down of linear(T) + elementwise(T)
                 + decode_attention + prefill_attention + 2 * exchange(T))
            + linear(S) of lm_head + sampling(S) + candidates(S) + [step_fixed]
     host = [host_fixed] + [host_row] * R + [host_rank] * (P - 1)
     elapsed = gpu + host, rounded to nanoseconds once

     linear(M)         = [floor] + max(bytes / [memory_rate], FLOPs / [flop_rate])
     elementwise       = [elementwise_fixed] + bytes / [memory_rate]
     decode_attention  = [fixed] + [row] * G * decode rows + bytes of their K and V / [rate]
     prefill_attention = [fixed] + [token] * H * prefill tokens
                         + max(4 * D * H * pairs / [rate], bytes of K and V / [decode rate])
     sampling(S)       = [sampling_fixed] + S * vocab_size / [sampling_rate]

   linear: bytes are the weights and M rows in and out, FLOPs are 2 * M * inputs * outputs. Within
   the layers the FLOP rate is multiplied by [product_sustained].

   elementwise: a token's two residual sums with their norms, norm and rotation of queries and keys,
   the store of K and V, the gated activation.

   prefill_attention: the bytes are those of each row's context, read once. They decide when prompts
   of some tokens meet a long prefix. Where the sum of contexts is not known, each row has the
   longest one.

   A term whose rows or tokens are none costs nothing.

   Of P ranks each computes its share (engine/shape/weight_shape.h): H, G, the intermediate size and
   vocab_size above are a rank's, and the residual stream and its norms are whole. Behind o and
   behind down ranks exchange B = 2 * hidden_size * T bytes. Each reads the rows of all others, or
   else each adds its part of the rows and gives the sums to all, whichever is shorter:

     exchange(T)   = min(l + (P - 1) * B / [link_rate], 2 * l + 2 * (P - 1) / P * B / [link_rate])
     candidates(S) = l
     l             = [link_fixed] + [link_rank] * (P - 2)

   Both are 0 with one rank. Work that takes the place of an exchange, such as the norm behind it,
   is counted where it is with one rank. */

/* A cost that grows with rows: fixed + max(memory + rows * memory_row, rows * flop_row). */
struct linear_rates {
	double fixed;
	double memory;
	double memory_row;
	double flop_row;
};

/* Every coefficient is in nanoseconds and already summed over the layers. */
struct step_rates {
	struct linear_rates linear[MODEL_LINEAR_COUNT];
	double decode_fixed, decode_row, decode_token;
	double prefill_fixed, prefill_token, prefill_pair, prefill_context_token;
	double elementwise_fixed, elementwise_token;
	double sampling_fixed, sampling_row;
	double exchange_once_fixed, exchange_once_token;   /* one way, all rows */
	double exchange_twice_fixed, exchange_twice_token; /* two ways, a part of the rows */
	double candidates;
	double step_fixed;
	double host_fixed, host_row;
};

/* ranks: a number that divides the model; above 1 the profile must have a link. */
void step_rates_init(struct step_rates *out, const struct model_config *model,
	const struct gpu_profile *profile, uint32_t ranks);

void price_by_rates(
	const struct step_rates *rates, const struct step_counts *counts, struct step_price *out);

#endif
