#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/batch.h"
#include "engine/block_manager.h"
#include "engine/config.h"
#include "engine/event.h"
#include "engine/runner.h"
#include "engine/sequence.h"
#include "engine/wait_cause.h"

/* The engine: a scheduler and a runner, one step at a time. It has no clock: a step reports how
   long it took, and the caller keeps the time.

       engine_add ... engine_step ... engine_take_finished ... engine_step ...

   engine_step() is engine_schedule(), engine_execute() and engine_postprocess() in a row, for
   callers with nothing to do in between. */

struct engine;

/* Validates the configuration, which already holds the runner's number of KV blocks. The runner is
   borrowed and outlives the engine. *out is NULL after a failure. */
enum status engine_open(struct engine **out, const struct engine_config *config,
	const struct runner *runner, struct error *error);

/* Accepts NULL. */
void engine_close(struct engine *engine);

/* ---- limits ---- */

/* The configuration that the engine was opened with. */
const struct engine_config *engine_limits(const struct engine *engine);

/* Every sequence slot is below this number. */
uint32_t engine_slot_count(const struct engine *engine);

/* ---- requests ---- */

/* Queues a request, or rejects it. A rejection is an event of the next step, not an error. Room is
   guaranteed while fewer than engine_max_waiting() sequences wait. *slot is the slot of the queued
   sequence, valid until the sequence is recycled; slot may be NULL. */
enum fit engine_add(struct engine *engine, const struct request *request, uint32_t *slot);

/* Keeps the changes of the prefix cache in `log` from now on. */
void engine_set_block_log(struct engine *engine, struct block_log *log);

/* Drops every sequence and all that is cached, as a restart does; steps are counted on. No step may
   be launched. */
void engine_restart(struct engine *engine);

bool engine_has_room(const struct engine *engine);

/* There is room while fewer sequences wait: max_num_seqs, or more where an order or a threshold
   looks at those that wait. */
uint32_t engine_max_waiting(const struct engine *engine);

bool engine_has_work(const struct engine *engine);
uint32_t engine_waiting_count(const struct engine *engine);

/* Requests added whose answers end at max_model_len before max_tokens. */
uint64_t engine_capped_count(const struct engine *engine);

uint32_t engine_used_block_count(const struct engine *engine);

/* Leading blocks of a prompt that the prefix cache has, and in *held those of its first held_count
   blocks that it has and sequences hold. keys: (count). */
uint32_t engine_cached_prefix(const struct engine *engine, const struct block_key *keys,
	uint32_t count, uint32_t held_count, uint32_t *held);

/* The next finished sequence, oldest first, or NULL. It is recycled when a later step is
   postprocessed. */
const struct sequence *engine_take_finished(struct engine *engine);

/* ---- steps ---- */

/* Asynchronous scheduling: a step is decided before the preceding one is postprocessed, and at most
   two are not. engine_execute() and engine_launch() are then of the step decided last,
   engine_collect() and engine_postprocess() of the older one of those not postprocessed. */
bool engine_is_async(const struct engine *engine);

/* Steps that are decided and not postprocessed. */
uint32_t engine_undone_count(const struct engine *engine);

/* Decides a step; NULL when no sequence waits or runs. */
const struct batch *engine_schedule(struct engine *engine);

/* The scheduled step follows one that had just ended and could have been launched before that end:
   a runner that prices steps prices it so. For callers that execute steps one by one, in order of
   their times. */
void engine_set_ahead(struct engine *engine);

/* Whether the steps from now on are proven to repeat without end, and to sample no token, unless a
   request is added (engine/livelock.h). */
bool engine_is_stuck(const struct engine *engine);

/* Of such an engine: how many steps repeat, and the requests that are preempted in them again and
   again: at most `most` of them, and in *count how many there are. */
uint64_t engine_stuck_period(
	const struct engine *engine, uint64_t *requests, uint32_t most, uint32_t *count);

enum status engine_execute(struct engine *engine, struct step_time *time, struct error *error);
void engine_postprocess(struct engine *engine);

/* One whole step; there must be work. Asynchronous: decides and executes one, and postprocesses the
   one before it. */
enum status engine_step(struct engine *engine, struct step_time *time, struct error *error);

/* engine_execute() in two halves, where the runner can overlap steps. A step whose tokens are all
   forced may be postprocessed once it is launched; the next one may then be scheduled and launched
   before the first is collected.

   A launch may take longer than the step in flight before it. So engine_launch() returns in
   mid-launch when that step has ended, if the runner can launch in parts; its tokens may then be
   collected and sent. engine_launch_rest() launches what is left; it is for the caller to call
   soon, and the next engine_launch() or a collection of that step calls it first. */
bool engine_can_overlap(const struct engine *engine);
enum status engine_launch(struct engine *engine, struct error *error);
enum status engine_launch_rest(struct engine *engine, struct error *error);
enum status engine_collect(struct engine *engine, struct step_time *time, struct error *error);

/* Whether requests added before the next step may change its decision. */
bool engine_next_step_depends_on_arrivals(const struct engine *engine);

/* ---- the latest step ---- */

/* The batch, valid until the next step is scheduled. */
const struct batch *engine_batch(const struct engine *engine);

/* (counts.sampled_rows) tokens of a computing runner, valid until the next step is executed. */
const int32_t *engine_token_ids(const struct engine *engine);

/* What a step decided. Counts and events are borrowed. */
struct step_decisions {
	uint64_t step;
	const struct step_counts *counts;
	enum wait_cause wait_cause; /* of the sequences that wait after the step was decided */
	const struct event_list *events;
};

/* Decisions of the step that was postprocessed last, or of one scheduled since. Counts and events
   are valid until the next step is scheduled, the sequences in them until they are recycled.
   Rejections since the preceding step come first. */
struct step_decisions engine_decisions(const struct engine *engine);

/* The same, with the events in a list of the caller, which keeps them. Its older ones are dropped.
   May be asked for once a step. */
struct step_decisions engine_keep_decisions(struct engine *engine, struct event_list *kept);

/* Rejections since the latest step, without counts. They become events of the next step when it is
   scheduled. */
struct step_decisions engine_pending_rejections(const struct engine *engine);

/* Tokens of a sequence after the latest step, whether it is decoding or not. */
uint32_t engine_token_count(const struct engine *engine, const struct sequence *sequence);

/* Verifies every invariant; a breach is a failed check. */
void engine_check(const struct engine *engine);

#endif
