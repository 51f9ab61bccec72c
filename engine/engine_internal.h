#ifndef ENGINE_ENGINE_INTERNAL_H
#define ENGINE_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "engine/scheduler.h"

/* The definition of struct engine, for engine.c and for tests that inspect its state. */

struct engine {
	struct scheduler scheduler;
	const struct runner *runner; /* borrowed */
	int32_t *token_ids;	     /* (max_num_seqs) sampled in the current step */
};

#endif
