#ifndef ENGINE_LIVELOCK_H
#define ENGINE_LIVELOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/scheduler.h"

/* Proves that a scheduler will never serve anybody again.

   vLLM's rules allow it: a request is admitted for its first chunk, and preempted before the rest
   fits, while the one that preempted it is preempted in turn. Steps go on, and no token is new.

   A decision depends on the scheduler's state alone: queues in order, tokens computed, block
   tables, the order of free blocks and what is cached in them, and steps that are decided and not
   applied. So if a state returns, all that lay between will happen again, and again, until a
   request is added. States are compared whole, number by number, so there is no false alarm; none
   is missed either, since a state that will return for ever returns to the one that was kept (kept
   anew after 2^n steps, as in Brent's search for cycles).

   Only steps without a sampled token are looked at, from the LIVELOCK_QUIET-th in a row on: tokens
   end sooner or later, so in a livelock none is sampled. With EVICTION_RANDOM each draw is new and
   no state returns; nothing is proven then. */

enum { LIVELOCK_QUIET = 256 };

struct livelock_state {
	uint64_t *numbers; /* (count) */
	size_t count, capacity;
	uint64_t digest;
};

struct livelock {
	uint64_t quiet; /* steps in a row that sampled nothing */
	bool is_proven;
	uint64_t kept_at, period; /* in steps; period: of the proof */
	struct livelock_state kept, current;
	/* (request_count) preemptions of those that run, then those that wait, in the kept state */
	uint32_t *preemptions;
	size_t request_count, request_capacity;
};

void livelock_deinit(struct livelock *livelock);

/* Forgets what was seen: a request was added. */
void livelock_reset(struct livelock *livelock);

/* livelock_look() where it may find something. */
bool livelock_search(struct livelock *livelock, const struct scheduler *scheduler);

/* To be called once after each step that was decided, always at the same point between two. Returns
   is_proven. */
static inline bool livelock_look(struct livelock *livelock, const struct scheduler *scheduler)
{
	return (livelock->quiet > 0 || scheduler->batch.counts.sampled_rows == 0) &&
	       livelock_search(livelock, scheduler);
}

/* Requests that are preempted again and again, of a proof: writes at most `most` numbers, returns
   how many there are. */
uint32_t livelock_preempted(const struct livelock *livelock, const struct scheduler *scheduler,
	uint64_t *requests, uint32_t most);

#endif
