#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy.h"
#include "engine/scheduler.h"
#include "tests/harness/recording.h"
#include "tests/harness/require.h"

/* Scenarios recorded from the original engine, reproduced decision by decision under `prefill-first
   --admission seed`. QUIRE_SCHEDULER_GOLDEN names the folder; its default is beside the project. */

enum {
	REQUEST_LIMIT = 4096,
	STEP_LIMIT = 65536,
};

/* Each scenario is run three ways, which must not differ. */
enum feeding {
	FEED_SAMPLED, /* the recorded tokens come back as if sampled */
	FEED_FORCED,  /* they are known in advance, and the runner computes */
	FEED_COUNTED, /* they are known in advance, and the runner computes nothing */
	FEED_WAYS,
};

struct recorded_request {
	int32_t *tokens; /* prompt, then the recorded answer, then zeros */
	uint32_t prompt_count;
	uint32_t answer_count;
	uint32_t max_tokens;
	bool ignore_eos;
};

struct scenario {
	const char *name; /* of its file */
	struct engine_config config;
	struct recorded_request requests[REQUEST_LIMIT];
	uint32_t request_count;
	cJSON *steps[STEP_LIMIT];
	uint32_t step_count;
};

/* ---- reading ---- */

static void read_config(struct scenario *scenario, const cJSON *config)
{
	scenario->config = (struct engine_config){
		.policy = &policy_prefill_first,
		.admission = ADMISSION_SEED,
		.block_size = recording_number(config, "block_size"),
		.kv_block_count = recording_number(config, "num_blocks"),
		.max_num_seqs = recording_number(config, "max_num_seqs"),
		.max_num_batched_tokens = recording_number(config, "max_num_batched_tokens"),
		.max_model_len = recording_number(config, "max_num_batched_tokens"),
		.eos_token_id = (int32_t)recording_number(config, "eos"),
	};
}

static void read_request(struct scenario *scenario, const cJSON *request)
{
	require(scenario->request_count < REQUEST_LIMIT, "too many requests");
	require_equal(recording_number(request, "id"), scenario->request_count);
	struct recorded_request *own = &scenario->requests[scenario->request_count++];
	const cJSON *tokens = recording_array(request, "tokens");
	own->prompt_count = (uint32_t)cJSON_GetArraySize(tokens);
	own->max_tokens = recording_number(request, "max_tokens");
	own->ignore_eos = recording_truth(request, "ignore_eos");
	own->tokens = calloc(own->prompt_count + own->max_tokens, sizeof(int32_t));
	require(own->tokens != NULL, "out of memory");
	const cJSON *token;
	uint32_t count = 0;
	cJSON_ArrayForEach(token, tokens)
	{
		own->tokens[count++] = (int32_t)token->valuedouble;
	}
}

/* Stores a step, and appends its sampled tokens to the answers. */
static void read_step(struct scenario *scenario, cJSON *step)
{
	require(scenario->step_count < STEP_LIMIT, "too many steps");
	scenario->steps[scenario->step_count++] = step;
	const cJSON *sampled = recording_array(step, "sampled")->child;
	const cJSON *id;
	cJSON_ArrayForEach(id, recording_array(step, "seqs"))
	{
		struct recorded_request *own = &scenario->requests[(uint32_t)id->valuedouble];
		require(own->answer_count < own->max_tokens, "the recording answers too much");
		own->tokens[own->prompt_count + own->answer_count++] =
			(int32_t)sampled->valuedouble;
		sampled = sampled->next;
	}
}

static void read_line(void *own, cJSON *content)
{
	struct scenario *scenario = own;

	if (strcmp(content->string, "step") == 0) {
		read_step(scenario, content);
		return;
	}
	if (strcmp(content->string, "config") == 0) {
		read_config(scenario, content);
	} else {
		require(strcmp(content->string, "request") == 0, "%s has a %s", scenario->name,
			content->string);
		read_request(scenario, content);
	}
	cJSON_Delete(content);
}

static void forget_scenario(struct scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->request_count; i++) {
		free(scenario->requests[i].tokens);
	}
	for (uint32_t i = 0; i < scenario->step_count; i++) {
		cJSON_Delete(scenario->steps[i]);
	}
}

/* ---- replaying ---- */

struct replay {
	const struct scenario *scenario;
	enum feeding feeding;
	struct scheduler scheduler;
	uint32_t backlog[REQUEST_LIMIT]; /* arrived, and not yet in the scheduler's waiting queue */
	uint32_t backlog_count;
	uint32_t step;
};

static void feed(struct replay *replay)
{
	struct scheduler *scheduler = &replay->scheduler;
	uint32_t fed = 0;
	while (fed < replay->backlog_count &&
		scheduler->waiting.count < scheduler->config.max_num_seqs) {
		uint32_t id = replay->backlog[fed++];
		const struct recorded_request *own = &replay->scenario->requests[id];
		require(scheduler_can_add(scheduler), "there is no room");
		scheduler_add(
			scheduler, &(struct request){
					   .id = id,
					   .prompt = own->tokens,
					   .prompt_count = own->prompt_count,
					   .forced = replay->feeding == FEED_SAMPLED
							     ? NULL
							     : own->tokens + own->prompt_count,
					   .max_tokens = own->max_tokens,
					   .temperature = 1,
					   .ignore_eos = own->ignore_eos,
				   });
	}
	replay->backlog_count -= fed;
	memmove(replay->backlog, replay->backlog + fed,
		replay->backlog_count * sizeof(*replay->backlog));
}

static void differs(const struct replay *replay, const char *what)
{
	require(false, "%s: step %u: %s (way %d)", replay->scenario->name, replay->step, what,
		(int)replay->feeding);
}

static void same(const struct replay *replay, uint64_t found, uint64_t expected, const char *what)
{
	if (found != expected) {
		differs(replay, what);
	}
}

/* Demands that the requests of a kind of event are the recorded ones, in order. */
static void same_events(const struct replay *replay, enum event_kind kind, const char *name)
{
	const struct event_list *list = &replay->scheduler.events;
	const cJSON *id = recording_array(replay->scenario->steps[replay->step], name)->child;
	for (size_t i = 0; i < list->count; i++) {
		if (list->events[i].kind == kind) {
			if (id == NULL) {
				differs(replay, name);
				return;
			}
			same(replay, list->events[i].request, (uint64_t)id->valuedouble, name);
			id = id->next;
		}
	}
	same(replay, id == NULL, true, name);
}

static void same_table(
	const struct replay *replay, const struct sequence *sequence, const cJSON *table)
{
	same(replay, sequence->block_count, (uint64_t)cJSON_GetArraySize(table), "block_tables");
	const cJSON *block = table->child;
	for (uint32_t i = 0; i < sequence->block_count; i++) {
		same(replay, sequence->block_table[i], (uint64_t)block->valuedouble,
			"block_tables");
		block = block->next;
	}
}

/* The step's sequences are the newest of the running queue, or the first of it. */
static void same_rows(const struct replay *replay, const cJSON *step)
{
	const struct scheduler *scheduler = &replay->scheduler;
	const struct step_counts *counts = &scheduler->batch.counts;
	bool is_prefill = recording_truth(step, "prefill");
	uint32_t row_count = (uint32_t)cJSON_GetArraySize(recording_array(step, "seqs"));
	same(replay, is_prefill ? counts->prefill_rows : counts->decode_rows, row_count, "seqs");
	same(replay, is_prefill ? counts->decode_rows : counts->prefill_rows, 0, "prefill");
	same(replay, counts->sampled_rows, row_count, "sampled");
	if (is_prefill) {
		same_events(replay, EVENT_ADMIT, "seqs");
		same_events(replay, EVENT_CHUNK, "seqs");
	}
	const struct sequence *sequence = scheduler->running.head;
	for (uint32_t i = 0; is_prefill && i < scheduler->running.count - row_count; i++) {
		sequence = sequence->next;
	}
	const cJSON *id = recording_array(step, "seqs")->child;
	const cJSON *table = recording_array(step, "block_tables")->child;
	const cJSON *cached = is_prefill ? recording_array(step, "cached")->child : NULL;
	for (uint32_t i = 0; i < row_count; i++) {
		same(replay, sequence->request, (uint64_t)id->valuedouble, "seqs");
		same_table(replay, sequence, table);
		if (scheduler->is_computing) {
			same(replay, scheduler->batch.request[i], sequence->request, "seqs");
		}
		if (cached != NULL) {
			same(replay, sequence->cached_count, (uint64_t)cached->valuedouble,
				"cached");
			cached = cached->next;
		}
		sequence = sequence->next;
		id = id->next;
		table = table->next;
	}
}

static void same_queue(const struct replay *replay, const struct sequence_queue *queue,
	uint32_t backlog_count, const char *name)
{
	const cJSON *ids = recording_array(replay->scenario->steps[replay->step], name);
	same(replay, queue->count + backlog_count, (uint64_t)cJSON_GetArraySize(ids), name);
	const cJSON *id = ids->child;
	for (const struct sequence *s = queue->head; s != NULL; s = s->next) {
		same(replay, s->request, (uint64_t)id->valuedouble, name);
		id = id->next;
	}
	for (uint32_t i = 0; i < backlog_count; i++) {
		same(replay, replay->backlog[i], (uint64_t)id->valuedouble, name);
		id = id->next;
	}
}

static void postprocess(struct replay *replay, const cJSON *step)
{
	struct scheduler *scheduler = &replay->scheduler;
	int32_t tokens[REQUEST_LIMIT];
	uint32_t count = 0;
	const cJSON *token;
	cJSON_ArrayForEach(token, recording_array(step, "sampled"))
	{
		tokens[count++] = replay->feeding == FEED_SAMPLED ? (int32_t)token->valuedouble
								  : scheduler->config.eos_token_id;
	}
	scheduler_postprocess(scheduler, scheduler->is_computing ? tokens : NULL);
	scheduler_check(scheduler);
}

static void replay_step(struct replay *replay, const cJSON *step)
{
	struct scheduler *scheduler = &replay->scheduler;
	const cJSON *id;
	cJSON_ArrayForEach(id, recording_array(step, "added"))
	{
		replay->backlog[replay->backlog_count++] = (uint32_t)id->valuedouble;
	}
	feed(replay);
	scheduler_schedule(scheduler);
	scheduler_check(scheduler);
	same_rows(replay, step);
	same_events(replay, EVENT_PREEMPT, "preempted");
	same(replay, scheduler->blocks.free_count, recording_number(step, "free_after_schedule"),
		"free_after_schedule");
	postprocess(replay, step);
	same_events(replay, EVENT_FINISH, "finished");
	same(replay, scheduler->blocks.free_count, recording_number(step, "free_after_step"),
		"free_after_step");
	same_queue(replay, &scheduler->waiting, replay->backlog_count, "waiting");
	same_queue(replay, &scheduler->running, 0, "running");
	while (scheduler_take_finished(scheduler) != NULL) {
	}
}

static void replay_scenario(const struct scenario *scenario, enum feeding feeding)
{
	struct replay *replay = calloc(1, sizeof(struct replay));
	require(replay != NULL, "out of memory");
	replay->scenario = scenario;
	replay->feeding = feeding;
	scheduler_init(&replay->scheduler, &scenario->config, feeding != FEED_COUNTED);
	for (; replay->step < scenario->step_count; replay->step++) {
		replay_step(replay, scenario->steps[replay->step]);
	}
	scheduler_deinit(&replay->scheduler);
	free(replay);
}

Test(scheduler_golden, reproduces_the_original)
{
	struct recordings recordings;
	struct scenario *scenario = calloc(1, sizeof(struct scenario));
	uint32_t steps = 0;

	cr_assert(scenario != NULL);
	recordings_find(&recordings, "QUIRE_SCHEDULER_GOLDEN",
		QUIRE_SOURCE_DIR "/../shared/golden/scheduler");
	if (recordings.count == 0) {
		free(scenario);
		cr_skip_test("no recordings of the original in %s (QUIRE_SCHEDULER_GOLDEN)",
			recordings.folder);
	}
	for (size_t i = 0; i < recordings.count; i++) {
		memset(scenario, 0, sizeof(*scenario));
		scenario->name = recordings.paths[i];
		recording_read(scenario->name, read_line, scenario);
		for (int way = 0; way < FEED_WAYS; way++) {
			replay_scenario(scenario, (enum feeding)way);
		}
		steps += scenario->step_count;
		forget_scenario(scenario);
	}
	cr_log_info("%zu recordings, %u steps, each run three ways", recordings.count, steps);
	recordings_forget(&recordings);
	free(scenario);
}
