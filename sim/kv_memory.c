#include "sim/kv_memory.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/number.h"
#include "engine/shape/exchange_layout.h"
#include "engine/shape/step_tensors.h"
#include "engine/shape/weight_shape.h"

enum { BLOCKS_MAX = 1 << 28 };

/* The weights of the rank with the most of them. */
static uint64_t most_weight_bytes(const struct model_config *model, uint32_t ranks)
{
	uint64_t most = 0;

	for (uint32_t rank = 0; rank < ranks; rank++) {
		most = u64_max(most, weight_shard_bytes(model, (struct weight_shard){rank, ranks}));
	}
	return most;
}

static enum status refuse(const struct model_config *model, const struct gpu_profile *profile,
	const struct engine_config *engine, const struct kv_memory *memory, struct error *error)
{
	return error_set(error, STATUS_INPUT,
		"no KV block fits: %s has %.3f GB, %.3f usable, less context %.3f, weights of "
		"%s %.3f and activations %.3f, and a block of %u %s takes %.3f",
		profile->name, (double)memory->total_bytes / 1e9,
		(double)memory->usable_bytes / 1e9, (double)memory->context_bytes / 1e9,
		model->name, (double)memory->weight_bytes / 1e9,
		(double)(memory->activation_bytes + memory->exchange_bytes) / 1e9,
		engine->block_size, word_of_count(engine->block_size, "token", "tokens"),
		(double)memory->block_bytes / 1e9);
}

enum status kv_memory_estimate(const struct model_config *model, const struct gpu_profile *profile,
	const struct engine_config *engine, uint64_t utilization, uint32_t ranks,
	struct kv_memory *out, struct error *error)
{
	check(utilization >= 1 && utilization <= 1000000);
	check(engine->block_size >= 1 && engine->max_num_seqs >= 1);
	check(engine->max_num_batched_tokens >= 1 && engine->max_model_len >= 1);
	/* The last rank has the largest share of a vocabulary that cannot be divided evenly. */
	const struct model_config own =
		weight_shard_config(model, (struct weight_shard){ranks - 1, ranks});
	uint64_t total = (uint64_t)profile->memory_bytes;
	struct model_step_limits step = model_step_limits(
		engine->max_num_batched_tokens, engine->max_num_seqs, engine->max_model_len);
	*out = (struct kv_memory){
		.total_bytes = total,
		/* Dividing first avoids an overflow; total < 2^50. */
		.usable_bytes =
			total / 1000000 * utilization + total % 1000000 * utilization / 1000000,
		.context_bytes = (uint64_t)profile->context_bytes,
		.weight_bytes = most_weight_bytes(model, ranks),
		.activation_bytes = step_tensors_bytes(&own, &step),
		.block_bytes = model_config_kv_bytes_per_token(&own) * engine->block_size,
	};
	if (profile->engine_bytes > 0) {
		out->context_bytes = 0;
		out->activation_bytes = (uint64_t)profile->engine_bytes;
	}
	if (ranks > 1) {
		out->exchange_bytes =
			exchange_layout(ranks, model->hidden_size, step.tokens, step.samples).bytes;
	}
	uint64_t used = out->context_bytes + out->weight_bytes + out->activation_bytes +
			out->exchange_bytes;
	uint64_t rest = out->usable_bytes > used ? out->usable_bytes - used : 0;
	if (rest < out->block_bytes) {
		return refuse(model, profile, engine, out, error);
	}
	out->block_count = (uint32_t)u64_min(rest / out->block_bytes, BLOCKS_MAX);
	return STATUS_OK;
}
