#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/runner.h"
#include "engine/scheduler.h"

/* The engine: a scheduler and a runner, one step at a time. It has no clock: a step reports how
   long it took, and whoever calls owns the time.

       engine_add ... engine_step ... engine_take_finished ... engine_step ...

   engine_step() is engine_schedule(), engine_execute() and engine_postprocess() in a row, for
   callers that have nothing to do in between. */

struct engine {
	struct scheduler scheduler;
	const struct runner *runner; /* borrowed, outlives the engine */
	int32_t *token_ids;	     /* (max_num_seqs) sampled in the current step */
};

/* Validates the configuration; the runner's number of KV blocks is already in it. */
enum status engine_open(struct engine *engine, const struct engine_config *config,
	const struct runner *runner, struct error *error);
void engine_close(struct engine *engine);

/* Queues a request, or rejects it, which is an event of the next step and no error. Room is
   guaranteed while fewer than max_num_seqs sequences wait. */
enum fit engine_add(struct engine *engine, const struct request *request);

bool engine_has_room(const struct engine *engine);
bool engine_has_work(const struct engine *engine);

/* Decides a step; NULL when there is nothing to do. */
const struct batch *engine_schedule(struct engine *engine);
enum status engine_execute(struct engine *engine, struct step_time *time, struct error *error);
void engine_postprocess(struct engine *engine);

/* engine_execute() in halves, where the runner has them. A step whose tokens are all forced may
   be postprocessed once it is launched, and the next one be scheduled and launched before it is
   collected. While the engine is not open, the next step is decided the same whatever
   is added before it. */
bool engine_has_halves(const struct engine *engine);
bool engine_is_open(const struct engine *engine);
enum status engine_launch(struct engine *engine, struct error *error);
enum status engine_collect(struct engine *engine, struct step_time *time, struct error *error);

/* One whole step; there must be work. */
enum status engine_step(struct engine *engine, struct step_time *time, struct error *error);

/* Events of the latest step, valid until the next is scheduled; the sequences in them until they
   are recycled. Rejections since the step before come first. */
const struct event_list *engine_events(const struct engine *engine);

/* Tokens of a sequence after the latest step, decoding or not. */
uint32_t engine_token_count(const struct engine *engine, const struct sequence *sequence);

/* The next finished sequence, oldest first, or NULL. It is recycled when a later step is
   postprocessed. */
const struct sequence *engine_take_finished(struct engine *engine);

void engine_check(const struct engine *engine);

#endif
