#ifndef ENGINE_CONFIG_H
#define ENGINE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

struct policy;

enum { ENGINE_FURTHER_EOS_MAX = 7 };

/* How the size of a waiting prompt is counted at admission (policy prefill-first only). */
enum admission {
	ADMISSION_EXACT, /* only tokens and blocks that are not cached */
	ADMISSION_SEED,	 /* every token and block, as if nothing were cached */
};

/* Off: no block enters the prefix index, so no prompt finds a cached block. */
enum prefix_caching { PREFIX_CACHING_ON, PREFIX_CACHING_OFF };

/* Every limit of the engine. Filled and validated once (engine_config_validate()), then never
   written again. */
struct engine_config {
	const struct policy *policy; /* a row of the policy table, see engine/policy.h */
	enum admission admission;
	enum prefix_caching prefix_caching;
	uint32_t block_size;		 /* tokens a KV block holds, in [1, 65536] */
	uint32_t kv_block_count;	 /* blocks in the KV pool, in [1, 2^28] */
	uint32_t max_num_seqs;		 /* sequences in a step, in [1, 65536] */
	uint32_t max_num_batched_tokens; /* tokens in a step, in [1, 2^28] */
	uint32_t max_model_len;		 /* prompt + output tokens of a sequence, in [1, 2^28] */
	int32_t eos_token_id; /* ends a sequence unless it ignores it; -1: the model has none */
	uint32_t further_eos_count;			 /* at most ENGINE_FURTHER_EOS_MAX */
	int32_t further_eos_ids[ENGINE_FURTHER_EOS_MAX]; /* (further_eos_count) end it too */
};

/* Whether a token ends a sequence that does not ignore EOS. */
static inline bool engine_config_is_eos(const struct engine_config *config, int32_t token)
{
	bool is_eos = config->eos_token_id >= 0 && token == config->eos_token_id;

	for (uint32_t i = 0; i < config->further_eos_count; i++) {
		is_eos = is_eos || token == config->further_eos_ids[i];
	}
	return is_eos;
}

/* Checks every limit's range and the policy's own demands. STATUS_USAGE names the first limit that
   fails. */
enum status engine_config_validate(const struct engine_config *config, struct error *error);

/* Why a request cannot be served under a configuration. A request is never truncated. */
enum fit {
	FIT_OK,
	FIT_TOO_LONG, /* prompt_tokens + max_tokens > max_model_len */
	FIT_NEVER,    /* ceil((prompt_tokens + max_tokens - 1) / block_size) > kv_block_count */
};

/* prompt_tokens and max_tokens in [1, 2^32). */
enum fit engine_config_fit(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t max_tokens);

#endif
