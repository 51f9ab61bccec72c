#ifndef ENGINE_POLICY_H
#define ENGINE_POLICY_H

#include <stdbool.h>

#include "engine/base/status.h"
#include "engine/config.h"

/* A scheduling policy decides which sequences a step computes. Each policy is one file,
   engine/policy_NAME.c, and one row of the table in engine/policy.c. The scheduler carries the
   decisions out (queues, blocks, rows, events), the same for all policies. */

struct scheduler;

struct policy {
	const char *name;
	const char *summary; /* one line for --help */

	/* What it demands of a configuration beyond the common ranges. */
	enum status (*validate)(const struct engine_config *config, struct error *error);

	/* Decode rows and prompt chunks share steps. */
	bool mixes_phases;

	/* The most sequences it ever keeps running at once. */
	uint32_t (*max_running)(const struct engine_config *config);

	/* Decides one step. Leaves the batch empty only if no sequence can be placed. Sets
	   scheduler->wait_cause where sequences are still waiting. */
	void (*schedule)(struct scheduler *scheduler);

	/* Whether requests that are added before the next step may change what it decides. The
	   queue is first come, first served, so they cannot once waiting.count >= min(free seats,
	   free blocks). A free seat is one sequence short of the policy's limit. Each admission
	   uses a seat and at least one block, so admission ends before it reaches them. */
	bool (*next_step_depends_on_arrivals)(const struct scheduler *scheduler);
};

/* The default, and the one that knows more than one admission. Others are found by name. */
extern const struct policy policy_mixed;
extern const struct policy policy_prefill_first;

/* By index for listing (NULL past the end), by name for the command line (NULL: unknown). */
const struct policy *policy_at(uint32_t index);
const struct policy *policy_find(const char *name);

#endif
