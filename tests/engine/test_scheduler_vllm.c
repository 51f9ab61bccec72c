#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/vllm_drive.h"

/* Compares the engine under policy vllm with the model of its rules, step by step, where nothing
   was recorded: random configurations and requests, every option of the policy. */

enum {
	REQUESTS = 20,
	TOKENS = 160,
	STEPS_MAX = 600,
};

struct bench {
	struct vllm_rules rules;
	struct vllm_request requests[REQUESTS];
	int32_t tokens[REQUESTS][TOKENS];
	uint32_t request_count;
	uint32_t vocabulary;
	struct vllm_model model;
	struct vllm_drive drives[VLLM_FEEDINGS];
};

static void draw_rules(struct prop *prop, struct bench *bench)
{
	static const uint32_t block_sizes[] = {4, 1, 2, 3, 5, 8, 16};
	static const double watermarks[] = {0, 0.07, 0.1, 0.25, 0.29, 0.5};
	struct vllm_rules *rules = &bench->rules;

	rules->block_size = block_sizes[prop_below(prop, 7)];
	rules->max_model_len = prop_range(prop, 2, prop_chance(prop, 1, 3) ? 90 : 30);
	rules->max_num_seqs = prop_range(prop, 1, 6);
	rules->has_chunked_prefill = !prop_chance(prop, 1, 6);
	uint32_t least = rules->has_chunked_prefill ? rules->max_num_seqs : rules->max_model_len;
	least = least < rules->max_num_seqs ? rules->max_num_seqs : least;
	rules->max_num_batched_tokens =
		least + prop_range(prop, 0, prop_chance(prop, 1, 2) ? 40 : 3);
	uint32_t longest = (rules->max_model_len + rules->block_size - 1) / rules->block_size;
	rules->num_blocks = 1 + longest + prop_range(prop, 0, prop_chance(prop, 1, 3) ? 40 : 6);
	rules->eos = 0;
	rules->is_priority = prop_chance(prop, 1, 3);
	rules->is_async = prop_chance(prop, 1, 2);
	rules->has_prefix_caching = !prop_chance(prop, 1, 6);
	rules->long_prefill_token_threshold = prop_chance(prop, 1, 3) ? prop_range(prop, 1, 12) : 0;
	rules->reserves_full_isl = !prop_chance(prop, 1, 4);
	rules->watermark = prop_chance(prop, 1, 4) ? watermarks[prop_below(prop, 6)] : 0;
	bench->vocabulary = prop_chance(prop, 1, 3) ? 1000 : prop_range(prop, 1, 3);
	prop_log(prop,
		"%s, %s, block size %u, %u blocks, %u seats, %u tokens a step, longest %u, "
		"%s%s%sthreshold %u, watermark %g",
		rules->is_priority ? "priority" : "fcfs", rules->is_async ? "async" : "sync",
		rules->block_size, rules->num_blocks, rules->max_num_seqs,
		rules->max_num_batched_tokens, rules->max_model_len,
		rules->has_prefix_caching ? "" : "no cache, ",
		rules->has_chunked_prefill ? "" : "whole prompts, ",
		rules->reserves_full_isl ? "" : "no gate, ", rules->long_prefill_token_threshold,
		rules->watermark);
}

/* A prompt of new tokens behind a prefix of an older prompt and answer. */
static void draw_request(struct prop *prop, struct bench *bench, uint32_t step)
{
	const struct vllm_rules *rules = &bench->rules;
	uint32_t id = bench->request_count++;
	struct vllm_request *own = &bench->requests[id];
	uint32_t shared = 0;
	uint32_t from = 0;

	*own = (struct vllm_request){
		.tokens = bench->tokens[id],
		.prompt_count = prop_range(prop, 1, rules->max_model_len - 1),
		.max_tokens = prop_range(prop, 1, prop_chance(prop, 1, 4) ? 60 : 12),
		.arrival_step = step,
		.ignore_eos = prop_chance(prop, 1, 3),
		.priority = rules->is_priority ? (int32_t)prop_range(prop, 0, 3) - 1 : 0,
		.arrival_time = prop_chance(prop, 1, 4) ? 0 : prop_range(prop, 0, id),
	};
	uint32_t count = own->prompt_count + own->max_tokens;
	if (id > 0 && prop_chance(prop, 2, 3)) {
		from = (uint32_t)prop_below(prop, id);
		const struct vllm_request *older = &bench->requests[from];
		uint32_t most = older->prompt_count + older->max_tokens;
		shared = prop_range(prop, 0, most < own->prompt_count ? most : own->prompt_count);
		memcpy(own->tokens, older->tokens, shared * sizeof(int32_t));
	}
	for (uint32_t i = shared; i < count; i++) {
		own->tokens[i] = (int32_t)prop_below(prop, bench->vocabulary);
	}
	prop_log(prop,
		"request %u before step %u: %u tokens (%u of request %u), %u at most, priority %d "
		"at %g%s",
		id, step, own->prompt_count, shared, from, own->max_tokens, own->priority,
		own->arrival_time, own->ignore_eos ? ", ignoring the end" : "");
}

static void same_list(
	const char *name, const struct vllm_list *found, const struct vllm_list *expected)
{
	require(found->count == expected->count, "%s: %u, the model says %u", name, found->count,
		expected->count);
	for (uint32_t i = 0; i < found->count; i++) {
		require(found->items[i] == expected->items[i], "%s: place %u has %u, not %u", name,
			i, found->items[i], expected->items[i]);
	}
}

static void same_step(const struct vllm_step *found, const struct vllm_step *expected)
{
	struct vllm_list found_blocks = found->blocks;

	require_equal(found->is_decided, expected->is_decided);
	require_equal(found->row_count, expected->row_count);
	for (uint32_t i = 0; i < found->row_count; i++) {
		const struct vllm_row *row = &found->rows[i];
		const struct vllm_row *other = &expected->rows[i];
		require_equal(row->request, other->request);
		require_equal(row->kind, other->kind);
		require_equal(row->first, other->first);
		require_equal(row->count, other->count);
		require_equal(row->is_sampled, other->is_sampled);
		require_equal(row->block_count, other->block_count);
		/* The model lists the blocks of withdrawn rows too. */
		for (uint32_t j = 0; j < row->block_count; j++) {
			require_equal(found_blocks.items[row->first_block + j],
				expected->blocks.items[other->first_block + j]);
		}
	}
	same_list("preempted", &found->preempted, &expected->preempted);
	same_list("evicted", &found->evicted, &expected->evicted);
	require(found->lack == expected->lack, "who waits lacks %c, the model says %c", found->lack,
		expected->lack);
	require_equal(found->free_after_schedule, expected->free_after_schedule);
	require_equal(found->applied, expected->applied);
	same_list("finished", &found->finished, &expected->finished);
	require_equal(found->free_after_step, expected->free_after_step);
	same_list("waiting", &found->waiting, &expected->waiting);
	same_list("running", &found->running, &expected->running);
}

static void bench_step(struct prop *prop, struct bench *bench, uint32_t step)
{
	struct vllm_list free_list;

	vllm_model_step(&bench->model, step);
	prop_log(prop, "step %u: %u rows, %u preempted, %u finished", step,
		bench->model.now.row_count, bench->model.now.preempted.count,
		bench->model.now.finished.count);
	for (int i = 0; i < VLLM_FEEDINGS; i++) {
		vllm_drive_step(&bench->drives[i], step);
		same_step(&bench->drives[i].now, &bench->model.now);
		vllm_drive_free_list(&bench->drives[i], &free_list);
		same_list("free list", &free_list, &bench->model.free);
	}
}

static void body_vllm(struct prop *prop, const void *context)
{
	(void)context;
	struct bench *bench = calloc(1, sizeof(struct bench));
	require(bench != NULL, "out of memory");
	draw_rules(prop, bench);
	vllm_model_init(&bench->model, &bench->rules);
	for (int i = 0; i < VLLM_FEEDINGS; i++) {
		vllm_drive_init(&bench->drives[i], &bench->rules, (enum vllm_feeding)i);
	}
	uint32_t request_count = prop_range(prop, 1, REQUESTS);
	uint32_t burst = prop_range(prop, 1, 4);
	uint32_t step = 0;
	/* Two requests may preempt each other for ever, without the gate or by priority: vLLM's
	   rules do not rule it out. */
	while (step < STEPS_MAX &&
		(bench->request_count < request_count || vllm_model_has_work(&bench->model))) {
		while (bench->request_count < request_count &&
			(!vllm_model_has_work(&bench->model) || prop_chance(prop, burst, 5))) {
			uint32_t id = bench->request_count;
			draw_request(prop, bench, step);
			vllm_model_add(&bench->model, id, &bench->requests[id]);
			for (int i = 0; i < VLLM_FEEDINGS; i++) {
				vllm_drive_add(&bench->drives[i], id, &bench->requests[id]);
			}
		}
		bench_step(prop, bench, step++);
	}
	for (int i = 0; i < VLLM_FEEDINGS; i++) {
		vllm_drive_deinit(&bench->drives[i]);
	}
	free(bench);
}

Test(scheduler_vllm, decides_what_its_model_decides, .timeout = 3000)
{
	struct prop_options options = {
		.name = "policy vllm = model", .body = body_vllm, .trials = 3000};
	cr_assert(prop_holds(&options));
}
