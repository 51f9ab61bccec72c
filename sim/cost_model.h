#ifndef SIM_COST_MODEL_H
#define SIM_COST_MODEL_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/shape/model_config.h"
#include "engine/runner.h"
#include "sim/profile.h"

/* A runner that prices a step from its counts alone, in constant time.

   With T tokens in the step (decode rows + prefill tokens), S sampled rows, R rows, L layers, H
   query heads, G KV heads, head size D, and the numbers of the profile in brackets:

     gpu  = L * (sum over qkv, o, gate_up, down of product(T) + elementwise(T)
		 + decode_attention + prefill_attention)
	    + product(S) of lm_head + sampling(S) + [step_fixed]
     host = [host_fixed] + [host_row] * R
     elapsed = gpu + host, rounded to nanoseconds once

     product(M)  = [floor] + max(bytes / [memory_rate], FLOPs / [flop_rate]); bytes are the weights
		   and M rows in and out; FLOPs are 2 * M * inputs * outputs; within the layers the
		   FLOP rate is lowered to [product_sustained] of itself
     elementwise = [elementwise_fixed] + bytes / [memory_rate]: a token's two residual sums with
   their norms, norm and rotation of queries and keys, storing K and V, the gated activation
     decode_attention  = [fixed] + [row] * G * decode rows + bytes of their K and V / [rate]
     prefill_attention = [fixed] + [token] * H * prefill tokens
			 + max(4 * D * H * pairs / [rate], bytes of K and V / [decode rate]), where
			 the bytes are those of the mean context, read once a row: pairs * rows /
			 tokens. They decide when a short chunk meets a long prefix.
     sampling(S) = [sampling_fixed] + S * vocab_size / [sampling_rate]

   A term whose rows or tokens are none costs nothing.

   With a calibrated profile gpu and host are sums of its curves instead (sim/step_curves.h); such a
   profile is for one model, and another is refused. Its runner takes steps ahead as the CUDA runner
   does, and prices the host's share of those accordingly.

   In either case only + - * / on doubles, so every machine computes the same nanoseconds. A step of
   more than 10^15 ns is refused. */

enum status cost_model_open(struct runner *out, const struct model_config *model,
	const struct gpu_profile *profile, struct error *error);

/* The parts of a step's price, in nanoseconds; layers are summed. For tables and tests. */
struct step_price {
	double product[MODEL_LINEAR_COUNT];
	double decode_attention;
	double prefill_attention;
	double elementwise;
	double sampling;
	double step_fixed;
	double host;
};

void cost_model_price(
	const struct runner *cost_model, const struct step_counts *counts, struct step_price *out);

/* The limits that decide how much memory is left for KV blocks. */
struct kv_memory_limits {
	uint64_t gpu_memory_utilization; /* millionths, in [1, 1000000] */
	uint32_t block_size;
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t max_model_len;
};

/* Where the memory goes, in bytes. nano-vllm measures, after a warm-up step, and takes

       (total * utilization - used - peak + current) / block_bytes, rounded down,

   where used is what the device has given away, current what the allocator holds for tensors and
   peak the most it held. An engine that takes all its buffers at start has peak = current, so this
   is

       (usable - context - weights - activations) / block_bytes

   with the buffers of quire's own CUDA engine as activations (step_tensors_bytes). `quire
   info` shows the estimate beside what the engine finds on a GPU. */
struct kv_memory {
	uint64_t total_bytes;
	uint64_t usable_bytes;	/* total * gpu_memory_utilization */
	uint64_t context_bytes; /* driver, context and libraries, from the profile */
	uint64_t weight_bytes;
	uint64_t activation_bytes;
	uint64_t block_bytes; /* K and V of block_size tokens over all layers */
	uint32_t block_count; /* what is left, in whole blocks; at least 1, at most 2^28 */
};

/* STATUS_MEMORY when not even one block fits, naming the terms. */
enum status cost_model_kv_memory(const struct model_config *model,
	const struct gpu_profile *profile, const struct kv_memory_limits *limits,
	struct kv_memory *out, struct error *error);

#endif
