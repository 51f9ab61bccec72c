#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"
#include "engine/block_manager.h"
#include "engine/config.h"
#include "engine/event.h"
#include "engine/sequence_queue.h"
#include "engine/wait_cause.h"
#include "engine/window.h"

/* Queues of sequences and the moves between them.

       add ─► waiting ──admit──► running ──finish──► finished ─► given ─► unused
                 ▲ head             │ tail
                 └─────preempt──────┘

   The running queue is in order of admission. Its leading sequences whose prompts are computed form
   the decode window (engine/window.h): each decode pass gives every one of them a token. A runner
   that computes needs every row filled, so for it a pass visits the whole window; otherwise it
   visits only the sequences that need something. The decisions are the same. */

/* A row of the current step, in queue order: every prefill row, and the decode rows that are due
   (all of them for a computing runner). */
struct placement {
	struct sequence *sequence;
	uint32_t first; /* tokens [first, first + count) are computed */
	uint32_t count;
	bool is_decode;
	bool is_sampled; /* ends in a sampled token */
};

struct scheduler {
	struct engine_config config;
	struct block_manager blocks;
	bool is_computing; /* fill rows and tokens of the batch */
	uint32_t max_running;

	struct sequence *pool; /* (pool_capacity), the first pool_count ever used */
	uint32_t pool_capacity;
	uint32_t pool_count;
	struct sequence_queue unused, waiting, running, finished;
	struct sequence_queue given; /* finished, given to the caller, not recycled yet */

	struct decode_window window;
	bool has_decode_pass; /* this step decodes */

	uint64_t *free_rows; /* (row_words) bit set: row is free; the lowest is used first */
	uint32_t row_words;
	uint64_t admission_count;

	struct placement *placements; /* (max_num_seqs) of the current step */
	uint32_t placement_count;
	uint32_t placement_capacity;

	uint64_t step; /* number of the step in progress, or of the next one */
	struct batch batch;
	/* Why admission ended in this step. Set by the policy; it has a meaning only while
	   sequences wait. */
	enum wait_cause wait_cause;
	struct event_list events;
	bool events_are_past; /* the list belongs to a step that has been postprocessed */
};

void scheduler_init(
	struct scheduler *scheduler, const struct engine_config *config, bool is_computing);
void scheduler_deinit(struct scheduler *scheduler);

/* Room for another sequence in the pool. */
bool scheduler_can_add(const struct scheduler *scheduler);

/* Appends a request that fits the configuration to the waiting queue. Forced tokens end a sequence
   at an EOS among them unless it ignores it; without forced tokens the runner must compute. Returns
   the slot of the new sequence. */
uint32_t scheduler_add(struct scheduler *scheduler, const struct request *request);

/* Records a rejection. It is an event of the step that is decided and not postprocessed yet, or
   else of the next step; in both cases it precedes the step's other events. */
void scheduler_reject(struct scheduler *scheduler, const struct request *request, enum fit fit);

/* Decides the next step: fills batch and events. The batch has no rows when nothing waits or runs.
 */
void scheduler_schedule(struct scheduler *scheduler);

/* Applies a step's outcome: appends a token to every sampled row (from token_ids, or the forced
   one) and finishes the sequences that are complete. token_ids: (counts.sampled_rows) or NULL when
   nothing was computed. Events of finishing are added to the step's events. */
void scheduler_postprocess(struct scheduler *scheduler, const int32_t *token_ids);

/* The next finished sequence, oldest first, or NULL. It is recycled when a later step is
   postprocessed. */
const struct sequence *scheduler_take_finished(struct scheduler *scheduler);

/* Verifies every invariant of queues, window, rows, sequences and block manager
   (engine/scheduler_check.c). A breach is a failed check. */
void scheduler_check(const struct scheduler *scheduler);

/* ---- for policies ---- */

/* Gives every sequence of the window its token, oldest first, and registers the blocks that this
   fills. Where a block is missing, sequences are preempted from the back of the running queue; the
   sequence that needs the block is the last to go. Returns the number of preemptions. */
uint32_t scheduler_place_decodes(struct scheduler *scheduler);

/* Whether blocks are free for a waiting sequence's uncached tokens; *hit_count is the number of
   leading blocks it would share. The answer is cached until the pool changes. */
bool scheduler_can_admit(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t *hit_count);

/* Moves the head of the waiting queue to the back of the running queue with blocks for all its
   tokens, `hit_count` of them shared. */
void scheduler_admit(struct scheduler *scheduler, struct sequence *sequence, uint32_t hit_count);

/* Places the next `count` tokens of a sequence's prompt and registers the blocks they fill. */
void scheduler_place_chunk(struct scheduler *scheduler, struct sequence *sequence, uint32_t count);

#endif
