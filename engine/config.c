#include "engine/config.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/policy.h"

enum {
	BLOCK_SIZE_MAX = 65536,
	NUM_SEQS_MAX = 65536,
	BLOCKS_MAX = 1 << 28,
	TOKENS_MAX = 1 << 28,
};

static enum status in_range(const char *name, uint32_t value, uint32_t maximum, struct error *error)
{
	if (value < 1 || value > maximum) {
		return error_set(
			error, STATUS_USAGE, "%s is %u, expected 1 to %u", name, value, maximum);
	}
	return STATUS_OK;
}

enum status engine_config_validate(const struct engine_config *config, struct error *error)
{
	const struct {
		const char *name;
		uint32_t value, maximum;
	} limits[] = {
		{"block-size", config->block_size, BLOCK_SIZE_MAX},
		{"kv-blocks", config->kv_block_count, BLOCKS_MAX},
		{"max-num-seqs", config->max_num_seqs, NUM_SEQS_MAX},
		{"max-num-batched-tokens", config->max_num_batched_tokens, TOKENS_MAX},
		{"max-model-len", config->max_model_len, TOKENS_MAX},
	};

	check(config->policy != NULL);
	check(config->further_eos_count <= ENGINE_FURTHER_EOS_MAX);
	for (uint32_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		enum status status =
			in_range(limits[i].name, limits[i].value, limits[i].maximum, error);
		if (status != STATUS_OK) {
			return status;
		}
	}
	if (config->is_async && !config->policy->can_be_async) {
		return error_set(error, STATUS_USAGE,
			"policy %s has no asynchronous scheduling; policy vllm has",
			config->policy->name);
	}
	return config->policy->validate(config, error);
}

enum fit engine_config_fit(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t max_tokens)
{
	check(prompt_tokens >= 1 && prompt_tokens <= UINT32_MAX);
	check(max_tokens >= 1 && max_tokens <= UINT32_MAX);
	return config->policy->fit(config, prompt_tokens, &max_tokens);
}

uint64_t engine_config_answer_limit(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t max_tokens)
{
	(void)config->policy->fit(config, prompt_tokens, &max_tokens);
	return max_tokens;
}
