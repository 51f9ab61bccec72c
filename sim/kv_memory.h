#ifndef SIM_KV_MEMORY_H
#define SIM_KV_MEMORY_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/shape/model_config.h"
#include "sim/profile.h"

/* How many KV blocks a GPU holds beside a model, estimated without the GPU. nano-vllm measures this
   after a warm-up step, as

       (total * utilization - used - peak + current) / block_bytes, rounded down,

   where used is what the device has allocated, current what the allocator holds for tensors and
   peak the most it held. An engine that allocates all its buffers at start has peak = current, so
   this is

       (usable - context - weights - activations) / block_bytes

   with the buffers of quire's own CUDA engine as activations (engine/shape/step_tensors.h). `quire
   info` shows the estimate beside what the engine finds on a GPU. All in bytes.

   A profile may hold what another engine was measured to hold beside weights and KV blocks
   (engine_bytes). It then takes the place of context and activations, whatever the limits of a step
   are.

   Each rank of tensor parallelism holds its shares of the weights, of a step's tensors and of every
   block (engine/shape/weight_shape.h), and memory for exchanges (engine/shape/exchange_layout.h).
   Ranks have equally many blocks: as many as the one with the least room. What the library of the
   exchange takes for itself is not counted. */
struct kv_memory {
	uint64_t total_bytes;
	uint64_t usable_bytes;	/* total * gpu_memory_utilization */
	uint64_t context_bytes; /* driver, context and libraries, from the profile */
	uint64_t weight_bytes;
	uint64_t activation_bytes;
	uint64_t exchange_bytes; /* 0 with one rank */
	uint64_t block_bytes;	 /* K and V of block_size tokens over all layers */
	uint32_t block_count;	 /* blocks that fit into the remaining memory, in [1, 2^28] */
};

/* The memory of one rank, of those that share the model the one with the least room. engine: its
   block size and limits count; utilization: millionths, in [1, 1000000]. STATUS_INPUT, naming the
   terms, when not even one block fits. */
enum status kv_memory_estimate(const struct model_config *model, const struct gpu_profile *profile,
	const struct engine_config *engine, uint64_t utilization, uint32_t ranks,
	struct kv_memory *out, struct error *error);

#endif
