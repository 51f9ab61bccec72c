#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/recording.h"
#include "tests/harness/require.h"
#include "tests/models/vllm_drive.h"

/* Scenarios recorded from vLLM's own scheduler, reproduced decision by decision.
   QUIRE_VLLM_GOLDEN names the folder; its default is beside the project. */

enum {
	STEP_LIMIT = 65536,
};

struct scenario {
	const char *name; /* of its file */
	struct vllm_rules rules;
	struct vllm_request requests[VLLM_REQUESTS];
	uint32_t request_count;
	cJSON *steps[STEP_LIMIT];
	uint32_t step_count;
	cJSON *end;
};

/* ---- reading ---- */

static void read_config(struct scenario *scenario, const cJSON *config)
{
	const cJSON *policy = recording_item(config, "policy");
	scenario->rules = (struct vllm_rules){
		.block_size = recording_number(config, "block_size"),
		.num_blocks = recording_number(config, "num_blocks"),
		.max_num_seqs = recording_number(config, "max_num_seqs"),
		.max_num_batched_tokens = recording_number(config, "max_num_batched_tokens"),
		.max_model_len = recording_number(config, "max_model_len"),
		.eos = (int32_t)recording_number(config, "eos"),
		.is_priority = strcmp(policy->valuestring, "priority") == 0,
		.is_async = recording_truth(config, "async_scheduling"),
		.has_prefix_caching = recording_truth(config, "enable_prefix_caching"),
		.has_chunked_prefill = recording_truth(config, "enable_chunked_prefill"),
		.long_prefill_token_threshold =
			recording_number(config, "long_prefill_token_threshold"),
		.reserves_full_isl = recording_truth(config, "scheduler_reserve_full_isl"),
		.watermark = recording_decimal(config, "watermark"),
	};
}

static void read_request(struct scenario *scenario, const cJSON *row)
{
	require(scenario->request_count < VLLM_REQUESTS, "too many requests");
	require_equal(recording_number(row, "id"), scenario->request_count);
	struct vllm_request *own = &scenario->requests[scenario->request_count++];
	const cJSON *prompt = recording_item(row, "tokens");
	const cJSON *answer = recording_item(row, "answer");
	const cJSON *token;
	uint32_t count = 0;
	*own = (struct vllm_request){
		.prompt_count = (uint32_t)cJSON_GetArraySize(prompt),
		.max_tokens = recording_number(row, "max_tokens"),
		.arrival_step = recording_number(row, "arrival_step"),
		.ignore_eos = recording_truth(row, "ignore_eos"),
		.priority = (int32_t)recording_decimal(row, "priority"),
		.arrival_time = recording_decimal(row, "arrival_time"),
	};
	own->tokens = calloc(own->prompt_count + own->max_tokens, sizeof(int32_t));
	require(own->tokens != NULL, "out of memory");
	cJSON_ArrayForEach(token, prompt)
	{
		own->tokens[count++] = (int32_t)token->valuedouble;
	}
	cJSON_ArrayForEach(token, answer)
	{
		require(count < own->prompt_count + own->max_tokens, "an answer is too long");
		own->tokens[count++] = (int32_t)token->valuedouble;
	}
}

static void read_line(void *own, cJSON *content)
{
	struct scenario *scenario = own;

	if (strcmp(content->string, "config") == 0) {
		read_config(scenario, content);
		cJSON_Delete(content);
	} else if (strcmp(content->string, "request") == 0) {
		read_request(scenario, content);
		cJSON_Delete(content);
	} else if (strcmp(content->string, "step") == 0) {
		require(scenario->step_count < STEP_LIMIT, "too many steps");
		scenario->steps[scenario->step_count++] = content;
	} else {
		require(strcmp(content->string, "end") == 0 && scenario->end == NULL, "%s has a %s",
			scenario->name, content->string);
		scenario->end = content;
	}
}

static void read_scenario(struct scenario *scenario, const char *path)
{
	memset(scenario, 0, sizeof(*scenario));
	scenario->name = path;
	recording_read(path, read_line, scenario);
	require(scenario->end != NULL && scenario->step_count > 0, "%s is incomplete", path);
}

static void forget_scenario(struct scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->request_count; i++) {
		free(scenario->requests[i].tokens);
	}
	for (uint32_t i = 0; i < scenario->step_count; i++) {
		cJSON_Delete(scenario->steps[i]);
	}
	cJSON_Delete(scenario->end);
}

/* ---- comparing ---- */

static void same(const struct scenario *scenario, const struct vllm_step *found, const char *what,
	uint64_t value, uint64_t expected)
{
	require(value == expected, "%s: step %u: %s is %llu, recorded is %llu", scenario->name,
		found->step, what, (unsigned long long)value, (unsigned long long)expected);
}

static void same_list(const struct scenario *scenario, const struct vllm_step *found,
	const cJSON *step, const char *name, const uint32_t *items, uint32_t count)
{
	const cJSON *expected = recording_item(step, name);
	const cJSON *item;
	uint32_t i = 0;
	same(scenario, found, name, count, (uint64_t)cJSON_GetArraySize(expected));
	cJSON_ArrayForEach(item, expected)
	{
		same(scenario, found, name, items[i++], (uint64_t)item->valuedouble);
	}
}

static void same_rows(
	const struct scenario *scenario, const struct vllm_step *found, const cJSON *step)
{
	const cJSON *id = recording_item(step, "seqs")->child;
	const cJSON *first = recording_item(step, "first")->child;
	const cJSON *count = recording_item(step, "count")->child;
	const cJSON *blocks = recording_item(step, "blocks")->child;
	const char *kind = recording_item(step, "kinds")->valuestring;
	same(scenario, found, "rows", found->row_count, strlen(kind));
	for (uint32_t i = 0; i < found->row_count; i++) {
		const struct vllm_row *row = &found->rows[i];
		const cJSON *block = blocks->child;
		same(scenario, found, "seqs", row->request, (uint64_t)id->valuedouble);
		same(scenario, found, "kinds", (uint64_t)row->kind, (uint64_t)kind[i]);
		same(scenario, found, "first", row->first, (uint64_t)first->valuedouble);
		same(scenario, found, "count", row->count, (uint64_t)count->valuedouble);
		same(scenario, found, "blocks", row->block_count,
			(uint64_t)cJSON_GetArraySize(blocks));
		for (uint32_t j = 0; j < row->block_count; j++, block = block->next) {
			same(scenario, found, "blocks", found->blocks.items[row->first_block + j],
				(uint64_t)block->valuedouble);
		}
		id = id->next;
		first = first->next;
		count = count->next;
		blocks = blocks->next;
	}
}

static void same_step(
	const struct scenario *scenario, const struct vllm_step *found, const cJSON *step)
{
	const cJSON *applied = cJSON_GetObjectItemCaseSensitive(step, "applied");
	bool is_decided = cJSON_HasObjectItem(step, "seqs");
	same(scenario, found, "step", found->step, recording_number(step, "step"));
	same(scenario, found, "a decision", found->is_decided, is_decided);
	if (is_decided) {
		same_rows(scenario, found, step);
		same_list(scenario, found, step, "preempted", found->preempted.items,
			found->preempted.count);
		same_list(scenario, found, step, "evicted", found->evicted.items,
			found->evicted.count);
		same(scenario, found, "free_after_schedule", found->free_after_schedule,
			recording_number(step, "free_after_schedule"));
	}
	if (scenario->rules.is_async) {
		require(applied != NULL, "the recording has no applied");
		same(scenario, found, "applied", found->applied,
			cJSON_IsNull(applied) ? VLLM_NOTHING : (uint64_t)applied->valuedouble);
	}
	same_list(scenario, found, step, "finished", found->finished.items, found->finished.count);
	same(scenario, found, "free_after_step", found->free_after_step,
		recording_number(step, "free_after_step"));
	same_list(scenario, found, step, "waiting", found->waiting.items, found->waiting.count);
	same_list(scenario, found, step, "running", found->running.items, found->running.count);
}

/* What the end of a recording says, found by the model or by the engine. */
static void same_end(const struct scenario *scenario, const struct vllm_step *last,
	const uint32_t *answered, const struct vllm_list *free_list)
{
	same_list(scenario, last, scenario->end, "answered", answered, scenario->request_count);
	same_list(scenario, last, scenario->end, "free", free_list->items, free_list->count);
	same_list(scenario, last, scenario->end, "stuck", last->waiting.items, last->waiting.count);
}

/* ---- the naive model ---- */

static bool run_model(const struct scenario *scenario)
{
	struct vllm_model *model = calloc(1, sizeof(*model));
	uint32_t answered[VLLM_REQUESTS];
	require(model != NULL, "out of memory");
	vllm_model_init(model, &scenario->rules);
	for (uint32_t i = 0; i < scenario->step_count; i++) {
		const cJSON *id;
		cJSON_ArrayForEach(id, recording_item(scenario->steps[i], "added"))
		{
			uint32_t added = (uint32_t)id->valuedouble;
			vllm_model_add(model, added, &scenario->requests[added]);
		}
		vllm_model_step(model, recording_number(scenario->steps[i], "step"));
		same_step(scenario, &model->now, scenario->steps[i]);
	}
	for (uint32_t i = 0; i < scenario->request_count; i++) {
		answered[i] = model->sequences[i].known - scenario->requests[i].prompt_count;
	}
	same_end(scenario, &model->now, answered, &model->free);
	free(model);
	return true;
}

/* ---- the engine ---- */

static void run_engine_fed(const struct scenario *scenario, enum vllm_feeding feeding)
{
	struct vllm_drive *drive = calloc(1, sizeof(*drive));
	struct vllm_list free_list;
	require(drive != NULL, "out of memory");
	vllm_drive_init(drive, &scenario->rules, feeding);
	for (uint32_t i = 0; i < scenario->step_count; i++) {
		const cJSON *id;
		cJSON_ArrayForEach(id, recording_item(scenario->steps[i], "added"))
		{
			uint32_t added = (uint32_t)id->valuedouble;
			vllm_drive_add(drive, added, &scenario->requests[added]);
		}
		vllm_drive_step(drive, recording_number(scenario->steps[i], "step"));
		same_step(scenario, &drive->now, scenario->steps[i]);
	}
	for (const struct sequence *s = drive->real.waiting.head; s != NULL; s = s->next) {
		drive->answered[s->request] = sequence_completion_count(s);
	}
	vllm_drive_free_list(drive, &free_list);
	same_end(scenario, &drive->now, drive->answered, &free_list);
	vllm_drive_deinit(drive);
	free(drive);
}

static bool run_engine(const struct scenario *scenario)
{
	for (int feeding = 0; feeding < VLLM_FEEDINGS; feeding++) {
		run_engine_fed(scenario, (enum vllm_feeding)feeding);
	}
	return true;
}

/* ---- the folder ---- */

/* Runs each scenario of the folder, or skips the test. run() returns whether it compared one. */
static void for_each_scenario(bool (*run)(const struct scenario *scenario), const char *who)
{
	struct recordings recordings;
	struct scenario *scenario = calloc(1, sizeof(struct scenario));
	uint32_t steps = 0, compared = 0, async_count = 0;

	cr_assert(scenario != NULL);
	recordings_find(
		&recordings, "QUIRE_VLLM_GOLDEN", QUIRE_SOURCE_DIR "/../shared/golden/vllm");
	for (size_t i = 0; i < recordings.count; i++) {
		read_scenario(scenario, recordings.paths[i]);
		if (run(scenario)) {
			compared++;
			steps += scenario->step_count;
			async_count += scenario->rules.is_async;
		}
		forget_scenario(scenario);
	}
	free(scenario);
	if (recordings.count == 0) {
		/* Criterion tells a skipped test only with --verbose. */
		printf("%s: skipped, no recordings of vLLM in %s (QUIRE_VLLM_GOLDEN)\n", who,
			recordings.folder);
		fflush(stdout); /* the test ends in a jump */
		cr_skip_test("no recordings of vLLM in %s (QUIRE_VLLM_GOLDEN)", recordings.folder);
	}
	printf("%s: %u of %zu scenarios compared, %u of them asynchronous, %u steps\n", who,
		compared, recordings.count, async_count, steps);
	recordings_forget(&recordings);
}

Test(scheduler_vllm_golden, the_model_reproduces_the_original, .timeout = 300)
{
	for_each_scenario(run_model, "the model");
}

Test(scheduler_vllm_golden, the_engine_reproduces_the_original, .timeout = 300)
{
	for_each_scenario(run_engine, "the engine");
}
