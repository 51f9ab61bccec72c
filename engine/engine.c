#include "engine/engine_internal.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/policy.h"

#include <stdlib.h>
#include <string.h>

static void open_scheduler(struct engine *engine, const struct engine_config *config)
{
	scheduler_init(&engine->scheduler, config, engine->runner->is_computing);
	engine->scheduler.spread = engine->runner->spread;
	engine->scheduler.window.sharing.readers = engine->runner->readers;
}

enum status engine_open(struct engine **out, const struct engine_config *config,
	const struct runner *runner, struct error *error)
{
	*out = NULL;
	TRY(engine_config_validate(config, error));
	struct engine *engine = memory_take(1, sizeof(*engine));
	engine->runner = runner;
	open_scheduler(engine, config);
	for (uint32_t i = 0; i < 2; i++) {
		engine->token_ids[i] =
			memory_take(engine->scheduler.placement_capacity, sizeof(int32_t));
	}
	*out = engine;
	return STATUS_OK;
}

void engine_close(struct engine *engine)
{
	if (engine == NULL) {
		return;
	}
	scheduler_deinit(&engine->scheduler);
	livelock_deinit(&engine->livelock);
	free(engine->token_ids[0]);
	free(engine->token_ids[1]);
	free(engine);
}

const struct engine_config *engine_limits(const struct engine *engine)
{
	return &engine->scheduler.config;
}

uint32_t engine_slot_count(const struct engine *engine)
{
	return engine->scheduler.pool_capacity;
}

enum fit engine_add(struct engine *engine, const struct request *request, uint32_t *slot)
{
	enum fit fit = engine_config_fit(
		&engine->scheduler.config, request->prompt_count, request->max_tokens);

	if (fit != FIT_OK) {
		scheduler_reject(&engine->scheduler, request, fit);
		return fit;
	}
	uint32_t added = scheduler_add(&engine->scheduler, request);
	livelock_reset(&engine->livelock);
	if (slot != NULL) {
		*slot = added;
	}
	return FIT_OK;
}

void engine_set_block_log(struct engine *engine, struct block_log *log)
{
	engine->scheduler.blocks.log = log;
}

void engine_restart(struct engine *engine)
{
	const struct engine_config config = engine->scheduler.config;
	struct block_log *log = engine->scheduler.blocks.log;
	uint64_t step = engine->scheduler.step;

	scheduler_deinit(&engine->scheduler);
	livelock_reset(&engine->livelock);
	open_scheduler(engine, &config);
	engine->scheduler.step = step;
	engine->scheduler.blocks.log = log;
}

bool engine_has_room(const struct engine *engine)
{
	return engine->scheduler.waiting.count < engine->scheduler.max_waiting &&
	       scheduler_can_add(&engine->scheduler);
}

uint32_t engine_max_waiting(const struct engine *engine)
{
	return engine->scheduler.max_waiting;
}

bool engine_has_work(const struct engine *engine)
{
	return engine->scheduler.waiting.count + engine->scheduler.running.count > 0;
}

uint32_t engine_waiting_count(const struct engine *engine)
{
	return engine->scheduler.waiting.count;
}

uint32_t engine_used_block_count(const struct engine *engine)
{
	return block_manager_used_count(&engine->scheduler.blocks);
}

uint32_t engine_cached_prefix(const struct engine *engine, const struct block_key *keys,
	uint32_t count, uint32_t held_count, uint32_t *held)
{
	const struct block_manager *blocks = &engine->scheduler.blocks;
	uint32_t hits = 0;

	*held = 0;
	for (; hits < count; hits++) {
		uint32_t block = block_manager_find(blocks, keys[hits]);
		if (block == BLOCK_NONE) {
			break;
		}
		*held += hits < held_count && blocks->blocks[block].reference_count > 0;
	}
	return hits;
}

bool engine_is_async(const struct engine *engine)
{
	return engine->scheduler.config.is_async;
}

uint32_t engine_undone_count(const struct engine *engine)
{
	return scheduler_undone_count(&engine->scheduler);
}

uint64_t engine_capped_count(const struct engine *engine)
{
	return engine->scheduler.capped_count;
}

const struct batch *engine_schedule(struct engine *engine)
{
	if (!engine_has_work(engine)) {
		return NULL;
	}
	engine->has_applied_before = false;
	scheduler_schedule(&engine->scheduler);
	(void)livelock_look(&engine->livelock, &engine->scheduler);
	return &engine->scheduler.batch;
}

bool engine_is_stuck(const struct engine *engine)
{
	return engine->livelock.is_proven;
}

uint64_t engine_stuck_period(
	const struct engine *engine, uint64_t *requests, uint32_t most, uint32_t *count)
{
	*count = livelock_preempted(&engine->livelock, &engine->scheduler, requests, most);
	return engine->livelock.period;
}

void engine_set_ahead(struct engine *engine)
{
	engine->scheduler.batch.is_ahead = true;
}

static bool has_rows(const struct step_counts *counts)
{
	return counts->decode_rows + counts->prefill_rows > 0;
}

enum status engine_execute(struct engine *engine, struct step_time *time, struct error *error)
{
	const struct batch *batch = &engine->scheduler.batch;

	memset(time, 0, sizeof(*time));
	if (!has_rows(&batch->counts) && !engine->runner->takes_empty_steps) {
		return STATUS_OK;
	}
	return engine->runner->execute(
		engine->runner->state, batch, engine->token_ids[batch->step % 2], time, error);
}

bool engine_can_overlap(const struct engine *engine)
{
	return engine->runner->launch != NULL;
}

bool engine_next_step_depends_on_arrivals(const struct engine *engine)
{
	return engine->scheduler.config.policy->next_step_depends_on_arrivals(&engine->scheduler);
}

static enum status launch_part(struct engine *engine, struct error *error)
{
	bool is_whole = true;

	enum status status = engine->runner->launch_part(engine->runner->state, &is_whole, error);
	engine->is_launching = status == STATUS_OK && !is_whole;
	return status;
}

enum status engine_launch_rest(struct engine *engine, struct error *error)
{
	while (engine->is_launching) {
		TRY(launch_part(engine, error));
	}
	return STATUS_OK;
}

enum status engine_launch(struct engine *engine, struct error *error)
{
	const struct batch *batch = &engine->scheduler.batch;
	const struct runner *runner = engine->runner;

	TRY(engine_launch_rest(engine, error));
	if (!has_rows(&batch->counts)) {
		return STATUS_OK;
	}
	bool has_step_before = engine->flying_count > 0;
	TRY(runner->launch(runner->state, batch, error));
	engine->flying_count++;
	engine->is_launching = runner->launch_part != NULL;
	while (engine->is_launching && !(has_step_before && runner->has_ended(runner->state))) {
		TRY(launch_part(engine, error));
	}
	return STATUS_OK;
}

enum status engine_collect(struct engine *engine, struct step_time *time, struct error *error)
{
	const struct decided_step *before = &engine->scheduler.before;
	const struct batch *batch = &engine->scheduler.batch;
	bool is_before = before->is_undone;
	uint64_t step = is_before ? before->step : batch->step;

	memset(time, 0, sizeof(*time));
	if (!has_rows(is_before ? &before->counts : &batch->counts)) {
		return STATUS_OK;
	}
	if (engine->flying_count == 1) {
		TRY(engine_launch_rest(engine, error));
	}
	TRY(engine->runner->collect(
		engine->runner->state, engine->token_ids[step % 2], time, error));
	engine->flying_count--;
	return STATUS_OK;
}

void engine_postprocess(struct engine *engine)
{
	const struct decided_step *before = &engine->scheduler.before;
	uint64_t step = before->is_undone ? before->step : engine->scheduler.batch.step;

	engine->has_applied_before = before->is_undone;
	scheduler_postprocess(&engine->scheduler,
		engine->runner->is_computing ? engine->token_ids[step % 2] : NULL);
}

enum status engine_step(struct engine *engine, struct step_time *time, struct error *error)
{
	const struct batch *batch = engine_schedule(engine);

	check(batch != NULL);
	TRY(engine_execute(engine, time, error));
	if (!engine_is_async(engine) || engine_undone_count(engine) == 2) {
		engine_postprocess(engine);
	}
	return STATUS_OK;
}

const struct batch *engine_batch(const struct engine *engine)
{
	return &engine->scheduler.batch;
}

const int32_t *engine_token_ids(const struct engine *engine)
{
	return engine->token_ids[engine_decisions(engine).step % 2];
}

struct step_decisions engine_decisions(const struct engine *engine)
{
	const struct decided_step *before = &engine->scheduler.before;

	if (engine->has_applied_before) {
		return (struct step_decisions){
			.step = before->step,
			.counts = &before->counts,
			.wait_cause = before->wait_cause,
			.events = &before->events,
		};
	}
	return (struct step_decisions){
		.step = engine->scheduler.batch.step,
		.counts = &engine->scheduler.batch.counts,
		.wait_cause = engine->scheduler.wait_cause,
		.events = &engine->scheduler.events,
	};
}

struct step_decisions engine_keep_decisions(struct engine *engine, struct event_list *kept)
{
	struct event_list *events = &engine->scheduler.events;
	struct step_decisions decisions = engine_decisions(engine);

	if (engine->scheduler.events_are_past) {
		const struct event_list unused = *kept;
		*kept = *events;
		*events = unused;
		events->count = 0;
	} else {
		event_list_copy(kept, events);
	}
	decisions.events = kept;
	return decisions;
}

struct step_decisions engine_pending_rejections(const struct engine *engine)
{
	static const struct event_list none = {0};
	/* Those of an asynchronous step that is not applied are events of that step. */
	bool is_past = engine->scheduler.events_are_past || engine->scheduler.is_undone;

	return (struct step_decisions){
		.step = engine->scheduler.step,
		.events = is_past ? &none : &engine->scheduler.events,
	};
}

uint32_t engine_token_count(const struct engine *engine, const struct sequence *sequence)
{
	uint64_t passes =
		sequence->is_decoding ? engine->scheduler.window.clock - sequence->decode_clock : 0;

	return sequence->token_count + (uint32_t)passes;
}

const struct sequence *engine_take_finished(struct engine *engine)
{
	return scheduler_take_finished(&engine->scheduler);
}

void engine_check(const struct engine *engine)
{
	scheduler_check(&engine->scheduler);
}
