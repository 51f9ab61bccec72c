#ifndef TESTS_MODELS_SCHEDULER_MODEL_H
#define TESTS_MODELS_SCHEDULER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/scheduler.h"
#include "tests/models/block_model.h"

/* The scheduler and its policies as their definition reads: a loop over every sequence in every
   step, everything counted anew, no clocks, no wheel, no remembered hashes or probes. It decides
   a step, gets the sampled tokens, and says what the real one must have done. */

enum {
	MODEL_SEQUENCES = 64,
	MODEL_EVENTS = 4096,
};

struct model_sequence {
	uint64_t request;
	int32_t tokens[BLOCK_MODEL_TOKENS]; /* (token_count) */
	uint32_t token_count;
	uint32_t prompt_count;
	uint32_t max_tokens;
	bool ignore_eos;
	uint32_t cached, computed, computed_high, preemptions;
	bool is_prompt_computed; /* every token it was admitted with is computed */
	uint32_t row;
	struct block_model_table table;
};

/* Indexes of sequences, first in first out. */
struct model_queue {
	uint32_t items[MODEL_SEQUENCES];
	uint32_t count;
};

struct model_event {
	enum event_kind kind;
	uint64_t request, a, b;
	bool is_sampled;
};

struct model_row {
	uint32_t sequence;
	uint32_t first, count;
	bool is_decode, is_sampled;
};

struct scheduler_model {
	struct engine_config config;
	bool is_mixed;
	uint32_t max_running;
	struct block_model blocks;
	struct model_sequence sequences[MODEL_SEQUENCES]; /* (sequence_count) in order of adding */
	uint32_t sequence_count;
	struct model_queue waiting, running, finished;

	/* the current step */
	struct model_row rows[MODEL_SEQUENCES]; /* (row_count) */
	uint32_t row_count;
	struct prefill_spread spread;
	uint32_t readers; /* of a block, that one reading serves; 0: not known */
	struct model_event events[MODEL_EVENTS]; /* (event_count) */
	uint32_t event_count;
	struct step_counts counts;
	enum wait_cause wait_cause; /* of the head of the waiting queue, if there is one */
};

void scheduler_model_init(struct scheduler_model *model, const struct engine_config *config);
void scheduler_model_deinit(struct scheduler_model *model);

void scheduler_model_add(struct scheduler_model *model, const struct request *request);
void scheduler_model_schedule(struct scheduler_model *model);

/* token_ids: (counts.sampled_rows) in row order. */
void scheduler_model_postprocess(struct scheduler_model *model, const int32_t *token_ids);

/* Demands that a scheduler that was given the same is in the same state: events, counts, queues,
   tables, rows, books, and the batch if it computes. After scheduling or after postprocess. */
void scheduler_model_require_same(
	const struct scheduler_model *model, const struct scheduler *real, bool is_scheduled);

#endif
