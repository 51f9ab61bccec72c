/* opendir and getline are not C. */
#define _DEFAULT_SOURCE

#include <criterion/criterion.h>

#include <cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy.h"
#include "engine/scheduler.h"
#include "tests/harness/require.h"

/* Scenarios recorded from the original engine, reproduced decision by decision under `prefill-first
   --admission seed`. QUIRE_SCHEDULER_GOLDEN names the folder; its default is beside the project. */

enum {
	FILE_LIMIT = 4096,
	NAME_BYTES = 512,
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
	char name[NAME_BYTES];
	struct engine_config config;
	struct recorded_request requests[REQUEST_LIMIT];
	uint32_t request_count;
	cJSON *steps[STEP_LIMIT];
	uint32_t step_count;
};

/* ---- reading ---- */

static uint32_t number(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
	require(cJSON_IsNumber(item), "the recording has no %s", name);
	return (uint32_t)item->valuedouble;
}

static const cJSON *array(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
	require(cJSON_IsArray(item), "the recording has no %s", name);
	return item;
}

static void read_config(struct scenario *scenario, const cJSON *config)
{
	scenario->config = (struct engine_config){
		.policy = &policy_prefill_first,
		.admission = ADMISSION_SEED,
		.block_size = number(config, "block_size"),
		.kv_block_count = number(config, "num_blocks"),
		.max_num_seqs = number(config, "max_num_seqs"),
		.max_num_batched_tokens = number(config, "max_num_batched_tokens"),
		.max_model_len = number(config, "max_num_batched_tokens"),
		.eos_token_id = (int32_t)number(config, "eos"),
	};
}

static void read_request(struct scenario *scenario, const cJSON *request)
{
	require(scenario->request_count < REQUEST_LIMIT, "too many requests");
	require_equal(number(request, "id"), scenario->request_count);
	struct recorded_request *own = &scenario->requests[scenario->request_count++];
	const cJSON *tokens = array(request, "tokens");
	own->prompt_count = (uint32_t)cJSON_GetArraySize(tokens);
	own->max_tokens = number(request, "max_tokens");
	own->ignore_eos = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(request, "ignore_eos"));
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
	const cJSON *sampled = array(step, "sampled")->child;
	const cJSON *id;
	cJSON_ArrayForEach(id, array(step, "seqs"))
	{
		struct recorded_request *own = &scenario->requests[(uint32_t)id->valuedouble];
		require(own->answer_count < own->max_tokens, "the recording answers too much");
		own->tokens[own->prompt_count + own->answer_count++] =
			(int32_t)sampled->valuedouble;
		sampled = sampled->next;
	}
}

static void read_scenario(struct scenario *scenario, const char *path)
{
	FILE *file = fopen(path, "r");
	require(file != NULL, "%s cannot be read", path);
	char *line = NULL;
	size_t capacity = 0;
	memset(scenario, 0, sizeof(*scenario));
	(void)snprintf(scenario->name, sizeof(scenario->name), "%s", path);
	while (getline(&line, &capacity, file) > 0) {
		cJSON *row = cJSON_Parse(line);
		require(row != NULL && row->child != NULL, "%s has a line that is no object", path);
		cJSON *content = cJSON_DetachItemViaPointer(row, row->child);
		if (strcmp(content->string, "config") == 0) {
			read_config(scenario, content);
			cJSON_Delete(content);
		} else if (strcmp(content->string, "request") == 0) {
			read_request(scenario, content);
			cJSON_Delete(content);
		} else {
			require(strcmp(content->string, "step") == 0, "%s has a %s", path,
				content->string);
			read_step(scenario, content);
		}
		cJSON_Delete(row);
	}
	free(line);
	(void)fclose(file);
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
	const cJSON *id = array(replay->scenario->steps[replay->step], name)->child;
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
	bool is_prefill = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(step, "prefill"));
	uint32_t row_count = (uint32_t)cJSON_GetArraySize(array(step, "seqs"));
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
	const cJSON *id = array(step, "seqs")->child;
	const cJSON *table = array(step, "block_tables")->child;
	const cJSON *cached = is_prefill ? array(step, "cached")->child : NULL;
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
	const cJSON *ids = array(replay->scenario->steps[replay->step], name);
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
	cJSON_ArrayForEach(token, array(step, "sampled"))
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
	cJSON_ArrayForEach(id, array(step, "added"))
	{
		replay->backlog[replay->backlog_count++] = (uint32_t)id->valuedouble;
	}
	feed(replay);
	scheduler_schedule(scheduler);
	scheduler_check(scheduler);
	same_rows(replay, step);
	same_events(replay, EVENT_PREEMPT, "preempted");
	same(replay, scheduler->blocks.free_count, number(step, "free_after_schedule"),
		"free_after_schedule");
	postprocess(replay, step);
	same_events(replay, EVENT_FINISH, "finished");
	same(replay, scheduler->blocks.free_count, number(step, "free_after_step"),
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

/* ---- the folder ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Paths of the folder's recordings in order; 0 if there is no such folder. */
static uint32_t list_recordings(const char *folder, char (*paths)[NAME_BYTES])
{
	uint32_t count = 0;
	DIR *directory = opendir(folder);
	if (directory == NULL) {
		return 0;
	}
	for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
		size_t length = strlen(entry->d_name);
		if (length > 6 && strcmp(entry->d_name + length - 6, ".jsonl") == 0) {
			require(count < FILE_LIMIT, "too many recordings");
			(void)snprintf(paths[count++], NAME_BYTES, "%s/%s", folder, entry->d_name);
		}
	}
	(void)closedir(directory);
	qsort(paths, count, NAME_BYTES, compare_names);
	return count;
}

Test(scheduler_golden, reproduces_the_original)
{
	const char *folder = getenv("QUIRE_SCHEDULER_GOLDEN");
	if (folder == NULL || folder[0] == '\0') {
		folder = QUIRE_SOURCE_DIR "/../shared/golden/scheduler";
	}
	char(*paths)[NAME_BYTES] = calloc(FILE_LIMIT, NAME_BYTES);
	struct scenario *scenario = calloc(1, sizeof(struct scenario));
	cr_assert(paths != NULL && scenario != NULL);
	uint32_t count = list_recordings(folder, paths);
	if (count == 0) {
		free(scenario);
		free(paths);
		cr_skip_test(
			"no recordings of the original in %s (QUIRE_SCHEDULER_GOLDEN)", folder);
	}
	uint32_t steps = 0;
	for (uint32_t i = 0; i < count; i++) {
		read_scenario(scenario, paths[i]);
		for (int way = 0; way < FEED_WAYS; way++) {
			replay_scenario(scenario, (enum feeding)way);
		}
		steps += scenario->step_count;
		forget_scenario(scenario);
	}
	cr_log_info("%u recordings, %u steps, each run three ways", count, steps);
	free(scenario);
	free(paths);
}
