/* The CUDA runner under the real engine, against the reference runner that rounds to bf16 as a GPU
   does, with made-up models and those of tests/fixtures/models whose size of a head it takes.
   Completions are forced, so both take the same steps and every step's logits can be compared.
   Skipped, and said so, without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/engine_internal.h"
#include "engine/model/config_json.h"
#include "engine/runners/cuda_runner.h"
#include "engine/runners/reference_runner.h"
#include "engine/policy.h"
#include "kernels/op/launch.h"
#include "tests/harness/small_model.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void skip_without_device(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
		cr_skip_test("no GPU");
	}
}

TestSuite(cuda_runner, .init = skip_without_device, .timeout = 300);

static const struct model_config SMALL = SMALL_MODEL(.name = "small", .hidden_size = 128,
	.num_hidden_layers = 3, .num_attention_heads = 6, .num_key_value_heads = 2, .head_dim = 32,
	.intermediate_size = 192, .vocab_size = 1000, .tie_word_embeddings = true);

/* What is run: SMALL with weights made up, or a folder of tests/fixtures/models. */
struct subject {
	struct model_config model;
	struct weights *weights;
};

static const char *const fixtures[] = {"group3-head32", "group2-head64", "group2-head128"};

enum { FIXTURE_COUNT = sizeof(fixtures) / sizeof(fixtures[0]) };

static void subject_open_small(struct subject *subject)
{
	struct error error = {0};

	subject->model = SMALL;
	cr_assert(weights_open(&subject->weights, &SMALL, "dummy:7", &error) == STATUS_OK, "%s",
		error.text);
}

static void subject_open_fixture(struct subject *subject, uint32_t i)
{
	char path[512];
	struct error error = {0};

	snprintf(path, sizeof(path), "tests/fixtures/models/%s", fixtures[i]);
	cr_assert(model_config_find(path, &subject->model, &error) == STATUS_OK, "%s", error.text);
	cr_assert(weights_open(&subject->weights, &subject->model, path, &error) == STATUS_OK, "%s",
		error.text);
}

static void subject_close(struct subject *subject)
{
	weights_close(subject->weights);
}

enum { REQUESTS = 24, PROMPT_MAX = 400, OUTPUT_MAX = 40 };

static int32_t token(uint64_t seed, uint64_t request, uint64_t position, uint32_t vocab_size)
{
	/* A third of the requests share their first 150 tokens. */
	uint64_t key = request % 3 == 0 && position < 150 ? 999 : request;

	return (int32_t)(counter_hash(counter_key(seed, key), position) % vocab_size);
}

static void add_request(struct engine *engine, uint64_t id, uint32_t vocab_size, bool is_forced)
{
	int32_t tokens[PROMPT_MAX + OUTPUT_MAX];
	uint32_t prompt = 1 + (uint32_t)(counter_hash(5, id) % PROMPT_MAX);
	uint32_t output = 1 + (uint32_t)(counter_hash(6, id) % OUTPUT_MAX);

	for (uint32_t i = 0; i < prompt + output; i++) {
		tokens[i] = token(1, id, i, vocab_size);
	}
	const struct request request = {
		.id = id,
		.prompt = tokens,
		.prompt_count = prompt,
		.forced = is_forced ? tokens + prompt : NULL,
		.max_tokens = output,
		.temperature = id % 2 == 0 ? 0.0f : 1.0f,
		.ignore_eos = true,
	};
	cr_assert(engine_add(engine, &request, NULL) == FIT_OK);
}

static struct engine_config config_of(const char *policy, uint32_t blocks)
{
	return (struct engine_config){
		.policy = policy_find(policy),
		.block_size = 64,
		.kv_block_count = blocks,
		.max_num_seqs = 20,
		.max_num_batched_tokens = strcmp(policy, "mixed") == 0 ? 200 : 512,
		.max_model_len = 512,
		.eos_token_id = -1,
	};
}

struct run {
	struct runner runner;
	struct engine *engine;
};

static void open_cuda_path(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum kernel_path path, bool is_eager)
{
	struct error error = {0};
	struct cuda_memory memory;
	const struct cuda_runner_options options = {.weights = weights,
		.engine = config,
		.gpu_memory_utilization = 900000,
		.seed = 3,
		.is_eager = is_eager,
		.path = path};

	cr_assert(cuda_runner_open(&run->runner, &options, &memory, &error) == STATUS_OK, "%s",
		error.text);
	cr_assert(memory.block_count == config->kv_block_count);
	cr_assert(engine_open(&run->engine, config, &run->runner, &error) == STATUS_OK);
}

static void open_cuda(struct run *run, const struct weights *weights,
	const struct engine_config *config, bool is_eager)
{
	open_cuda_path(run, weights, config, kernel_path_of_device(), is_eager);
}

static void open_reference(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum rounding rounding)
{
	struct error error = {0};
	const struct reference_options options = {
		.weights = weights, .engine = config, .rounding = rounding, .seed = 3};

	cr_assert(reference_runner_open(&run->runner, &options, &error) == STATUS_OK);
	cr_assert(engine_open(&run->engine, config, &run->runner, &error) == STATUS_OK);
}

/* A run that is over has given every block back. */
static void close_run(struct run *run)
{
	const struct block_manager *blocks = &run->engine->scheduler.blocks;

	engine_check(run->engine);
	cr_expect(blocks->free_count == blocks->block_count, "%u of %u blocks are free",
		blocks->free_count, blocks->block_count);
	engine_close(run->engine);
	run->runner.close(run->runner.state);
}

static double squared_distance(const float *out, const float *ref, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		sum += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
	}
	return sum;
}

static double squared_size(const float *ref, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		sum += (double)ref[i] * ref[i];
	}
	return sum;
}

/* The same requests on the GPU, on the CPU with the GPU's rounding, and there without any. What
   rounding to bf16 does to a model's logits is the distance of the last two; so much, and not much
   more, may the GPU's order of sums do. */
struct comparison {
	struct run gpu, rounded, exact;
	uint32_t vocab_size;
	uint64_t preemptions, graph_steps, eager_steps, rows;
	double row_error_max;		       /* of a row, GPU against rounded */
	double gpu_error, rounded_error, size; /* squares of all rows, against exact */
};

enum { ROW_ERROR_PERCENT = 6 };
static const double RUN_ERROR_RATIO = 1.5;

static void comparison_open(struct comparison *own, const struct subject *subject,
	const struct engine_config *config, bool is_eager)
{
	memset(own, 0, sizeof(*own));
	own->vocab_size = subject->model.vocab_size;
	open_cuda(&own->gpu, subject->weights, config, is_eager);
	open_reference(&own->rounded, subject->weights, config, ROUNDING_BF16);
	open_reference(&own->exact, subject->weights, config, ROUNDING_NONE);
}

static void comparison_close(struct comparison *own)
{
	close_run(&own->gpu);
	close_run(&own->rounded);
	close_run(&own->exact);
}

static void compare_logits(struct comparison *own)
{
	struct error error = {0};
	uint32_t rows = (uint32_t)own->gpu.engine->scheduler.batch.counts.sampled_rows;
	const float *rounded = reference_runner_logits(&own->rounded.runner);
	const float *exact = reference_runner_logits(&own->exact.runner);
	uint32_t count = own->vocab_size;
	float *logits = memory_take((size_t)rows * count + 1, sizeof(float));

	cr_assert(cuda_runner_logits(&own->gpu.runner, rows, logits, &error) == STATUS_OK);
	for (uint32_t r = 0; r < rows; r++) {
		size_t at = (size_t)r * count;
		double size = squared_size(exact + at, count);
		double row_error = sqrt(squared_distance(logits + at, rounded + at, count) / size);
		cr_assert(row_error < ROW_ERROR_PERCENT / 100.0,
			"step %lu row %u: relative error %g",
			(unsigned long)own->gpu.engine->scheduler.batch.step, r, row_error);
		own->row_error_max = fmax(own->row_error_max, row_error);
		own->gpu_error += squared_distance(logits + at, exact + at, count);
		own->rounded_error += squared_distance(rounded + at, exact + at, count);
		own->size += size;
		own->rows++;
	}
	free(logits);
}

static void step_alike(struct run *run, const struct step_counts *counts)
{
	struct error error = {0};
	struct step_time time;

	cr_assert(engine_step(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
	cr_assert(memcmp(counts, &run->engine->scheduler.batch.counts, sizeof(*counts)) == 0);
}

static void compare_step(struct comparison *own)
{
	struct error error = {0};
	struct step_time time;
	const struct step_counts *counts = &own->gpu.engine->scheduler.batch.counts;

	cr_assert(engine_step(own->gpu.engine, &time, &error) == STATUS_OK, "%s", error.text);
	step_alike(&own->rounded, counts);
	step_alike(&own->exact, counts);
	own->preemptions += counts->preemptions;
	own->graph_steps += time.mode == STEP_MODE_GRAPH;
	own->eager_steps += time.mode == STEP_MODE_EAGER;
	compare_logits(own);
	while (engine_take_finished(own->gpu.engine) != NULL) {
	}
	while (engine_take_finished(own->rounded.engine) != NULL) {
	}
	while (engine_take_finished(own->exact.engine) != NULL) {
	}
}

/* All step side by side. */
static struct comparison compare_runs(
	const struct subject *subject, const char *policy, uint32_t blocks, bool is_eager)
{
	struct engine_config config = config_of(policy, blocks);
	struct comparison own;

	comparison_open(&own, subject, &config, is_eager);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(own.gpu.engine);) {
		uint32_t count = own.vocab_size;
		for (uint32_t i = 0; i < 3 && id < REQUESTS; i++) {
			if (engine_has_room(own.gpu.engine)) {
				add_request(own.gpu.engine, id, count, true);
				add_request(own.rounded.engine, id, count, true);
				add_request(own.exact.engine, id, count, true);
				id++;
			}
		}
		compare_step(&own);
	}
	comparison_close(&own);
	printf("%s, %s, %s: %lu rows of logits, the worst off by %.2g of the rounded; all by "
	       "%.3g of the exact, where rounding costs %.3g\n",
		subject->model.name, policy, is_eager ? "eager" : "graphs", (unsigned long)own.rows,
		own.row_error_max, sqrt(own.gpu_error / own.size),
		sqrt(own.rounded_error / own.size));
	cr_expect(sqrt(own.gpu_error) < RUN_ERROR_RATIO * sqrt(own.rounded_error));
	cr_expect(own.rows > REQUESTS);
	return own;
}

static void compare_policies(const struct subject *subject)
{
	struct comparison graphs = compare_runs(subject, "prefill-first", 200, false);
	struct comparison eager = compare_runs(subject, "prefill-first", 200, true);

	compare_runs(subject, "mixed", 200, false);
	cr_expect(graphs.graph_steps > 0 && graphs.eager_steps > 0);
	cr_expect(eager.graph_steps == 0 && eager.eager_steps > 0);
}

Test(cuda_runner, logits_are_those_of_the_reference)
{
	struct subject subject;

	subject_open_small(&subject);
	compare_policies(&subject);
	subject_close(&subject);
}

Test(cuda_runner, logits_of_stored_models_are_those_of_the_reference)
{
	for (uint32_t i = 0; i < FIXTURE_COUNT; i++) {
		struct subject subject;
		subject_open_fixture(&subject, i);
		compare_policies(&subject);
		subject_close(&subject);
	}
}

Test(cuda_runner, logits_are_right_under_pressure)
{
	struct subject subject;

	subject_open_small(&subject);
	cr_expect(compare_runs(&subject, "mixed", 12, false).preemptions > 0);
	cr_expect(compare_runs(&subject, "prefill-first", 12, false).preemptions > 0);
	subject_close(&subject);
}

/* Sampled tokens of all requests, in order. */
static uint32_t sample_all(const struct subject *subject, bool is_eager, int32_t *tokens)
{
	struct error error = {0};
	struct run run;
	struct step_time time;
	struct engine_config config = config_of("mixed", 12);
	const struct sequence *sequence;
	uint32_t count = 0;

	open_cuda(&run, subject->weights, &config, is_eager);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(run.engine);) {
		for (uint32_t i = 0; i < 3 && id < REQUESTS && engine_has_room(run.engine); i++) {
			add_request(run.engine, id++, subject->model.vocab_size, false);
		}
		cr_assert(engine_step(run.engine, &time, &error) == STATUS_OK, "%s", error.text);
		while ((sequence = engine_take_finished(run.engine)) != NULL) {
			for (uint32_t i = sequence->prompt_count; i < sequence->token_count; i++) {
				tokens[count++] = sequence->token_ids[i];
			}
		}
	}
	close_run(&run);
	return count;
}

static void check_graphs(const struct subject *subject)
{
	int32_t eager[REQUESTS * OUTPUT_MAX], graph[REQUESTS * OUTPUT_MAX];
	uint32_t count = sample_all(subject, true, eager);

	cr_assert(count > REQUESTS);
	cr_assert(count == sample_all(subject, false, graph));
	cr_expect(memcmp(eager, graph, count * sizeof(int32_t)) == 0, "%s", subject->model.name);
}

Test(cuda_runner, graphs_and_eager_steps_sample_the_same)
{
	struct subject subject;

	subject_open_small(&subject);
	check_graphs(&subject);
	subject_close(&subject);
	for (uint32_t i = 0; i < FIXTURE_COUNT; i++) {
		subject_open_fixture(&subject, i);
		check_graphs(&subject);
		subject_close(&subject);
	}
}

/* ---- what a row computes depends on nothing beside it ---- */

/* Layers that choose every kind of linear kernel: small weights; those of qwen3-0.6b, with split-K;
   those of qwen3-8b, whose order of summation decode rows share with prefill rows. */
static const struct model_config invariance_models[] = {
	SMALL_MODEL(.name = "hidden-256", .hidden_size = 256, .num_hidden_layers = 3,
		.num_attention_heads = 4, .num_key_value_heads = 2, .head_dim = 128,
		.intermediate_size = 768, .vocab_size = 1000, .tie_word_embeddings = true),
	SMALL_MODEL(.name = "hidden-1024", .hidden_size = 1024, .num_hidden_layers = 2,
		.num_attention_heads = 16, .num_key_value_heads = 8, .head_dim = 128,
		.intermediate_size = 3072, .vocab_size = 5000, .tie_word_embeddings = true),
	SMALL_MODEL(.name = "hidden-4096", .hidden_size = 4096, .num_hidden_layers = 2,
		.num_attention_heads = 32, .num_key_value_heads = 8, .head_dim = 128,
		.intermediate_size = 12288, .vocab_size = 5000, .tie_word_embeddings = false),
};

enum { INVARIANCE_MODELS = sizeof(invariance_models) / sizeof(invariance_models[0]) };

enum { LENGTH_MAX = PROMPT_MAX + OUTPUT_MAX, PARTS_MAX = 6 };

/* What a request came to: its tokens, and a hash of the keys, or the values, of each layer at each
   position whose K/V were computed. */
struct outcome {
	uint32_t prompt_count, token_count;
	uint32_t cached_count, preemption_count;
	int32_t tokens[LENGTH_MAX];
	uint64_t kv[LENGTH_MAX][PARTS_MAX];
};

struct outcomes {
	struct outcome of[REQUESTS];
	uint64_t preemptions, graph_steps, eager_steps, mixed_steps;
	uint64_t most_decode_rows;
};

static void hash_block(struct outcome *out, const unsigned char *block,
	const struct model_config *model, uint32_t block_size, uint32_t first, uint32_t count)
{
	uint32_t heads = model->num_key_value_heads;
	size_t row = model->head_dim * sizeof(uint16_t);

	for (uint32_t part = 0; part < 2 * model->num_hidden_layers; part++) {
		for (uint32_t t = 0; t < count; t++) {
			XXH64_hash_t hash = 0;
			for (uint32_t h = 0; h < heads; h++) {
				size_t at = ((part * heads + h) * (size_t)block_size + t) * row;
				hash = XXH64(block + at, row, hash);
			}
			out->kv[first + t][part] = hash;
		}
	}
}

/* In the step that ends a sequence, before its blocks are given back. */
static void keep_outcome(struct run *run, const struct model_config *model,
	const struct sequence *sequence, struct outcome *out)
{
	struct error error = {0};
	uint32_t block_size = run->engine->scheduler.config.block_size;
	uint64_t bytes = cuda_runner_block_bytes(&run->runner);
	unsigned char *block = memory_take(bytes, 1);

	for (uint32_t first = 0; first < sequence->token_count; first += block_size) {
		uint32_t left = sequence->token_count - first;
		cr_assert(cuda_runner_read_block(&run->runner,
				  sequence->block_table[first / block_size],
				  (uint16_t *)(void *)block, &error) == STATUS_OK,
			"%s", error.text);
		hash_block(out, block, model, block_size, first,
			left < block_size ? left : block_size);
	}
	free(block);
	out->cached_count = sequence->cached_count;
	out->preemption_count = sequence->preemption_count;
}

static void step_and_keep(
	struct run *run, const struct model_config *model, struct outcomes *outcomes)
{
	struct error error = {0};
	struct step_time time;
	struct scheduler *scheduler = &run->engine->scheduler;
	const struct step_counts *counts = &scheduler->batch.counts;
	const struct sequence *sequence;

	cr_assert(engine_schedule(run->engine) != NULL);
	cr_assert(engine_execute(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
	outcomes->preemptions += counts->preemptions;
	outcomes->graph_steps += time.mode == STEP_MODE_GRAPH;
	outcomes->eager_steps += time.mode == STEP_MODE_EAGER;
	outcomes->mixed_steps += counts->decode_rows > 0 && counts->prefill_rows > 0;
	if (counts->decode_rows > outcomes->most_decode_rows) {
		outcomes->most_decode_rows = counts->decode_rows;
	}
	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *placement = &scheduler->placements[i];
		sequence = placement->sequence;
		if (sequence->request < REQUESTS && placement->is_sampled &&
			sequence_completion_count(sequence) + 1 == sequence->max_tokens) {
			keep_outcome(run, model, sequence, &outcomes->of[sequence->request]);
		}
	}
	engine_postprocess(run->engine);
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

/* How requests are run. */
struct company {
	const char *name;
	const char *policy;
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t blocks;
	bool is_alone; /* one request after the other, each with an empty cache */
	bool is_eager;
	uint32_t companions; /* others with prompts of a few tokens, there from the start */
};

/* Their ids follow those of the requests that are looked at; they end at many different steps. */
static void add_companions(struct engine *engine, uint32_t count, uint32_t vocab_size)
{
	int32_t prompt[8];

	for (uint64_t id = REQUESTS; id < REQUESTS + count; id++) {
		for (uint32_t i = 0; i < 8; i++) {
			prompt[i] = token(2, id, i, vocab_size);
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

static struct outcomes *run_company(
	const struct subject *subject, const struct company *company, enum kernel_path path)
{
	struct error error = {0};
	struct outcomes *outcomes = memory_take(1, sizeof(*outcomes));
	struct engine_config config = config_of(company->policy, company->blocks);
	struct run run;
	uint32_t vocab_size = subject->model.vocab_size;

	config.max_num_seqs = company->max_num_seqs;
	config.max_num_batched_tokens = company->max_num_batched_tokens;
	open_cuda_path(&run, subject->weights, &config, path, company->is_eager);
	add_companions(run.engine, company->companions, vocab_size);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(run.engine);) {
		uint32_t count = company->is_alone ? !engine_has_work(run.engine) : 3;
		if (company->is_alone && count == 1) {
			engine_close(run.engine);
			cr_assert(engine_open(&run.engine, &config, &run.runner, &error) ==
				  STATUS_OK);
		}
		for (; count > 0 && id < REQUESTS && engine_has_room(run.engine); count--) {
			add_request(run.engine, id++, vocab_size, false);
		}
		step_and_keep(&run, &subject->model, outcomes);
	}
	close_run(&run);
	return outcomes;
}

/* Positions of the K/V of a request that differ; its last token has none. */
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

/* Every request, or those that were never preempted. */
static void expect_equal(const char *model, const char *name, const struct outcomes *a,
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
	printf("%s, %s: %u requests alike, %u not; %u had hits; %lu graph, %lu eager, %lu mixed "
	       "steps of up to %lu decode rows; %lu preemptions\n",
		model, name, compared - bad, bad, hits, (unsigned long)b->graph_steps,
		(unsigned long)b->eager_steps, (unsigned long)b->mixed_steps,
		(unsigned long)b->most_decode_rows, (unsigned long)b->preemptions);
	cr_expect(compared > 0);
}

static const struct company alone = {"alone", "prefill-first", 1, 512, 200, true, false, 0};

static const struct company companies[] = {
	{"prompts whole", "prefill-first", 20, 2048, 200, false, false, 0},
	{"prompts whole, eager", "prefill-first", 20, 2048, 200, false, true, 0},
	{"chunks beside decodes", "mixed", 20, 200, 200, false, false, 0},
	{"chunks of odd sizes", "mixed", 13, 61, 200, false, false, 0},
	{"chunks, eager", "mixed", 20, 130, 200, false, true, 0},
	{"alone, chunks, other bucket", "mixed", 2, 100, 200, true, true, 0},
	{"a few at a time", "mixed", 3, 333, 200, false, false, 0},
};

/* As many decode rows as other kernels of the products are made for: their number falls from the
   sum of companions and requests, through all numbers, to one. */
static const struct company crowds[] = {
	{"1 beside", "mixed", 21, 100, 200, false, false, 1},
	{"63 beside", "mixed", 83, 300, 330, false, false, 63},
	{"65 beside, eager", "mixed", 85, 190, 330, false, true, 65},
	{"128 beside, eager", "mixed", 148, 400, 460, false, true, 128},
	{"200 beside, prompts whole", "prefill-first", 220, 2048, 600, false, false, 200},
	{"256 beside, chunks of odd sizes", "mixed", 276, 333, 720, false, false, 256},
};

static void check_invariance(const struct subject *subject, enum kernel_path path,
	const struct company *others, size_t count)
{
	char name[128];
	struct outcomes *base = run_company(subject, &alone, path);

	snprintf(name, sizeof(name), "%s, path %d", subject->model.name, (int)path);
	for (size_t i = 0; i < count; i++) {
		struct outcomes *other = run_company(subject, &others[i], path);
		expect_equal(name, others[i].name, base, other, true);
		cr_expect(other->preemptions == 0);
		cr_expect(other->most_decode_rows > others[i].companions);
		free(other);
	}
	free(base);
}

static void open_invariance(struct subject *subject, uint32_t i)
{
	struct error error = {0};

	subject->model = invariance_models[i];
	cr_assert(weights_open(&subject->weights, &subject->model, "dummy:11", &error) == STATUS_OK,
		"%s", error.text);
}

Test(cuda_runner, requests_are_the_same_bits_in_any_company)
{
	const size_t count = sizeof(companies) / sizeof(companies[0]);

	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		check_invariance(&subject, kernel_path_of_device(), companies, count);
		if (kernel_path_of_device() != KERNEL_PATH_GENERAL) {
			check_invariance(&subject, KERNEL_PATH_GENERAL, companies, count);
		}
		subject_close(&subject);
	}
}

Test(cuda_runner, requests_are_the_same_bits_beside_many)
{
	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		check_invariance(&subject, kernel_path_of_device(), crowds,
			sizeof(crowds) / sizeof(crowds[0]));
		subject_close(&subject);
	}
}

/* What is computed again after a preemption may differ from what was; but twice the same run is
   twice the same bits, and nobody else is touched. */
Test(cuda_runner, preempted_runs_repeat_bit_by_bit)
{
	static const struct company pressed[] = {
		{"preempted, mixed", "mixed", 20, 200, 12, false, false, 0},
		{"preempted, prefill-first", "prefill-first", 20, 512, 12, false, false, 0},
		{"preempted, 100 beside", "mixed", 120, 300, 100, false, false, 100},
	};
	const uint32_t count = sizeof(pressed) / sizeof(pressed[0]);

	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		struct outcomes *base = run_company(&subject, &alone, kernel_path_of_device());
		for (uint32_t c = 0; c < count; c++) {
			struct outcomes *a =
				run_company(&subject, &pressed[c], kernel_path_of_device());
			struct outcomes *b =
				run_company(&subject, &pressed[c], kernel_path_of_device());
			cr_expect(a->preemptions > 0);
			expect_equal(subject.model.name, pressed[c].name, a, b, true);
			expect_equal(subject.model.name, "the others", base, a, false);
			free(a);
			free(b);
		}
		free(base);
		subject_close(&subject);
	}
}

/* ---- a prompt that repeats a completion ---- */

/* Two of a layer's weights have an order of sums for decode rows that is not that of prompts. */
static const struct model_config TALKATIVE =
	SMALL_MODEL(.name = "hidden-512", .hidden_size = 512, .num_hidden_layers = 2,
		.num_attention_heads = 16, .num_key_value_heads = 4, .head_dim = 128,
		.intermediate_size = 2048, .vocab_size = 1000, .tie_word_embeddings = true);

/* Tokens of the first turn, of the second one behind it, and of its answer. */
enum { TALK_PROMPT = 130, TALK_COMPLETION = 80, TALK_QUESTION = 20, TALK_ANSWER = 12 };
enum { TALK_TURN = TALK_PROMPT + TALK_COMPLETION };

/* The second turn: what it found in the cache, and the logits of its answer. */
struct talk {
	uint32_t cached_count, row_count;
	float logits[TALK_ANSWER][1000]; /* of TALKATIVE's vocabulary */
};

/* Computes a turn whose tokens are forced; returns how many of its prompt's were found. */
static uint32_t take_turn(struct run *run, uint32_t prompt_count, uint32_t output_count,
	bool is_cuda, struct talk *talk)
{
	struct error error = {0};
	struct step_time time;
	int32_t tokens[TALK_TURN + TALK_QUESTION + TALK_ANSWER];
	const struct sequence *sequence = NULL;

	for (uint32_t i = 0; i < prompt_count + output_count; i++) {
		tokens[i] = token(1, 1, i, TALKATIVE.vocab_size);
	}
	const struct request request = {
		.id = prompt_count,
		.prompt = tokens,
		.prompt_count = prompt_count,
		.forced = tokens + prompt_count,
		.max_tokens = output_count,
		.ignore_eos = true,
	};
	cr_assert(engine_add(run->engine, &request, NULL) == FIT_OK);
	for (talk->row_count = 0; engine_has_work(run->engine);) {
		cr_assert(engine_step(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
		sequence = engine_take_finished(run->engine);
		if (run->engine->scheduler.batch.counts.sampled_rows == 0) {
			continue;
		}
		float *row = talk->logits[talk->row_count++ % TALK_ANSWER];
		if (is_cuda) {
			cr_assert(cuda_runner_logits(&run->runner, 1, row, &error) == STATUS_OK);
		} else {
			memcpy(row, reference_runner_logits(&run->runner), sizeof(talk->logits[0]));
		}
	}
	cr_assert(sequence != NULL);
	cr_assert(talk->row_count == output_count);
	return sequence->cached_count;
}

/* Two turns; the cache is emptied between them if the second is to be computed. */
static void hold_talk(struct run *run, bool is_cuda, bool is_computed, struct talk *talk)
{
	struct error error = {0};
	struct engine_config config = run->engine->scheduler.config;

	cr_assert(take_turn(run, TALK_PROMPT, TALK_COMPLETION, is_cuda, talk) == 0);
	if (is_computed) {
		engine_close(run->engine);
		cr_assert(engine_open(&run->engine, &config, &run->runner, &error) == STATUS_OK);
	}
	talk->cached_count = take_turn(run, TALK_TURN + TALK_QUESTION, TALK_ANSWER, is_cuda, talk);
	cr_expect(is_computed ? talk->cached_count == 0 : talk->cached_count > TALK_PROMPT,
		"%u tokens found", talk->cached_count);
	close_run(run);
}

static struct talk *talk_on_gpu(
	const struct subject *subject, enum kernel_path path, bool is_eager, bool is_computed)
{
	struct engine_config config = config_of("mixed", 60);
	struct talk *talk = memory_take(1, sizeof(*talk));
	struct run run;

	open_cuda_path(&run, subject->weights, &config, path, is_eager);
	hold_talk(&run, true, is_computed, talk);
	return talk;
}

static struct talk *talk_on_cpu(const struct subject *subject, enum rounding rounding)
{
	struct engine_config config = config_of("mixed", 60);
	struct talk *talk = memory_take(1, sizeof(*talk));
	struct run run;

	open_reference(&run, subject->weights, &config, rounding);
	hold_talk(&run, false, false, talk);
	return talk;
}

static double distance(const struct talk *a, const struct talk *b)
{
	size_t count = sizeof(a->logits) / sizeof(a->logits[0][0]);

	return sqrt(squared_distance(a->logits[0], b->logits[0], count) /
		    squared_size(b->logits[0], count));
}

/* Prefill rows compute the prompt, decode rows have filled the blocks: their bits may differ. But
   the run repeats, and both are as far from the exact logits as rounding to bf16 makes them, so
   that they are at most twice as far from each other. */
static void check_talk(const struct subject *subject, enum kernel_path path, double rounding,
	const struct talk *exact)
{
	struct talk *computed = talk_on_gpu(subject, path, false, true);
	struct talk *found = talk_on_gpu(subject, path, false, false);
	struct talk *again = talk_on_gpu(subject, path, false, false);
	struct talk *eager = talk_on_gpu(subject, path, true, false);

	printf("path %d: the prompt computed is off by %.3g of the exact, found by %.3g, where "
	       "rounding costs %.3g; by %.3g of each other\n",
		(int)path, distance(computed, exact), distance(found, exact), rounding,
		distance(found, computed));
	cr_expect(memcmp(found->logits, again->logits, sizeof(found->logits)) == 0);
	cr_expect(memcmp(found->logits, eager->logits, sizeof(found->logits)) == 0);
	cr_expect(distance(computed, exact) < RUN_ERROR_RATIO * rounding);
	cr_expect(distance(found, exact) < RUN_ERROR_RATIO * rounding);
	cr_expect(distance(found, computed) < 2 * RUN_ERROR_RATIO * rounding);
	free(computed);
	free(found);
	free(again);
	free(eager);
}

Test(cuda_runner, prompts_that_repeat_a_completion_are_close_to_the_computed)
{
	struct error error = {0};
	struct subject subject = {.model = TALKATIVE};

	cr_assert(weights_open(&subject.weights, &subject.model, "dummy:5", &error) == STATUS_OK,
		"%s", error.text);
	struct talk *exact = talk_on_cpu(&subject, ROUNDING_NONE);
	struct talk *rounded = talk_on_cpu(&subject, ROUNDING_BF16);
	double rounding = distance(rounded, exact);
	cr_expect(rounding > 0);
	check_talk(&subject, kernel_path_of_device(), rounding, exact);
	if (kernel_path_of_device() != KERNEL_PATH_GENERAL) {
		check_talk(&subject, KERNEL_PATH_GENERAL, rounding, exact);
	}
	free(exact);
	free(rounded);
	subject_close(&subject);
}

/* ---- steps in flight ---- */

/* Ids sampled in every step of a run whose tokens are forced; is_ahead: every step is launched
   before the one before it is collected. */
static uint32_t collect_all(const struct subject *subject, bool is_ahead, int32_t *ids)
{
	struct error error = {0};
	struct step_time time;
	struct engine_config config = config_of("mixed", 60);
	struct run run;
	struct engine *engine = run.engine;
	uint32_t count = 0, ahead = 0;
	bool is_in_flight = false;

	open_cuda(&run, subject->weights, &config, false);
	for (uint64_t id = 0; id < 20; id++) {
		add_request(engine, id, subject->model.vocab_size, true);
	}
	while (engine_has_work(engine) || is_in_flight) {
		if (!is_in_flight) {
			engine_schedule(engine);
			cr_assert(engine_launch(engine, &error) == STATUS_OK, "%s", error.text);
		}
		uint32_t sampled = (uint32_t)engine->scheduler.batch.counts.sampled_rows;
		is_in_flight = false;
		if (is_ahead) {
			engine_postprocess(engine);
			is_in_flight = engine_schedule(engine) != NULL;
		}
		if (is_in_flight) {
			cr_assert(engine_launch(engine, &error) == STATUS_OK, "%s", error.text);
			ahead++;
		}
		cr_assert(engine_collect(engine, &time, &error) == STATUS_OK, "%s", error.text);
		memcpy(ids + count, engine->token_ids, sampled * sizeof(int32_t));
		count += sampled;
		if (!is_ahead) {
			engine_postprocess(engine);
		}
		while (engine_take_finished(engine) != NULL) {
		}
	}
	cr_expect((ahead > 0) == is_ahead);
	close_run(&run);
	return count;
}

Test(cuda_runner, steps_launched_ahead_sample_the_same)
{
	static int32_t one_by_one[REQUESTS * OUTPUT_MAX], ahead[REQUESTS * OUTPUT_MAX];
	struct subject subject;

	subject_open_small(&subject);
	uint32_t count = collect_all(&subject, false, one_by_one);
	cr_expect(count > 20);
	cr_expect(count == collect_all(&subject, true, ahead));
	cr_expect(memcmp(one_by_one, ahead, count * sizeof(int32_t)) == 0);
	subject_close(&subject);
}

static size_t free_device_bytes(void)
{
	size_t free_bytes = 0, total_bytes = 0;

	cr_assert(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
	return free_bytes;
}

/* The first cycles load modules and fill the driver's own pools, which stay. */
Test(cuda_runner, gives_all_memory_back)
{
	enum { CYCLES = 20, SETTLED = 3 };
	int32_t tokens[REQUESTS * OUTPUT_MAX];
	struct subject subject;
	size_t settled = 0;

	subject_open_small(&subject);
	for (uint32_t i = 0; i < SETTLED + CYCLES; i++) {
		if (i == SETTLED) {
			settled = free_device_bytes();
		}
		sample_all(&subject, i % 2 == 1, tokens);
	}
	size_t left = free_device_bytes();
	cr_expect(left >= settled, "%zu bytes less are free after %d runs", settled - left, CYCLES);
	subject_close(&subject);
}

/* Engine and runner may be closed with work left over. */
Test(cuda_runner, closes_in_the_middle_of_a_run)
{
	struct error error = {0};
	struct subject subject;
	struct run run;
	struct step_time time;
	struct engine_config config = config_of("mixed", 200);

	subject_open_small(&subject);
	open_cuda(&run, subject.weights, &config, false);
	for (uint64_t id = 0; id < 4; id++) {
		add_request(run.engine, id, subject.model.vocab_size, false);
	}
	cr_assert(engine_step(run.engine, &time, &error) == STATUS_OK, "%s", error.text);
	cr_assert(engine_has_work(run.engine));
	engine_close(run.engine);
	run.runner.close(run.runner.state);
	subject_close(&subject);
}

Test(cuda_runner, refuses_what_it_cannot_compute)
{
	struct error error = {0};
	struct runner runner;
	struct cuda_memory memory;
	struct weights *weights;
	struct engine_config config = config_of("mixed", 12);
	const struct {
		uint32_t block_size, head_dim;
		const char *word;
	} cases[] = {{32, 32, "--block-size 32"}, {64, 48, "head_dim 48"}};

	for (uint32_t i = 0; i < 2; i++) {
		struct model_config model = SMALL;
		model.head_dim = cases[i].head_dim;
		config.block_size = cases[i].block_size;
		cr_assert(weights_open(&weights, &model, "dummy:7", &error) == STATUS_OK);
		const struct cuda_runner_options options = {
			.weights = weights, .engine = &config, .gpu_memory_utilization = 900000};
		cr_expect(cuda_runner_open(&runner, &options, &memory, &error) != STATUS_OK);
		cr_expect(strstr(error.text, cases[i].word) != NULL, "%s", error.text);
		weights_close(weights);
	}
}
