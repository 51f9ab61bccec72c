#include "engine/policy.h"

#include "engine/base/integer.h"

#include <stddef.h>

/* All policies. Each is defined in a file of its own and needs a row here only. */
#define POLICY_LIST(X)                                                                             \
	X(policy_mixed)                                                                            \
	X(policy_prefill_first)                                                                    \
	X(policy_vllm)

#define POLICY_DECLARATION(row) extern const struct policy row;
POLICY_LIST(POLICY_DECLARATION)
#undef POLICY_DECLARATION

static const struct policy *const policies[] = {
#define POLICY_ADDRESS(row) &row,
	POLICY_LIST(POLICY_ADDRESS)
#undef POLICY_ADDRESS
};

enum { POLICY_COUNT = sizeof(policies) / sizeof(policies[0]) };

uint64_t policy_blocks_of(uint64_t tokens, uint64_t block_size)
{
	return u64_divide_up(tokens - 1, block_size);
}

enum fit policy_fit_whole(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t *max_tokens)
{
	if (prompt_tokens + *max_tokens > config->max_model_len) {
		return FIT_TOO_LONG;
	}
	if (policy_blocks_of(prompt_tokens + *max_tokens, config->block_size) >
		config->kv_block_count - config->strategies.has_null_block) {
		return FIT_NEVER;
	}
	return FIT_OK;
}

const struct policy *policy_at(uint32_t index)
{
	return index < POLICY_COUNT ? policies[index] : NULL;
}
