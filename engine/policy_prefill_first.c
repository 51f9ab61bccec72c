#include "engine/base/integer.h"
#include "engine/policy.h"
#include "engine/scheduler.h"

/* The two phases of nano-vllm: as long as a waiting prompt can be placed whole, a step is all
   prefill; otherwise it is all decode. The sequence limit holds within a step, not over the running
   queue: prompts may be prefilled ahead, and sequences beyond the limit wait for their decodes. */

static enum status prefill_first_validate(const struct engine_config *config, struct error *error)
{
	if (config->max_num_batched_tokens < config->max_model_len) {
		return error_set(error, STATUS_USAGE,
			"policy prefill-first places prompts whole, so it needs "
			"max-num-batched-tokens "
			"(%u) >= max-model-len (%u); policy mixed does not",
			config->max_num_batched_tokens, config->max_model_len);
	}
	return STATUS_OK;
}

/* Every running sequence holds at least one block that no other sequence shares: its last. */
static uint32_t prefill_first_max_running(const struct engine_config *config)
{
	return config->kv_block_count;
}

/* Whether the head of the waiting queue fits; *hits is the number of blocks it would share. If not,
   sets the wait cause. */
static bool can_place_prompt(
	struct scheduler *scheduler, struct sequence *head, uint32_t budget, uint32_t *hits)
{
	const struct block_manager *blocks = &scheduler->blocks;
	bool is_seed = scheduler->config.admission == ADMISSION_SEED;

	if ((is_seed && sequence_num_blocks(head, blocks->block_size) > blocks->free_count) ||
		!scheduler_can_admit(scheduler, head, hits)) {
		scheduler->wait_cause = WAIT_BLOCKS;
		return false;
	}
	uint32_t hit_tokens = is_seed ? 0 : *hits * blocks->block_size;
	if (head->token_count - hit_tokens > budget) {
		scheduler->wait_cause = WAIT_BUDGET;
		return false;
	}
	return true;
}

static void prefill_first_schedule(struct scheduler *scheduler)
{
	uint32_t budget = scheduler->config.max_num_batched_tokens;
	uint32_t limit = scheduler->config.max_num_seqs;
	uint32_t placed = 0;
	uint32_t hits;

	/* Also of sequences that decoding preempts, and of those that arrive later and find the
	   pool used up. */
	scheduler->wait_cause = WAIT_BLOCKS;
	while (scheduler->waiting.head != NULL && placed < limit &&
		can_place_prompt(scheduler, scheduler->waiting.head, budget, &hits)) {
		struct sequence *head = scheduler->waiting.head;
		uint32_t chunk = head->token_count - hits * scheduler->config.block_size;
		scheduler_admit(scheduler, head, hits, chunk);
		budget -= chunk;
		placed++;
	}
	if (placed == limit) {
		scheduler->wait_cause = WAIT_SEATS;
	}
	if (placed == 0) {
		scheduler_place_decodes(scheduler);
	}
}

/* As in policy mixed, but all max_num_seqs seats are free: running sequences occupy none. */
static bool prefill_first_next_step_depends_on_arrivals(const struct scheduler *scheduler)
{
	return scheduler->waiting.count <
	       u32_min(scheduler->config.max_num_seqs, scheduler->blocks.free_count);
}

const struct policy policy_prefill_first = {
	.name = "prefill-first",
	.summary = "nano-vllm's two phases: whole prompts first, then decodes",
	.validate = prefill_first_validate,
	.fit = policy_fit_whole,
	.max_running = prefill_first_max_running,
	.schedule = prefill_first_schedule,
	.next_step_depends_on_arrivals = prefill_first_next_step_depends_on_arrivals,
};
