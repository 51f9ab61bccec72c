#ifndef SIM_COST_MODEL_H
#define SIM_COST_MODEL_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/model/config.h"
#include "engine/runner.h"
#include "sim/profile.h"

/* A runner that prices a step from its counts alone, in constant time. */

enum status cost_model_open(struct runner *out, const struct model_config *model,
	const struct gpu_profile *profile, struct error *error);

/* The limits that decide how much memory is left for KV blocks. */
struct kv_memory_limits {
	uint64_t gpu_memory_utilization; /* millionths, in [1, 1000000] */
	uint32_t block_size;
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t max_model_len;
};

/* Where the memory goes, in bytes. */
struct kv_memory {
	uint64_t total_bytes;
	uint64_t usable_bytes; /* total * gpu_memory_utilization */
	uint64_t context_bytes;
	uint64_t weight_bytes;
	uint64_t activation_bytes; /* the largest step's buffers */
	uint64_t block_bytes;	   /* K and V of one block over all layers */
	uint32_t block_count;	   /* what is left, in whole blocks; at least 1 */
};

/* STATUS_MEMORY when not even one block fits, naming the terms. */
enum status cost_model_kv_memory(const struct model_config *model,
	const struct gpu_profile *profile, const struct kv_memory_limits *limits,
	struct kv_memory *out, struct error *error);

#endif
