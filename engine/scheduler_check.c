#include "engine/scheduler.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

static void queue_check(const struct sequence_queue *queue, enum sequence_status status)
{
	const struct sequence *previous = NULL;
	uint32_t count = 0;

	for (const struct sequence *s = queue->head; s != NULL; s = s->next) {
		check(s->previous == previous);
		check(s->status == status);
		check(count < queue->count);
		check((s->row != SEQUENCE_NO_ROW) == (status == SEQUENCE_RUNNING));
		check(status == SEQUENCE_RUNNING || s->block_count == 0);
		check(status == SEQUENCE_RUNNING || !s->is_decoding);
		previous = s;
		count++;
	}
	check(queue->tail == previous);
	check(queue->count == count);
}

static void running_sequence_check(const struct scheduler *scheduler, const struct sequence *s)
{
	struct sequence settled = *s;
	const struct engine_config *config = &scheduler->config;

	sequence_settle(&settled, scheduler->window.clock);
	check(settled.token_count <= settled.token_capacity);
	check(settled.computed_count < settled.token_count);
	check(settled.cached_count <= settled.computed_count || settled.scheduled_count > 0);
	check(settled.cached_count % config->block_size == 0);
	check((uint64_t)settled.block_count * config->block_size >= settled.computed_count);
	check(settled.row < scheduler->max_running);
	for (uint32_t i = 0; i < settled.block_count; i++) {
		check(settled.block_table[i] < config->kv_block_count);
	}
	check(!settled.is_decoding || settled.computed_count + 1 == settled.token_count);
}

/* Every reference to a block is an entry of a running sequence's table, and every row is free or
   belongs to one sequence. */
static void holdings_check(const struct scheduler *scheduler)
{
	const struct block_manager *blocks = &scheduler->blocks;
	uint32_t *held = memory_take(blocks->block_count, sizeof(*held));
	uint64_t *rows = memory_take(scheduler->row_words, sizeof(*rows));
	uint32_t row_count = 0;

	held[0] = blocks->strategies.has_null_block;
	memcpy(rows, scheduler->free_rows, scheduler->row_words * sizeof(*rows));
	for (const struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
		uint64_t bit = UINT64_C(1) << (s->row % 64);
		check((rows[s->row / 64] & bit) == 0);
		rows[s->row / 64] |= bit;
		for (uint32_t i = 0; i < s->block_count; i++) {
			held[s->block_table[i]]++;
		}
	}
	for (uint32_t id = 0; id < blocks->block_count; id++) {
		check(blocks->blocks[id].reference_count == held[id]);
	}
	for (uint32_t word = 0; word < scheduler->row_words; word++) {
		row_count += (uint32_t)__builtin_popcountll(rows[word]);
	}
	check(row_count == scheduler->max_running);
	free(held);
	free(rows);
}

/* The window counts the holders of each block as they are, and no prompt is counted between
   steps. */
static void sharing_check(const struct scheduler *scheduler)
{
	const struct block_sharing *sharing = &scheduler->window.sharing;
	const uint32_t *prompts = scheduler->prompt_sharing.holders;
	uint32_t block_count = scheduler->blocks.block_count;
	uint32_t *held = memory_take(block_count, sizeof(*held));
	uint64_t shared_count = 0, reread_parts = 0, repeat_count = 0;

	for (const struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
		for (uint32_t i = 0; i < s->block_count && s->is_decoding; i++) {
			held[s->block_table[i]]++;
		}
	}
	for (uint32_t id = 0; id < block_count; id++) {
		check(sharing->holders[id] == held[id]);
		shared_count += held[id] > 1 ? held[id] - 1 : 0;
		reread_parts += block_reread_part(held[id]);
		repeat_count += block_repeats(held[id], sharing->readers);
		check(prompts == NULL || prompts[id] == 0);
	}
	check(shared_count == sharing->shared_count);
	check(reread_parts == sharing->reread_parts);
	check(repeat_count == sharing->repeat_count);
	free(held);
}

void scheduler_check(const struct scheduler *scheduler)
{
	block_manager_check(&scheduler->blocks);
	queue_check(&scheduler->waiting, SEQUENCE_WAITING);
	queue_check(&scheduler->running, SEQUENCE_RUNNING);
	queue_check(&scheduler->finished, SEQUENCE_FINISHED);
	queue_check(&scheduler->given, SEQUENCE_FINISHED);
	check(scheduler->running.count <= scheduler->max_running);
	window_check(&scheduler->window, &scheduler->running);
	for (const struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
		running_sequence_check(scheduler, s);
	}
	holdings_check(scheduler);
	sharing_check(scheduler);
}
