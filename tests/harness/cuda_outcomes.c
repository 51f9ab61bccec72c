#include "tests/harness/cuda_outcomes.h"

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/engine_internal.h"
#include "engine/shape/kernel_tiles.h"
#include "tests/harness/small_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const struct model_config invariance_models[INVARIANCE_MODELS] = {
	SMALL_MODEL(.name = "hidden-256", .hidden_size = 256, .num_hidden_layers = 3,
		.num_attention_heads = 4, .num_key_value_heads = 2, .head_dim = 128,
		.intermediate_size = 768, .vocab_size = 1000, .tie_word_embeddings = true),
	SMALL_MODEL(.name = "hidden-1024", .hidden_size = 1024, .num_hidden_layers = 2,
		.num_attention_heads = 16, .num_key_value_heads = 8, .head_dim = 128,
		.intermediate_size = 3072, .vocab_size = 5000, .tie_word_embeddings = true),
	SMALL_MODEL(.name = "hidden-4096", .hidden_size = 4096, .num_hidden_layers = 2,
		.num_attention_heads = 32, .num_key_value_heads = 8, .head_dim = 128,
		.intermediate_size = 12288, .vocab_size = 5000, .tie_word_embeddings = false),
	SMALL_MODEL(.name = "hidden-2048", .hidden_size = 2048, .num_hidden_layers = 2,
		.num_attention_heads = 16, .num_key_value_heads = 8, .head_dim = 128,
		.intermediate_size = 6144, .vocab_size = 5000, .tie_word_embeddings = true),
};

void open_invariance(struct subject *subject, uint32_t i)
{
	struct error error = {0};

	subject->model = invariance_models[i];
	cr_assert(weights_open(&subject->weights, &subject->model, "dummy:11", &error) == STATUS_OK,
		"%s", error.text);
}

/* ---- what a request got ---- */

static void hash_block(struct outcome *out, const unsigned char *block, uint32_t heads,
	const struct model_config *model, uint32_t block_size, uint32_t first, uint32_t count)
{
	size_t row = model->head_dim * sizeof(uint16_t);

	for (uint32_t i = 0; i < 2 * model->num_hidden_layers; i++) {
		for (uint32_t t = 0; t < count; t++) {
			XXH64_hash_t hash = 0;
			for (uint32_t h = 0; h < heads; h++) {
				size_t at = ((i * heads + h) * (size_t)block_size + t) * row;
				hash = XXH64(block + at, row, hash);
			}
			out->kv[first + t][i] = hash;
		}
	}
}

/* Called in the step that ends a sequence, before its blocks are given back. count: tokens that
   have keys and values. */
static void keep_outcome(struct run *run, const struct model_config *model,
	const struct sequence *sequence, uint32_t count, struct outcome *out)
{
	struct error error = {0};
	uint32_t block_size = run->engine->scheduler.config.block_size;
	uint64_t bytes = cuda_runner_block_bytes(&run->runner);
	unsigned char *block = memory_take(bytes, 1);
	/* of this rank */
	uint32_t heads = (uint32_t)(bytes / 2 / model->num_hidden_layers / block_size /
				    model->head_dim / sizeof(uint16_t));

	for (uint32_t first = 0; first < count; first += block_size) {
		uint32_t left = count - first;
		cr_assert(cuda_runner_read_block(&run->runner,
				  sequence->block_table[first / block_size],
				  (uint16_t *)(void *)block, &error) == STATUS_OK,
			"%s", error.text);
		hash_block(out, block, heads, model, block_size, first,
			left < block_size ? left : block_size);
	}
	free(block);
	out->cached_count = sequence->cached_count;
	out->preemption_count = sequence->preemption_count;
}

/* Keeps what ends in the step that was launched, before its blocks are given back. Reading K/V
   waits for what is launched of the step, so that must be all of it. */
static void keep_ended(struct run *run, const struct model_config *model, struct outcomes *outcomes)
{
	struct scheduler *scheduler = &run->engine->scheduler;
	struct error error = {0};

	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *placement = &scheduler->placements[i];
		const struct sequence *sequence = placement->sequence;
		uint32_t count = placement->first + placement->count;
		if (sequence->request < REQUESTS && placement->is_sampled &&
			count + 1 - sequence->prompt_count == sequence->max_tokens) {
			cr_assert(engine_launch_rest(run->engine, &error) == STATUS_OK, "%s",
				error.text);
			keep_outcome(run, model, sequence, count, &outcomes->of[sequence->request]);
		}
	}
}

/* Whether two rows decode behind a split that lies in equal blocks. */
static bool share_a_split(const struct placement *a, const struct placement *b, uint32_t block_size)
{
	uint32_t blocks = ((uint32_t)DECODE_SPLIT + block_size - 1) / block_size;

	return a->is_decode && b->is_decode && a->first >= (uint32_t)DECODE_SPLIT &&
	       b->first >= (uint32_t)DECODE_SPLIT &&
	       memcmp(a->sequence->block_table, b->sequence->block_table,
		       blocks * sizeof(*a->sequence->block_table)) == 0;
}

static bool has_shared_split(const struct scheduler *scheduler)
{
	const struct placement *placements = scheduler->placements;
	uint32_t block_size = scheduler->config.block_size;

	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (share_a_split(&placements[i], &placements[j], block_size)) {
				return true;
			}
		}
	}
	return false;
}

static void count_step(const struct run *run, struct outcomes *outcomes)
{
	const struct step_counts *counts = &run->engine->scheduler.batch.counts;

	outcomes->preemptions += counts->preemptions;
	outcomes->mixed_steps += counts->decode_rows > 0 && counts->prefill_rows > 0;
	outcomes->shared_steps += has_shared_split(&run->engine->scheduler);
	if (counts->decode_rows > outcomes->most_decode_rows) {
		outcomes->most_decode_rows = counts->decode_rows;
	}
}

static void postprocess(struct run *run, struct outcomes *outcomes)
{
	const struct sequence *sequence;

	engine_postprocess(run->engine);
	const struct step_decisions decisions = engine_decisions(run->engine);
	for (size_t i = 0; i < decisions.events->count; i++) {
		outcomes->dropped_rows += decisions.events->events[i].kind == EVENT_DROP;
	}
	while ((sequence = engine_take_finished(run->engine)) != NULL) {
		if (sequence->request >= REQUESTS) {
			continue;
		}
		struct outcome *out = &outcomes->of[sequence->request];
		out->prompt_count = sequence->prompt_count;
		out->token_count = sequence->token_count;
		memcpy(out->tokens, sequence->token_ids, out->token_count * sizeof(int32_t));
	}
}

static void step_and_keep(
	struct run *run, const struct model_config *model, struct outcomes *outcomes)
{
	struct error error = {0};
	struct step_time time;

	cr_assert(engine_schedule(run->engine) != NULL);
	cr_assert(engine_execute(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
	count_step(run, outcomes);
	outcomes->prompt_graphs += time.mode == STEP_MODE_GRAPH &&
				   run->engine->scheduler.batch.counts.prefill_rows > 0;
	outcomes->graph_steps += time.mode == STEP_MODE_GRAPH;
	outcomes->eager_steps += time.mode == STEP_MODE_EAGER;
	keep_ended(run, model, outcomes);
	postprocess(run, outcomes);
}

static void collect(struct run *run, struct outcomes *outcomes)
{
	struct error error = {0};
	struct step_time time;

	cr_assert(engine_collect(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
	outcomes->graph_steps += time.mode == STEP_MODE_GRAPH;
	outcomes->eager_steps += time.mode == STEP_MODE_EAGER;
}

/* Decides and launches a step, then collects and applies the one before it. The step that ends the
   last request has one without rows behind it. */
static void step_async(struct run *run, const struct model_config *model, struct outcomes *outcomes)
{
	struct error error = {0};

	cr_assert(engine_schedule(run->engine) != NULL);
	cr_assert(engine_launch(run->engine, &error) == STATUS_OK, "%s", error.text);
	count_step(run, outcomes);
	keep_ended(run, model, outcomes);
	if (engine_undone_count(run->engine) == 2) {
		collect(run, outcomes);
		postprocess(run, outcomes);
	}
}

/* Runs all steps, each launched before the preceding one was collected. */
static void run_ahead(struct run *run, const struct model_config *model, struct outcomes *outcomes)
{
	struct error error = {0};
	uint32_t in_flight = 0;

	while (engine_has_work(run->engine) || in_flight > 0) {
		bool has_next = engine_has_work(run->engine);
		if (has_next) {
			cr_assert(engine_schedule(run->engine) != NULL);
			cr_assert(
				engine_launch(run->engine, &error) == STATUS_OK, "%s", error.text);
			in_flight++;
			count_step(run, outcomes);
			keep_ended(run, model, outcomes);
			postprocess(run, outcomes);
		}
		if (in_flight == 2 || !has_next) {
			collect(run, outcomes);
			in_flight--;
		}
	}
}

/* ---- runs ---- */

/* Their ids follow those of the requests that are compared. They end at many different steps. */
static void add_background(struct engine *engine, uint32_t count, uint32_t vocab_size)
{
	int32_t prompt[8];

	for (uint64_t id = REQUESTS; id < REQUESTS + count; id++) {
		for (uint32_t i = 0; i < 8; i++) {
			prompt[i] = request_token(2, id, i, vocab_size);
		}
		const struct request request = {
			.id = id,
			.prompt = prompt,
			.prompt_count = 1 + (uint32_t)(id % 8),
			.max_tokens = 20 + (uint32_t)(counter_hash(7, id) % 90),
			.temperature = id % 2 == 0 ? 0.0f : 1.0f,
			.ignore_eos = true,
		};
		cr_assert(engine_add(engine, &request, NULL) == FIT_OK);
	}
}

static void open_setup(struct run *run, const struct subject *subject, const struct setup *setup,
	const struct engine_config *config, enum kernel_path path)
{
	struct error error = {0};
	struct cuda_memory memory;
	struct cuda_runner_options options = {
		.weights = subject->weights,
		.engine = config,
		.gpu_memory_utilization = 900000,
		.seed = 3,
		.is_eager = setup->is_eager,
		.sharing = setup->reads_prefixes_apart ? DECODE_SHARING_OFF : DECODE_SHARING_ON,
		.path = path,
		.transport = setup->transport,
	};

	if (setup->ranks > 0) {
		cr_assert(cuda_runner_start_ranks(&options, setup->ranks, &error) == STATUS_OK,
			"%s", error.text);
	}
	cr_assert(cuda_runner_open(&run->runner, &options, &memory, &error) == STATUS_OK, "%s",
		error.text);
	cr_assert(engine_open(&run->engine, config, &run->runner, &error) == STATUS_OK);
}

struct setup_run {
	struct outcomes outcomes;
	const struct subject *subject;
	const struct setup *setup;
	enum kernel_path path;
};

static struct engine_config config_of(const struct setup *setup)
{
	struct engine_config config = run_config(setup->policy, setup->blocks);

	config.max_num_seqs = setup->max_num_seqs;
	config.max_num_batched_tokens = setup->max_num_batched_tokens;
	if (setup->block_size > 0) {
		config.kv_block_count = setup->blocks * config.block_size / setup->block_size;
		config.block_size = setup->block_size;
	}
	config.is_async = setup->is_async;
	config.eos_token_id = setup->eos_token > 0 ? setup->eos_token : -1;
	return config;
}

static void run_here(void *argument)
{
	struct setup_run *own = argument;
	const struct subject *subject = own->subject;
	const struct setup *setup = own->setup;
	struct error error = {0};
	struct engine_config config = config_of(setup);
	struct run run;
	uint32_t vocab_size = subject->model.vocab_size;

	open_setup(&run, subject, setup, &config, own->path);
	add_background(run.engine, setup->background, vocab_size);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(run.engine);) {
		uint32_t count = setup->is_one_by_one ? !engine_has_work(run.engine) : 3;
		if (setup->is_one_by_one && count == 1) {
			engine_close(run.engine);
			cr_assert(engine_open(&run.engine, &config, &run.runner, &error) ==
				  STATUS_OK);
		}
		for (; count > 0 && id < REQUESTS && engine_has_room(run.engine); count--) {
			add_request(run.engine, id++, vocab_size, setup->is_forced);
		}
		if (setup->is_async) {
			step_async(&run, &subject->model, &own->outcomes);
		} else if (setup->is_ahead && id == REQUESTS) {
			run_ahead(&run, &subject->model, &own->outcomes);
		} else {
			step_and_keep(&run, &subject->model, &own->outcomes);
		}
	}
	close_run(&run);
}

/* With ranks, in a process of its own, which they are forked from. */
struct outcomes *run_setup(
	const struct subject *subject, const struct setup *setup, enum kernel_path path)
{
	struct outcomes *outcomes = memory_take(1, sizeof(*outcomes));
	struct setup_run *own = shared_take(sizeof(*own));

	own->subject = subject;
	own->setup = setup;
	own->path = path;
	if (setup->ranks > 0) {
		run_apart(run_here, own);
	} else {
		run_here(own);
	}
	memcpy(outcomes, &own->outcomes, sizeof(*outcomes));
	shared_free(own, sizeof(*own));
	return outcomes;
}

/* ---- comparison ---- */

/* Counts the positions whose K/V differ. The last token of a request has no K/V. */
static uint32_t count_differences(
	const struct outcome *a, const struct outcome *b, uint32_t *first_position)
{
	uint32_t count = 0;

	for (uint32_t p = 0; p + 1 < a->token_count; p++) {
		if (memcmp(a->kv[p], b->kv[p], sizeof(a->kv[p])) != 0) {
			*first_position = count == 0 ? p : *first_position;
			count++;
		}
	}
	return count;
}

void expect_equal_outcomes(const char *model, const char *name, const struct outcomes *a,
	const struct outcomes *b, bool with_preempted)
{
	uint32_t compared = 0, hits = 0, bad = 0;

	for (uint32_t i = 0; i < REQUESTS; i++) {
		const struct outcome *x = &a->of[i], *y = &b->of[i];
		uint32_t at = 0;
		if (!with_preempted && x->preemption_count + y->preemption_count > 0) {
			continue;
		}
		cr_expect(x->token_count == y->token_count && x->token_count > x->prompt_count);
		uint32_t kv = count_differences(x, y, &at);
		bool is_same = memcmp(x->tokens, y->tokens, x->token_count * sizeof(int32_t)) == 0;
		cr_expect(is_same && kv == 0,
			"%s, %s, request %u (%u of %u tokens prompt): tokens %s, K/V differ at %u "
			"positions, first %u",
			model, name, i, x->prompt_count, x->token_count,
			is_same ? "equal" : "differ", kv, at);
		bad += !is_same || kv > 0;
		hits += y->cached_count > x->cached_count;
		compared++;
	}
	printf("%s, %s: %u requests alike, %u not; %u had hits; %lu graph (%lu with prompts), %lu "
	       "eager, "
	       "%lu mixed, %lu shared steps of up to %lu decode rows; %lu preemptions\n",
		model, name, compared - bad, bad, hits, (unsigned long)b->graph_steps,
		(unsigned long)b->prompt_graphs, (unsigned long)b->eager_steps,
		(unsigned long)b->mixed_steps, (unsigned long)b->shared_steps,
		(unsigned long)b->most_decode_rows, (unsigned long)b->preemptions);
	cr_expect(compared > 0);
}
