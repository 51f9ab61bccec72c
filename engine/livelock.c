#include "engine/livelock.h"

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

void livelock_deinit(struct livelock *livelock)
{
	free(livelock->kept.numbers);
	free(livelock->current.numbers);
	free(livelock->preemptions);
	memset(livelock, 0, sizeof(*livelock));
}

void livelock_reset(struct livelock *livelock)
{
	livelock->quiet = 0;
	livelock->is_proven = false;
}

/* ---- a state as numbers ---- */

static void put(struct livelock_state *state, uint64_t number)
{
	if (state->count == state->capacity) {
		state->numbers = memory_grow(state->numbers, &state->capacity, state->count + 1,
			sizeof(*state->numbers));
	}
	state->numbers[state->count++] = number;
}

/* Passes that a decoding sequence has not been brought up to yet. */
static uint32_t passes_of(const struct scheduler *scheduler, const struct sequence *sequence)
{
	return sequence->is_decoding ? (uint32_t)(scheduler->window.clock - sequence->decode_clock)
				     : 0;
}

static void put_sequence(struct livelock_state *state, const struct scheduler *scheduler,
	const struct sequence *sequence)
{
	uint32_t passes = passes_of(scheduler, sequence);

	put(state, sequence->request);
	put(state, (uint64_t)sequence->token_count + passes);
	put(state, (uint64_t)sequence->computed_count + passes);
	put(state, sequence->computed_high);
	put(state, sequence->cached_count);
	put(state, sequence->scheduled_count);
	put(state, sequence->registered_count);
	put(state, (uint64_t)sequence->is_prompt_computed | (uint64_t)sequence->is_decoding << 1 |
			   (uint64_t)sequence->is_ending << 2 |
			   (uint64_t)sequence->is_outside << 3);
	put(state, sequence->block_count);
	for (uint32_t i = 0; i < sequence->block_count; i++) {
		put(state, sequence->block_table[i]);
	}
}

static void put_queue(struct livelock_state *state, const struct scheduler *scheduler,
	const struct sequence_queue *queue)
{
	put(state, queue->count);
	for (const struct sequence *s = queue->head; s != NULL; s = s->next) {
		put_sequence(state, scheduler, s);
	}
}

static void put_placements(struct livelock_state *state, const struct placement *placements,
	uint32_t count, bool is_undone)
{
	put(state, is_undone ? count : UINT64_MAX);
	for (uint32_t i = 0; is_undone && i < count; i++) {
		put(state, placements[i].sequence->request);
		put(state, placements[i].first);
		put(state, placements[i].count);
		put(state, (uint64_t)placements[i].is_decode | (uint64_t)placements[i].is_sampled
								       << 1);
	}
}

struct registered {
	uint64_t registration;
	uint32_t block;
};

static int by_registration(const void *a, const void *b)
{
	const struct registered *x = a, *y = b;

	return (x->registration > y->registration) - (x->registration < y->registration);
}

/* The order of registration, which alone counts with EVICTION_FIFO: ordinals grow for ever. */
static void put_registrations(struct livelock_state *state, const struct block_manager *blocks)
{
	struct registered *all = memory_take(blocks->block_count, sizeof(*all));

	for (uint32_t i = 0; i < blocks->block_count; i++) {
		all[i] = (struct registered){blocks->places[i].registration, i};
	}
	qsort(all, blocks->block_count, sizeof(*all), by_registration);
	for (uint32_t i = 0; i < blocks->block_count; i++) {
		bool is_registered = all[i].registration > 0;
		put(state, is_registered ? all[i].block : UINT64_MAX);
	}
	free(all);
}

static void put_blocks(struct livelock_state *state, const struct block_manager *blocks)
{
	for (uint32_t i = 0; i < blocks->block_count; i++) {
		const struct block *block = &blocks->blocks[i];
		put(state, block->reference_count);
		put(state, (uint64_t)block->is_registered | (uint64_t)block->is_indexed << 1 |
				   (uint64_t)block->is_free << 2);
		if (block->is_registered) {
			put(state, block->key.low);
			put(state, block->key.high);
			bool is_linked = block->is_indexed && blocks->equals != NULL;
			put(state, is_linked ? blocks->equals[i].next : 0);
		}
	}
	for (uint32_t id = blocks->free_head; id != BLOCK_NONE; id = blocks->links[id].next) {
		put(state, id);
	}
	put(state, BLOCK_NONE);
	for (uint32_t i = 0; i < blocks->pile_count; i++) {
		put(state, blocks->pile[i]);
	}
	if (blocks->strategies.eviction == EVICTION_FIFO) {
		put_registrations(state, blocks);
	}
}

static void write_state(struct livelock_state *state, const struct scheduler *scheduler)
{
	const struct decided_step *before = &scheduler->before;

	state->count = 0;
	put_queue(state, scheduler, &scheduler->running);
	put_queue(state, scheduler, &scheduler->waiting);
	put_placements(
		state, scheduler->placements, scheduler->placement_count, scheduler->is_undone);
	put_placements(state, before->placements, before->placement_count, before->is_undone);
	put_blocks(state, &scheduler->blocks);
}

/* Differs between most states that differ, and takes no time. */
static uint64_t digest_of(const struct scheduler *scheduler)
{
	uint64_t digest = counter_key(scheduler->running.count, scheduler->waiting.count);

	digest = counter_hash(digest, scheduler->blocks.free_count);
	for (const struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
		digest = counter_hash(digest, s->request);
		digest =
			counter_hash(digest, (uint64_t)s->computed_count + passes_of(scheduler, s));
	}
	return digest;
}

/* ---- the search ---- */

static void note_preemptions(struct livelock *livelock, const struct sequence_queue *queue)
{
	for (const struct sequence *s = queue->head; s != NULL; s = s->next) {
		livelock->preemptions =
			memory_grow(livelock->preemptions, &livelock->request_capacity,
				livelock->request_count + 1, sizeof(*livelock->preemptions));
		livelock->preemptions[livelock->request_count++] = s->preemption_count;
	}
}

static void keep(struct livelock *livelock, const struct scheduler *scheduler, uint64_t digest)
{
	write_state(&livelock->kept, scheduler);
	livelock->kept.digest = digest;
	livelock->kept_at = livelock->quiet;
	livelock->request_count = 0;
	note_preemptions(livelock, &scheduler->running);
	note_preemptions(livelock, &scheduler->waiting);
}

static bool is_kept_state(struct livelock *livelock, const struct scheduler *scheduler)
{
	write_state(&livelock->current, scheduler);
	return livelock->current.count == livelock->kept.count &&
	       memcmp(livelock->current.numbers, livelock->kept.numbers,
		       livelock->kept.count * sizeof(*livelock->kept.numbers)) == 0;
}

bool livelock_search(struct livelock *livelock, const struct scheduler *scheduler)
{
	if (scheduler->batch.counts.sampled_rows > 0) {
		livelock_reset(livelock);
		return false;
	}
	livelock->quiet++;
	if (livelock->is_proven || livelock->quiet < LIVELOCK_QUIET ||
		scheduler->blocks.strategies.eviction == EVICTION_RANDOM) {
		return livelock->is_proven;
	}
	uint64_t digest = digest_of(scheduler);
	if ((livelock->quiet & (livelock->quiet - 1)) == 0) {
		keep(livelock, scheduler, digest);
	} else if (digest == livelock->kept.digest && is_kept_state(livelock, scheduler)) {
		livelock->is_proven = true;
		livelock->period = livelock->quiet - livelock->kept_at;
	}
	return livelock->is_proven;
}

uint32_t livelock_preempted(const struct livelock *livelock, const struct scheduler *scheduler,
	uint64_t *requests, uint32_t most)
{
	const struct sequence_queue *const queues[] = {&scheduler->running, &scheduler->waiting};
	uint32_t count = 0;
	size_t at = 0;

	for (uint32_t i = 0; i < 2; i++) {
		for (const struct sequence *s = queues[i]->head;
			s != NULL && at < livelock->request_count; s = s->next) {
			bool is_one = s->preemption_count != livelock->preemptions[at++];
			if (is_one && count < most) {
				requests[count] = s->request;
			}
			count += is_one;
		}
	}
	return count;
}
