#include "sim/kv_memory.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/shape/step_tensors.h"
#include "engine/shape/weight_shape.h"

enum { BLOCKS_MAX = 1 << 28 };

enum status kv_memory_estimate(const struct model_config *model, const struct gpu_profile *profile,
	const struct engine_config *engine, uint64_t utilization, struct kv_memory *out,
	struct error *error)
{
	check(utilization >= 1 && utilization <= 1000000);
	check(engine->block_size >= 1 && engine->max_num_seqs >= 1);
	check(engine->max_num_batched_tokens >= 1 && engine->max_model_len >= 1);
	uint64_t total = (uint64_t)profile->memory_bytes;
	struct model_step_limits step = model_step_limits(
		engine->max_num_batched_tokens, engine->max_num_seqs, engine->max_model_len);
	*out = (struct kv_memory){
		.total_bytes = total,
		/* Dividing first avoids an overflow; total < 2^50. */
		.usable_bytes =
			total / 1000000 * utilization + total % 1000000 * utilization / 1000000,
		.context_bytes = (uint64_t)profile->context_bytes,
		.weight_bytes = weight_total_bytes(model),
		.activation_bytes = step_tensors_bytes(model, &step),
		.block_bytes = model_config_kv_bytes_per_token(model) * engine->block_size,
	};
	uint64_t used = out->context_bytes + out->weight_bytes + out->activation_bytes;
	uint64_t rest = out->usable_bytes > used ? out->usable_bytes - used : 0;
	if (rest < out->block_bytes) {
		return error_set(error, STATUS_MEMORY,
			"no KV block fits: %s has %.3f GB, %.3f usable, less context %.3f, weights "
			"of "
			"%s %.3f and activations %.3f, and a block of %u tokens takes %.3f",
			profile->name, (double)total / 1e9, (double)out->usable_bytes / 1e9,
			(double)out->context_bytes / 1e9, model->name,
			(double)out->weight_bytes / 1e9, (double)out->activation_bytes / 1e9,
			engine->block_size, (double)out->block_bytes / 1e9);
	}
	out->block_count = (uint32_t)u64_min(rest / out->block_bytes, BLOCKS_MAX);
	return STATUS_OK;
}
