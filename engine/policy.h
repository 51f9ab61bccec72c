#ifndef ENGINE_POLICY_H
#define ENGINE_POLICY_H

#include <stdbool.h>

#include "engine/base/status.h"
#include "engine/config.h"

/* A scheduling policy decides which sequences a step computes. Each policy is one file,
   engine/policy_NAME.c, and one row of the table in engine/policy.c. The scheduler carries the
   decisions out (queues, blocks, rows, events), the same for all policies. */

struct scheduler;

/* What a policy sets unless the user does. block_size 0: nothing, the options' defaults hold. */
struct policy_defaults {
	uint32_t block_size, max_num_seqs, max_num_batched_tokens;
	uint32_t gpu_memory_utilization; /* millionths */
	enum allocation allocation;
	enum free_order free_order;
	bool is_async;
	/* these two have no option */
	enum equal_blocks equal_blocks;
	bool has_null_block;
};

struct policy {
	const char *name;
	const char *summary; /* one line for --help */
	struct policy_defaults defaults;

	/* What it demands of a configuration beyond the common ranges. */
	enum status (*validate)(const struct engine_config *config, struct error *error);

	/* Whether a request can be served; may lower *max_tokens, the tokens that its answer ends
	   at. prompt_tokens and *max_tokens in [1, 2^32). */
	enum fit (*fit)(
		const struct engine_config *config, uint64_t prompt_tokens, uint64_t *max_tokens);

	/* Decode rows and prompt chunks share steps. */
	bool mixes_phases;

	/* The most sequences it ever keeps running at once. */
	uint32_t (*max_running)(const struct engine_config *config);

	/* Its decisions are defined where the preceding step is not applied yet (config.is_async).
	 */
	bool can_be_async;

	/* A step may have no row although sequences run or wait. */
	bool may_place_nothing;

	/* Decides one step. Leaves the batch empty only if no sequence can be placed. Sets
	   scheduler->wait_cause where sequences are still waiting. */
	void (*schedule)(struct scheduler *scheduler);

	/* Whether requests that are added before the next step may change what it decides. The
	   queue is first come, first served, so they cannot once waiting.count >= min(free seats,
	   free blocks). A free seat is one sequence short of the policy's limit. Each admission
	   uses a seat and at least one block, so admission ends before it reaches them. */
	bool (*next_step_depends_on_arrivals)(const struct scheduler *scheduler);
};

/* The default; the one that knows more than one admission; vLLM's. */
extern const struct policy policy_mixed;
extern const struct policy policy_prefill_first;
extern const struct policy policy_vllm;

/* The KV blocks that a request of so many tokens (prompt and completion, at least 1) needs to be
   served whole. Its last token is never computed, so it needs no K/V. */
uint64_t policy_blocks_of(uint64_t tokens, uint64_t block_size);

/* The fit of policies that serve requests whole or not at all: FIT_TOO_LONG or FIT_NEVER. */
enum fit policy_fit_whole(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t *max_tokens);

/* All policies by index; NULL past the end. */
const struct policy *policy_at(uint32_t index);

#endif
