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

/* In which order requests are admitted, and who is preempted when blocks are missing. */
enum queue_order {
	QUEUE_FCFS,	/* in order of arrival; the latest admission is preempted */
	QUEUE_PRIORITY, /* smallest (priority, arrival, id) first; the largest is preempted */
};

/* When a prompt takes its KV blocks. */
enum allocation {
	ALLOCATION_PROMPT, /* all of them when it is admitted */
	ALLOCATION_CHUNK,  /* those that each chunk fills */
};

/* Where a released block joins the free list, whose head is given out next. */
enum free_order {
	FREE_BACK,	     /* the back */
	FREE_UNHASHED_FIRST, /* the front if its content cannot be found, else the back */
};

/* Which free block is given out next, of those that joined the back of the free list. */
enum eviction {
	EVICTION_LRU,	 /* the one released first */
	EVICTION_FIFO,	 /* the one whose content was registered first; before all, those without */
	EVICTION_RANDOM, /* any, by a hash of the number of blocks given out before */
};

/* Which of several blocks with equal content a prompt finds. */
enum equal_blocks {
	EQUAL_NEWEST, /* the one registered last; older ones are not found again */
	EQUAL_OLDEST, /* the one registered first of those that still hold it */
};

/* How the block manager does what the rules of a policy leave open. All zero: as nano-vllm. */
struct block_strategies {
	enum free_order free_order;
	enum equal_blocks equal_blocks;
	enum eviction eviction;
	bool has_null_block; /* block 0 is never given out */
};

/* Off: no block enters the prefix index, so no prompt finds a cached block. */
enum prefix_caching { PREFIX_CACHING_ON, PREFIX_CACHING_OFF };

/* Every limit of the engine. Filled and validated once (engine_config_validate()), then never
   written again. */
struct engine_config {
	const struct policy *policy; /* a row of the policy table, see engine/policy.h */
	enum admission admission;
	enum prefix_caching prefix_caching;
	enum allocation allocation;
	struct block_strategies strategies;
	uint32_t block_size;	 /* tokens a KV block holds, in [1, 65536] */
	uint32_t kv_block_count; /* blocks in the KV pool, with the null block, in [1, 2^28] */
	uint32_t max_num_seqs;	 /* sequences in a step, in [1, 65536] */
	uint32_t max_num_batched_tokens; /* tokens in a step, in [1, 2^28] */
	uint32_t max_model_len;		 /* prompt + output tokens of a sequence, in [1, 2^28] */
	int32_t eos_token_id; /* ends a sequence unless it ignores it; -1: the model has none */
	/* A step is decided before the preceding one is applied: its sampled tokens are not known
	   yet, and the sequences that they end still run. Policy vllm only. */
	bool is_async;
	/* of policy vllm only */
	enum queue_order queue_order;
	bool has_whole_prompts;		 /* a prompt is not cut into chunks */
	bool has_no_full_gate;		 /* admission asks for the blocks of the first chunk only */
	uint32_t long_prefill_threshold; /* tokens of a chunk beside other requests; 0: no limit */
	double watermark;	    /* share of the blocks that admission leaves free, in [0, 1) */
	uint32_t further_eos_count; /* at most ENGINE_FURTHER_EOS_MAX */
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

/* Why a request cannot be served under a configuration. Policies mixed and prefill-first serve a
   request whole or not at all; with policy vllm an answer ends at max_model_len. */
enum fit {
	FIT_OK,
	/* prompt_tokens + max_tokens > max_model_len; vllm: prompt_tokens >= max_model_len */
	FIT_TOO_LONG,
	/* ceil((prompt_tokens + max_tokens - 1) / block_size) > blocks that can be used; vllm:
	   never, since max_model_len tokens fit */
	FIT_NEVER,
};

/* prompt_tokens and max_tokens in [1, 2^32). */
enum fit engine_config_fit(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t max_tokens);

/* Tokens at which the answer of a request that fits ends: max_tokens or fewer. */
uint64_t engine_config_answer_limit(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t max_tokens);

#endif
