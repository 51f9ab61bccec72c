#ifndef TESTS_MODELS_VLLM_DRIVE_H
#define TESTS_MODELS_VLLM_DRIVE_H

#include "engine/scheduler.h"
#include "tests/models/vllm_model.h"

/* Runs the engine's scheduler under policy vllm, and says in the words of its model what each step
   did. */

/* Where a sampled token comes from. The decisions must not depend on it. */
enum vllm_feeding {
	VLLM_SAMPLED, /* it comes back as if sampled */
	VLLM_FORCED,  /* it is known in advance, and the runner computes */
	VLLM_COUNTED, /* it is known in advance, and the runner computes nothing */
	VLLM_FEEDINGS,
};

struct vllm_drive {
	struct scheduler real;
	enum vllm_feeding feeding;
	const struct vllm_request *requests[VLLM_REQUESTS];
	struct vllm_list backlog;	  /* added, and not in the scheduler's waiting queue yet */
	uint32_t answered[VLLM_REQUESTS]; /* of requests that finished */
	bool is_finished[VLLM_REQUESTS];
	uint32_t computed_high[VLLM_REQUESTS]; /* tokens of a request that rows have reached */
	struct vllm_step now;
	struct vllm_step before; /* asynchronous: decided and not applied */
	bool has_before;
};

/* The configuration that the rules describe. */
struct engine_config vllm_engine_config(const struct vllm_rules *rules);

void vllm_drive_init(
	struct vllm_drive *drive, const struct vllm_rules *rules, enum vllm_feeding feeding);
void vllm_drive_deinit(struct vllm_drive *drive);

/* As in the model (tests/models/vllm_model.h). */
void vllm_drive_add(struct vllm_drive *drive, uint32_t id, const struct vllm_request *request);
void vllm_drive_step(struct vllm_drive *drive, uint32_t step);

/* Blocks of the free list from front to back. */
void vllm_drive_free_list(const struct vllm_drive *drive, struct vllm_list *list);

#endif
