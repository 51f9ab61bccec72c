#ifndef ENGINE_ENGINE_INTERNAL_H
#define ENGINE_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "engine/livelock.h"
#include "engine/scheduler.h"

/* The definition of struct engine, for engine.c and for tests that inspect its state. */

struct engine {
	struct scheduler scheduler;
	struct livelock livelock;
	const struct runner *runner; /* borrowed */
	/* (max_num_seqs) sampled in a step; by the parity of its number, since with asynchronous
	   scheduling two steps are decided and not applied */
	int32_t *token_ids[2];
	bool has_applied_before; /* the step applied last is scheduler.before */
	uint32_t flying_count;	 /* steps that the runner has launched and not collected */
	bool is_launching;	 /* parts of the latest may be left */
};

#endif
