#include "engine/base/integer.h"
#include "engine/policy.h"
#include "engine/scheduler.h"

/* Decode rows and prompt chunks share a step, so a long prompt delays other sequences' next
   tokens by no more than one step's token budget.

   1. Every running sequence gets its token, or the next chunk of its prompt, oldest first.
   2. A step that preempted admits no sequence: the pool is full.
   3. The waiting head is admitted once blocks for all its uncached tokens are free, and gets them.
   4. Chunks fill the token budget, so at most the last running sequence is in mid-prompt. */

static enum status mixed_validate(const struct engine_config *config, struct error *error)
{
	if (config->max_num_batched_tokens < config->max_num_seqs) {
		return error_set(error, STATUS_USAGE,
			"policy mixed gives every running sequence a token each step, so it needs "
			"max-num-batched-tokens (%u) >= max-num-seqs (%u)",
			config->max_num_batched_tokens, config->max_num_seqs);
	}
	return STATUS_OK;
}

static uint32_t mixed_max_running(const struct engine_config *config)
{
	return config->max_num_seqs;
}

static void mixed_schedule(struct scheduler *scheduler)
{
	const struct engine_config *config = &scheduler->config;
	scheduler_place_decodes(scheduler);
	uint32_t budget = config->max_num_batched_tokens - scheduler->window.count;
	struct sequence *last = scheduler->running.tail;

	if (last != NULL && !last->is_decoding) {
		uint32_t chunk = u32_min(last->token_count - last->computed_count, budget);
		budget -= scheduler_place(scheduler, last, chunk) ? chunk : 0;
	}
	scheduler->wait_cause = WAIT_BLOCKS;
	if (scheduler->batch.counts.preemptions > 0) {
		return;
	}
	while (scheduler->waiting.head != NULL && budget > 0 &&
		scheduler->running.count < config->max_num_seqs) {
		struct sequence *head = scheduler->waiting.head;
		uint32_t hits;
		if (!scheduler_can_admit(scheduler, head, &hits)) {
			return;
		}
		uint32_t chunk = u32_min(head->token_count - hits * config->block_size, budget);
		scheduler_admit(scheduler, head, hits, chunk);
		budget -= chunk;
	}
	/* Else the waiting queue is empty. Requests that are added once the step is decided,
	   because they cannot change it, find no block. */
	if (scheduler->running.count == config->max_num_seqs) {
		scheduler->wait_cause = WAIT_SEATS;
	} else if (budget == 0) {
		scheduler->wait_cause = WAIT_BUDGET;
	}
}

/* A free seat is one running sequence short of max_num_seqs. Each admission uses a seat and at
   least one free block, because hits never cover a whole prompt. Within a step neither number grows
   during admission: a preemption frees blocks, but ends admission. So with waiting.count >=
   min(seats, free blocks) no later request is admitted: either one of the waiting ones does not
   fit, or the last of them uses the last seat or block. */
static bool mixed_next_step_depends_on_arrivals(const struct scheduler *scheduler)
{
	uint32_t seats = scheduler->config.max_num_seqs - scheduler->running.count;

	return scheduler->waiting.count < u32_min(seats, scheduler->blocks.free_count);
}

const struct policy policy_mixed = {
	.name = "mixed",
	.summary = "decode rows and prompt chunks share a step (chunked prefill)",
	.mixes_phases = true,
	.validate = mixed_validate,
	.fit = policy_fit_whole,
	.max_running = mixed_max_running,
	.schedule = mixed_schedule,
	.next_step_depends_on_arrivals = mixed_next_step_depends_on_arrivals,
};
