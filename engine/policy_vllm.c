#include "engine/base/integer.h"
#include "engine/base/number.h"
#include "engine/policy.h"
#include "engine/scheduler.h"

/* The rules of vLLM's scheduler (release 0.33). There are no phases: a request wants all its tokens
   computed, be they prompt, answer to be computed again, or one new token.

   1. Running sequences get what they want in order of admission, as far as the step's tokens
      suffice, and take blocks for it. Where blocks are missing, sequences are preempted.
   2. A step that preempted admits no sequence.
   3. Else the waiting head is admitted while there are seats and tokens, if the blocks of its whole
      prompt are free. It takes those of its first chunk. */

/* Says what would suffice. usable: blocks. */
static enum status refuse_few_blocks(
	const struct engine_config *config, uint32_t usable, struct error *error)
{
	uint64_t needed = u64_divide_up(config->max_model_len, config->block_size) +
			  config->strategies.has_null_block;
	const char *tokens = word_of_count(config->block_size, "token", "tokens");

	if (usable == 0) { /* of any size */
		return error_set(error, STATUS_USAGE,
			"policy vllm needs KV blocks for one longest request: none of kv-blocks "
			"can be used, and max-model-len is %u; --kv-blocks %llu suffices",
			config->max_model_len, (unsigned long long)needed);
	}
	return error_set(error, STATUS_USAGE,
		"policy vllm needs KV blocks for one longest request: %u of kv-blocks can be used, "
		"of %u %s each, and max-model-len is %u; --kv-blocks %llu, --max-model-len %llu or "
		"a larger --block-size suffices",
		usable, config->block_size, tokens, config->max_model_len,
		(unsigned long long)needed, (unsigned long long)usable * config->block_size);
}

static enum status vllm_validate(const struct engine_config *config, struct error *error)
{
	uint32_t usable = config->kv_block_count - config->strategies.has_null_block;

	if (config->max_num_batched_tokens < config->max_num_seqs) {
		return error_set(error, STATUS_USAGE,
			"policy vllm needs max-num-batched-tokens (%u) >= max-num-seqs (%u)",
			config->max_num_batched_tokens, config->max_num_seqs);
	}
	if (config->has_whole_prompts && config->max_num_batched_tokens < config->max_model_len) {
		return error_set(error, STATUS_USAGE,
			"without chunked prefill policy vllm needs max-num-batched-tokens (%u) >= "
			"max-model-len (%u)",
			config->max_num_batched_tokens, config->max_model_len);
	}
	return (uint64_t)usable * config->block_size < config->max_model_len
		       ? refuse_few_blocks(config, usable, error)
		       : STATUS_OK;
}

/* A prompt must leave room for a token. An answer that reaches max_model_len ends there. */
static enum fit vllm_fit(
	const struct engine_config *config, uint64_t prompt_tokens, uint64_t *max_tokens)
{
	if (prompt_tokens >= config->max_model_len) {
		return FIT_TOO_LONG;
	}
	*max_tokens = u64_min(*max_tokens, config->max_model_len - prompt_tokens);
	return FIT_OK;
}

static uint32_t vllm_max_running(const struct engine_config *config)
{
	return config->max_num_seqs;
}

/* A chunk of at most long_prefill_threshold tokens, unless nobody else is there. */
static uint32_t limit_chunk(const struct engine_config *config, uint32_t tokens, bool is_alone)
{
	return config->long_prefill_threshold == 0 || is_alone
		       ? tokens
		       : u32_min(tokens, config->long_prefill_threshold);
}

static void place_running(struct scheduler *scheduler, bool is_alone)
{
	uint32_t count = scheduler_collect(scheduler);

	for (uint32_t i = 0; i < count; i++) {
		struct sequence *sequence = scheduler->window.due[i];
		if (sequence->status != SEQUENCE_RUNNING || sequence->is_ending) {
			continue; /* preempted before its turn, or its last token is in flight */
		}
		uint32_t wanted = sequence->token_count - sequence->computed_count;
		uint32_t tokens = u32_min(limit_chunk(&scheduler->config, wanted, is_alone),
			scheduler_budget(scheduler, sequence));
		if (tokens > 0) {
			scheduler_place(scheduler, sequence, tokens);
		} else if (sequence->is_decoding) {
			scheduler_stall(scheduler, sequence);
		}
	}
	scheduler_end_decodes(scheduler);
}

/* Tokens of the waiting head's first chunk; 0: it cannot be admitted, for the wait cause that is
   set. */
static uint32_t first_chunk(
	struct scheduler *scheduler, uint32_t budget, bool is_alone, uint32_t *hits)
{
	const struct engine_config *config = &scheduler->config;
	struct sequence *head = scheduler->waiting.head;

	*hits = scheduler_probe(scheduler, head);
	uint32_t cached = *hits * config->block_size;
	uint32_t wanted = limit_chunk(config, head->token_count - cached, is_alone);
	if (config->has_whole_prompts && wanted > budget) {
		scheduler->wait_cause = WAIT_BUDGET;
		return 0;
	}
	uint32_t tokens = u32_min(wanted, budget);
	bool takes_all = config->allocation == ALLOCATION_PROMPT || !config->has_no_full_gate;
	uint32_t needed = takes_all ? head->token_count : cached + tokens;
	uint32_t spare = scheduler->running.count == 0
				 ? 0
				 : (uint32_t)(config->watermark * config->kv_block_count);
	if (!block_manager_can_allocate(&scheduler->blocks, head, *hits, needed, spare)) {
		scheduler->wait_cause = WAIT_BLOCKS;
		return 0;
	}
	return tokens;
}

static void vllm_schedule(struct scheduler *scheduler)
{
	bool is_alone = scheduler->waiting.count + scheduler->running.count <= 1;

	place_running(scheduler, is_alone);
	scheduler->wait_cause = WAIT_BLOCKS;
	if (scheduler->batch.counts.preemptions > 0) {
		return;
	}
	uint32_t budget = scheduler_budget(scheduler, NULL);
	while (scheduler->waiting.head != NULL && budget > 0 &&
		scheduler->running.count < scheduler->config.max_num_seqs) {
		uint32_t hits;
		uint32_t tokens = first_chunk(scheduler, budget, is_alone, &hits);
		if (tokens == 0) {
			return;
		}
		scheduler_admit(scheduler, scheduler->waiting.head, hits, tokens);
		budget -= tokens;
	}
	if (scheduler->running.count == scheduler->config.max_num_seqs) {
		scheduler->wait_cause = WAIT_SEATS;
	} else if (budget == 0) {
		scheduler->wait_cause = WAIT_BUDGET;
	} else if (scheduler->config.is_async) {
		/* Nobody waits but those that arrive before the step ends. */
		scheduler->wait_cause = WAIT_STEP;
	}
}

/* As in policy mixed: an admission uses a seat and at least one free block. But one that arrives
   later may go before those that wait, or shorten the chunk of the only one there. */
static bool vllm_next_step_depends_on_arrivals(const struct scheduler *scheduler)
{
	const struct engine_config *config = &scheduler->config;
	uint32_t admissions = u32_min(
		config->max_num_seqs - scheduler->running.count, scheduler->blocks.free_count);
	uint32_t overtaken = config->queue_order == QUEUE_PRIORITY ? 0 : scheduler->waiting.count;

	return overtaken < admissions || config->long_prefill_threshold > 0;
}

const struct policy policy_vllm = {
	.name = "vllm",
	.summary = "vLLM's rules: a budget of tokens for all, blocks a chunk at a time",
	/* Of its server on an H200. */
	.defaults = {.block_size = 16,
		.max_num_seqs = 1024,
		.max_num_batched_tokens = 8192,
		.gpu_memory_utilization = 920000,
		.allocation = ALLOCATION_CHUNK,
		.free_order = FREE_UNHASHED_FIRST,
		.is_async = true,
		.equal_blocks = EQUAL_OLDEST,
		.has_null_block = true},
	.mixes_phases = true,
	.can_be_async = true,
	.may_place_nothing = true,
	.validate = vllm_validate,
	.fit = vllm_fit,
	.max_running = vllm_max_running,
	.schedule = vllm_schedule,
	.next_step_depends_on_arrivals = vllm_next_step_depends_on_arrivals,
};
