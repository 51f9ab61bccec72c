#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "engine/policy.h"
#include "engine/scheduler.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/scheduler_model.h"

/* Compares the scheduler with its model. One script is run by three schedulers at once: one that
   computes and appends what was sampled, one that computes and has its tokens forced, and one that
   only counts; all three must decide what the model decides. */

enum {
	SCRIPT_REQUESTS = 24,
	SCRIPT_TOKENS = 96,
	SCHEDULERS = 3,
};

struct script_request {
	int32_t tokens[2 * SCRIPT_TOKENS]; /* prompt, then the complete answer */
	uint32_t prompt_count;
	uint32_t max_tokens;
	bool ignore_eos;
	uint32_t answered; /* tokens of the answer that were sampled */
};

struct script {
	struct engine_config config;
	struct script_request requests[SCRIPT_REQUESTS];
	uint32_t request_count;
	uint32_t vocabulary;
	uint32_t prompt_max, output_max;
};

static void draw_config(struct prop *prop, struct script *script)
{
	struct engine_config *config = &script->config;
	static const uint32_t block_sizes[] = {4, 1, 2, 3, 5, 8, 16};
	config->policy = prop_chance(prop, 1, 2) ? &policy_prefill_first : &policy_mixed;
	config->admission = prop_chance(prop, 1, 2) ? ADMISSION_SEED : ADMISSION_EXACT;
	config->block_size = block_sizes[prop_below(prop, 7)];
	config->kv_block_count = prop_range(prop, 1, prop_chance(prop, 1, 4) ? 48 : 12);
	config->max_num_seqs = prop_range(prop, 1, 6);
	uint32_t pool = config->block_size * config->kv_block_count;
	config->max_model_len =
		prop_range(prop, 2, pool < SCRIPT_TOKENS - 1 ? pool + 1 : SCRIPT_TOKENS);
	uint32_t batched_min =
		config->policy == &policy_mixed ? config->max_num_seqs : config->max_model_len;
	config->max_num_batched_tokens = batched_min + prop_range(prop, 0, 40);
	config->eos_token_id = prop_chance(prop, 1, 3) ? -1 : 0;
	config->prefix_caching = prop_chance(prop, 1, 5) ? PREFIX_CACHING_OFF : PREFIX_CACHING_ON;
	script->vocabulary = prop_chance(prop, 1, 3) ? 1000 : prop_range(prop, 1, 3);
	script->prompt_max = prop_range(prop, 1, config->max_model_len - 1);
	script->output_max = prop_range(prop, 1, 24);
	prop_log(prop,
		"%s, admission %s, block size %u, %u blocks, %u sequences, %u tokens a "
		"step, model length %u, end %d%s",
		config->policy->name, config->admission == ADMISSION_SEED ? "seed" : "exact",
		config->block_size, config->kv_block_count, config->max_num_seqs,
		config->max_num_batched_tokens, config->max_model_len, config->eos_token_id,
		config->prefix_caching == PREFIX_CACHING_OFF ? ", no prefix cache" : "");
}

/* A prompt of new tokens behind a prefix of an older prompt and answer (twins, echoes, shared
   prefixes, crossed blocks), short enough to fit. */
static void draw_request(struct prop *prop, struct script *script)
{
	const struct engine_config *config = &script->config;
	struct script_request *request = &script->requests[script->request_count];
	uint32_t pool = config->block_size * config->kv_block_count + 1;
	uint32_t limit = config->max_model_len < pool ? config->max_model_len : pool;
	memset(request, 0, sizeof(*request));
	request->prompt_count = prop_range(prop, 1, script->prompt_max);
	request->max_tokens = prop_range(prop, 1, script->output_max);
	if (request->prompt_count >= limit) {
		request->prompt_count = limit - 1;
	}
	if (request->max_tokens > limit - request->prompt_count) {
		request->max_tokens = limit - request->prompt_count;
	}
	request->ignore_eos = prop_chance(prop, 1, 3);
	uint32_t shared = 0;
	uint32_t from = 0;
	if (script->request_count > 0 && prop_chance(prop, 2, 3)) {
		from = (uint32_t)prop_below(prop, script->request_count);
		const struct script_request *older = &script->requests[from];
		uint32_t most = older->prompt_count + older->max_tokens;
		shared = prop_range(
			prop, 0, most < request->prompt_count ? most : request->prompt_count);
		memcpy(request->tokens, older->tokens, shared * sizeof(int32_t));
		if (prop_chance(prop, 1, 8)) {
			request->tokens[0] = (int32_t)prop_below(prop, script->vocabulary);
		}
	}
	for (uint32_t i = shared; i < request->prompt_count + request->max_tokens; i++) {
		request->tokens[i] = (int32_t)prop_below(prop, script->vocabulary);
	}
	prop_log(prop, "request %u: %u tokens (%u of request %u), %u at most%s",
		script->request_count, request->prompt_count, shared, from, request->max_tokens,
		request->ignore_eos ? ", ignoring the end" : "");
	script->request_count++;
}

struct bench {
	struct script script;
	struct scheduler_model model;
	struct scheduler real[SCHEDULERS]; /* sampled, forced, counted */
	uint64_t steps;
	uint64_t last_admission;
};

static void bench_init(struct bench *bench)
{
	scheduler_model_init(&bench->model, &bench->script.config);
	for (uint32_t i = 0; i < SCHEDULERS; i++) {
		scheduler_init(&bench->real[i], &bench->script.config, i < 2);
		bench->real[i].spread = bench->model.spread;
		bench->real[i].window.sharing.readers = bench->model.readers;
	}
}

static void bench_deinit(struct bench *bench)
{
	scheduler_model_deinit(&bench->model);
	for (uint32_t i = 0; i < SCHEDULERS; i++) {
		scheduler_deinit(&bench->real[i]);
	}
	free(bench);
}

static void bench_add(struct bench *bench, uint32_t index)
{
	const struct script_request *own = &bench->script.requests[index];
	struct request request = {
		.id = index,
		.prompt = own->tokens,
		.prompt_count = own->prompt_count,
		.max_tokens = own->max_tokens,
		.temperature = 1,
		.ignore_eos = own->ignore_eos,
	};
	scheduler_model_add(&bench->model, &request);
	for (uint32_t i = 0; i < SCHEDULERS; i++) {
		request.forced = i == 0 ? NULL : own->tokens + own->prompt_count;
		require(scheduler_can_add(&bench->real[i]), "there is no room");
		scheduler_add(&bench->real[i], &request);
	}
}

/* Invariants of every step, checked on the scheduler itself. */
static void require_promises(const struct bench *bench, const struct scheduler *real)
{
	const struct engine_config *config = &real->config;
	const struct step_counts *counts = &real->batch.counts;
	require(counts->decode_rows <= config->max_num_seqs, "too many decode rows");
	require(counts->prefill_rows <= config->max_num_seqs, "too many prefill rows");
	require(counts->prefill_tokens + (bench->model.is_mixed ? counts->decode_rows : 0) <=
			config->max_num_batched_tokens,
		"too many tokens");
	require(!bench->model.is_mixed || counts->running <= config->max_num_seqs,
		"too many sequences running");
	require(counts->decode_rows + counts->prefill_rows > 0, "a step without progress");
	require(bench->model.is_mixed || counts->decode_rows == 0 || counts->prefill_rows == 0,
		"prefill-first mixes");
	require(counts->used_blocks + counts->free_blocks == config->kv_block_count,
		"blocks are lost");
	require(counts->running + counts->waiting > 0, "sequences are lost");
}

static void take_finished(struct scheduler *real)
{
	while (scheduler_take_finished(real) != NULL) {
	}
}

static void bench_step(struct prop *prop, struct bench *bench)
{
	struct scheduler_model *model = &bench->model;
	int32_t tokens[MODEL_SEQUENCES];
	int32_t nonsense[MODEL_SEQUENCES];
	uint32_t count = 0;

	scheduler_model_schedule(model);
	prop_log(prop, "step %u: %u rows, %u preempted", (unsigned)bench->steps, model->row_count,
		(unsigned)model->counts.preemptions);
	for (uint32_t i = 0; i < SCHEDULERS; i++) {
		scheduler_schedule(&bench->real[i]);
		scheduler_model_require_same(model, &bench->real[i], true);
		require_promises(bench, &bench->real[i]);
		require_equal(bench->real[i].batch.step, bench->steps);
	}
	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct model_sequence *sequence = &model->sequences[model->rows[i].sequence];
		if (model->rows[i].is_sampled) {
			nonsense[count] = 0;
			tokens[count++] = bench->script.requests[sequence->request]
						  .tokens[sequence->token_count];
		}
	}
	scheduler_model_postprocess(model, tokens);
	for (uint32_t i = 0; i < SCHEDULERS; i++) {
		scheduler_postprocess(
			&bench->real[i], i == 0 ? tokens : (i == 1 ? nonsense : NULL));
		scheduler_model_require_same(model, &bench->real[i], false);
	}
	bench->steps++;
}

static void bench_take_finished(struct prop *prop, struct bench *bench)
{
	prop_log(prop, "take %u", bench->model.finished.count);
	bench->model.finished.count = 0;
	for (uint32_t i = 0; i < SCHEDULERS; i++) {
		take_finished(&bench->real[i]);
	}
}

static bool has_work(const struct bench *bench)
{
	return bench->model.waiting.count + bench->model.running.count > 0;
}

/* Every step samples a token, or is a chunk of the only prompt. */
static uint64_t most_steps(const struct script *script)
{
	uint64_t steps = 0;
	for (uint32_t i = 0; i < script->request_count; i++) {
		const struct script_request *request = &script->requests[i];
		steps += request->max_tokens +
			 (request->prompt_count + request->max_tokens) /
				 script->config.max_num_batched_tokens +
			 1;
	}
	return steps;
}

static void body_model(struct prop *prop, const void *context)
{
	(void)context;
	struct bench *bench = calloc(1, sizeof(struct bench));
	require(bench != NULL, "out of memory");
	struct script *script = &bench->script;
	draw_config(prop, script);
	bench_init(bench);
	uint32_t request_count = prop_range(prop, 1, SCRIPT_REQUESTS);
	uint32_t burst = prop_range(prop, 1, 4);
	while (script->request_count < request_count) {
		bool has_room = bench->model.waiting.count < script->config.max_num_seqs;
		if (has_room && (!has_work(bench) || prop_chance(prop, burst, 5))) {
			draw_request(prop, script);
			bench_add(bench, script->request_count - 1);
		} else {
			bench_step(prop, bench);
			bench_take_finished(prop, bench);
		}
	}
	uint64_t bound = bench->steps + most_steps(script);
	while (has_work(bench)) {
		require(bench->steps < bound, "it does not drain");
		bench_step(prop, bench);
		bench_take_finished(prop, bench);
	}
	require_equal(bench->real[0].blocks.free_count, script->config.kv_block_count);
	bench_deinit(bench);
}

Test(scheduler, decides_what_its_model_decides)
{
	struct prop_options options = {
		.name = "scheduler = model", .body = body_model, .trials = 3000};
	cr_assert(prop_holds(&options));
}

/* ---- every case of a tiny engine ---- */

/* Two short prompts over two tokens and the first of them again, by every small configuration and
   with every small delay before each. */
static void body_small(struct prop *prop, const void *context)
{
	(void)context;
	struct bench *bench = calloc(1, sizeof(struct bench));
	require(bench != NULL, "out of memory");
	struct script *script = &bench->script;
	struct engine_config *config = &script->config;
	config->policy = prop_below(prop, 2) == 0 ? &policy_mixed : &policy_prefill_first;
	bool is_mixed = config->policy == &policy_mixed;
	config->admission = is_mixed || prop_below(prop, 2) == 0 ? ADMISSION_EXACT : ADMISSION_SEED;
	config->block_size = prop_range(prop, 1, 2);
	config->max_num_seqs = prop_range(prop, 1, 2);
	config->max_model_len = 5;
	config->kv_block_count = 4 / config->block_size + (uint32_t)prop_below(prop, 2);
	config->max_num_batched_tokens = is_mixed ? prop_range(prop, 2, 3) : 5;
	config->eos_token_id = -1;
	bench_init(bench);
	while (script->request_count < 3) {
		struct script_request *request = &script->requests[script->request_count];
		if (script->request_count == 2) {
			*request = script->requests[0];
		} else {
			request->prompt_count = prop_range(prop, 1, 3);
			request->max_tokens =
				script->request_count == 0 ? prop_range(prop, 1, 2) : 2;
			for (uint32_t i = 0; i < request->prompt_count; i++) {
				request->tokens[i] = (int32_t)prop_below(prop, 2);
			}
		}
		uint32_t delay = (uint32_t)prop_below(prop, 2);
		prop_log(prop, "request %u after %u steps: %u tokens, %u at most",
			script->request_count, delay, request->prompt_count, request->max_tokens);
		while (has_work(bench) &&
			(delay > 0 || bench->model.waiting.count >= config->max_num_seqs)) {
			bench_step(prop, bench);
			bench_take_finished(prop, bench);
			delay -= delay > 0;
		}
		bench_add(bench, script->request_count++);
	}
	uint64_t bound = bench->steps + most_steps(script);
	while (has_work(bench)) {
		require(bench->steps < bound, "it does not drain");
		bench_step(prop, bench);
		bench_take_finished(prop, bench);
	}
	bench_deinit(bench);
}

Test(scheduler, every_case_of_a_tiny_engine, .timeout = 300)
{
	struct prop_options options = {.name = "tiny engine",
		.body = body_small,
		.trials = 2 * 1000 * 1000,
		.timeout_s = 60};
	uint64_t case_count = 0;
	cr_assert(prop_holds_always(&options, &case_count));
	cr_log_info("%lu cases", (unsigned long)case_count);
}

/* ---- its check sees damage ---- */

static void damage(struct scheduler *real, uint32_t kind)
{
	struct sequence *head = real->running.head;
	switch (kind) {
	case 0:
		real->running.count++;
		break;
	case 1:
		real->waiting.tail = NULL;
		break;
	case 2:
		head->next->previous = NULL;
		break;
	case 3:
		head->status = SEQUENCE_WAITING;
		break;
	case 4:
		head->row = head->next->row;
		break;
	case 5:
		real->window.count--;
		break;
	case 6:
		real->window.context++;
		break;
	case 7:
		head->is_decoding = false;
		break;
	case 8:
		real->window.outside_count++;
		break;
	case 9:
		head->due_clock = real->window.clock + real->window.wheel_mask + 1;
		break;
	case 10:
		head->block_table[0] = head->next->block_table[0];
		break;
	case 11:
		head->block_count--;
		break;
	case 12:
		real->free_rows[0] |= 1;
		break;
	case 13:
		head->admission = head->next->admission;
		break;
	case 14:
		head->computed_count = head->token_count;
		break;
	case 15:
		real->waiting.head->block_count = 1;
		break;
	case 16:
		real->window.longest = real->waiting.head;
		break;
	default:
		head->is_due_listed = false;
	}
}

enum { DAMAGE_KINDS = 18 };

static void body_damage(struct prop *prop, const void *context)
{
	(void)prop;
	struct engine_config config = {.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 16,
		.max_num_seqs = 2,
		.max_num_batched_tokens = 64,
		.max_model_len = 64,
		.eos_token_id = -1};
	struct scheduler real;
	int32_t tokens[16];
	scheduler_init(&real, &config, false);
	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t j = 0; j < 16; j++) {
			tokens[j] = (int32_t)(i * 100 + j);
		}
		scheduler_add(&real, &(struct request){.id = i,
					     .prompt = tokens,
					     .prompt_count = 9,
					     .forced = tokens,
					     .max_tokens = 6,
					     .ignore_eos = true});
	}
	scheduler_schedule(&real);
	scheduler_postprocess(&real, NULL);
	scheduler_check(&real);
	damage(&real, *(const uint32_t *)context);
	scheduler_check(&real);
}

Test(scheduler, its_check_sees_damage)
{
	for (uint32_t kind = 0; kind < DAMAGE_KINDS; kind++) {
		struct prop_options options = {.name = "damage",
			.body = body_damage,
			.context = &kind,
			.trials = 1,
			.is_silent = true};
		cr_expect(!prop_holds(&options), "damage %u went unseen", kind);
	}
}
