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

   The running queue is in order of admission. Its sequences whose prompts are computed form the
   decode window (engine/window.h): each decode pass gives every one of them a token. A runner that
   computes needs every row filled, so for it a pass visits the whole window; otherwise it visits
   only the sequences that need something. The decisions are the same. */

/* A row of the current step, in queue order: every prefill row, and the decode rows that are due
   (all of them for a computing runner). */
struct placement {
	struct sequence *sequence;
	uint32_t first; /* tokens [first, first + count) are computed */
	uint32_t count;
	bool is_decode;
	bool is_sampled; /* ends in a sampled token */
	uint32_t sample; /* which of a computing runner's tokens that is */
};

/* A step that is decided: what is kept of it until it is applied. */
struct decided_step {
	bool is_undone; /* decided, and not applied yet */
	uint64_t step;
	struct step_counts counts;
	enum wait_cause wait_cause;
	struct event_list events;
	struct placement *placements; /* (placement_count) */
	uint32_t placement_count;
};

struct scheduler {
	struct engine_config config;
	struct block_manager blocks;
	bool is_computing; /* fill rows and tokens of the batch */
	uint32_t max_running;
	uint32_t max_waiting; /* sequences that it takes before it has admitted some */

	struct sequence *pool; /* (pool_capacity), the first pool_count ever used */
	uint32_t pool_capacity;
	uint32_t pool_count;
	struct sequence_queue unused, waiting, running, finished;
	struct sequence_queue given;   /* finished, given to the caller, not recycled yet */
	struct sequence_queue retired; /* is_async: given before the latest step was applied */

	struct decode_window window;
	bool has_decode_pass; /* this step decodes */

	uint64_t *free_rows; /* (row_words) bit set: row is free; the lowest is used first */
	uint32_t row_words;
	uint64_t admission_count;
	uint64_t capped_count; /* requests whose answers end at max_model_len */

	/* A step that no arrival can change may be decided before or after some arrive. So what
	   they say is stored is entered behind its decision. */
	bool has_newcomers;	  /* a request was added since the latest step was applied */
	bool stores_behind;	  /* has_newcomers: the next step cannot depend on them */
	struct sequence **stores; /* (store_count) added, to be entered behind the next decision */
	size_t store_count, store_capacity;

	/* A step's tokens may run out before its decodes are placed, so each of them is visited. */
	bool visits_all;
	uint32_t placed_decodes;      /* of the current step, where all are visited */
	struct placement *placements; /* (max_num_seqs) of the current step */
	uint32_t placement_count;
	uint32_t placement_capacity;
	struct prefill_spread spread;	     /* of the runner; set after scheduler_init() */
	uint32_t *tiles;		     /* room for those of a step */
	struct block_sharing prompt_sharing; /* of a step's prefill rows; empty between steps,
						and until some share */

	uint64_t step; /* number of the step in progress, or of the next one */
	struct batch batch;
	/* Why admission ended in this step. Set by the policy; it has a meaning only while
	   sequences wait. */
	enum wait_cause wait_cause;
	struct event_list events;
	bool events_are_past; /* the list belongs to a step that has been postprocessed */

	/* is_async: the step before the latest one. The latest has its decisions above, and is
	   undone until it is here. */
	bool is_undone; /* the latest step is decided, and not applied */
	struct decided_step before;
};

void scheduler_init(
	struct scheduler *scheduler, const struct engine_config *config, bool is_computing);
void scheduler_deinit(struct scheduler *scheduler);

/* Room for another sequence in the pool. */
bool scheduler_can_add(const struct scheduler *scheduler);

/* Appends a request that fits the configuration to the waiting queue. Forced tokens end a sequence
   at an EOS among them unless it ignores it; without forced tokens the runner must compute. Stored
   tokens are entered at once or, where the next step cannot depend on arrivals, behind its
   decision. Returns the slot of the new sequence. */
uint32_t scheduler_add(struct scheduler *scheduler, const struct request *request);

/* Records a rejection. It is an event of the step that is decided and not postprocessed yet, or
   else of the next step; in both cases it precedes the step's other events. */
void scheduler_reject(struct scheduler *scheduler, const struct request *request, enum fit fit);

/* Decides the next step: fills batch and events. The batch has no rows when nothing waits or runs.
   With is_async at most two steps are decided and not applied. */
void scheduler_schedule(struct scheduler *scheduler);

/* Applies a step's outcome: appends a token to every sampled row (from token_ids, or the forced
   one) and finishes the sequences that are complete. token_ids: (counts.sampled_rows) or NULL when
   nothing was computed. Events of finishing are added to the step's events. With is_async the older
   step that is decided and not applied: its sampled_rows count, and its events are in `before`. */
void scheduler_postprocess(struct scheduler *scheduler, const int32_t *token_ids);

/* Steps that are decided and not applied: at most 1, with is_async 2. */
uint32_t scheduler_undone_count(const struct scheduler *scheduler);

/* The next finished sequence, oldest first, or NULL. It is recycled when a later step is
   postprocessed. */
const struct sequence *scheduler_take_finished(struct scheduler *scheduler);

/* Verifies every invariant of queues, window, rows, sequences and block manager
   (engine/scheduler_check.c). A breach is a failed check. */
void scheduler_check(const struct scheduler *scheduler);

/* ---- for policies ---- */

/* Gives every sequence of the window its token, oldest first, and registers the blocks that this
   fills. Where a block is missing, sequences are preempted from the back of the running queue; the
   sequence that needs the block is the last to go. */
void scheduler_place_decodes(struct scheduler *scheduler);

/* The running sequences that need something in this step, in queue order: those in mid-prompt, and
   those of the window that are due or, with visits_all, all of it. Returns their number; they are
   in window.due. Places each with scheduler_place(), or gives it no token with scheduler_stall();
   then ends the pass. */
uint32_t scheduler_collect(struct scheduler *scheduler);

/* Tokens of the step that are not spent when a collected sequence is reached. NULL: when all are
   placed. */
uint32_t scheduler_budget(const struct scheduler *scheduler, const struct sequence *sequence);

/* Places the next `count` tokens of a running sequence, with the blocks they need, and registers
   those they fill. Where blocks are missing, sequences are preempted in the configured order;
   false: it was preempted itself. A sequence that is preempted loses its row of this step. */
bool scheduler_place(struct scheduler *scheduler, struct sequence *sequence, uint32_t count);

void scheduler_stall(struct scheduler *scheduler, struct sequence *sequence);

void scheduler_end_decodes(struct scheduler *scheduler);

/* Leading blocks of a waiting sequence that it would share. */
uint32_t scheduler_probe(const struct scheduler *scheduler, struct sequence *sequence);

/* Whether blocks are free for a waiting sequence's uncached tokens; *hit_count is the number of
   leading blocks it would share. The answer is cached until the pool changes. */
bool scheduler_can_admit(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t *hit_count);

/* Moves the head of the waiting queue to the back of the running queue, and places the first
   `count` of its uncached tokens. It gets `hit_count` shared blocks, and new ones for all its
   tokens or, with ALLOCATION_CHUNK, for those that are placed. */
void scheduler_admit(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t hit_count, uint32_t count);

#endif
