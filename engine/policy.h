#ifndef ENGINE_POLICY_H
#define ENGINE_POLICY_H

#include <stdbool.h>

#include "engine/base/status.h"
#include "engine/config.h"

/* A scheduling policy decides which sequences a step computes. Each is one file,
   engine/policy_NAME.c, and one row of the table in engine/policy.c; what a decision means (queues,
   blocks, rows, events) is the scheduler's and shared by all. */

struct scheduler;

struct policy {
	const char *name;
	const char *summary; /* one line for --help */

	/* What it demands of a configuration beyond the common ranges. */
	enum status (*validate)(const struct engine_config *config, struct error *error);

	/* The most sequences it ever keeps running at once. */
	uint32_t (*max_running)(const struct engine_config *config);

	/* Decides one step; leaves the batch empty only if nothing can be placed. */
	void (*schedule)(struct scheduler *scheduler);

	/* Asked between two steps: false only if the next one is decided the same whatever is added
	   to the waiting queue before it. Everybody who waits is looked at first, so it is enough
	   that they stop at one of them, or leave nothing to those behind. */
	bool (*is_open)(const struct scheduler *scheduler);
};

extern const struct policy policy_prefill_first;
extern const struct policy policy_mixed;

/* By index for listing (NULL past the end), by name for the command line (NULL: unknown). */
const struct policy *policy_at(uint32_t index);
const struct policy *policy_find(const char *name);

#endif
