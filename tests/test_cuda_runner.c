/* The CUDA runner under the real engine, against the reference runner that rounds to bf16 as a GPU
   does, with made-up models and those of tests/fixtures/models whose size of a head it takes.
   Completions are forced, so both take the same steps and every step's logits can be compared.
   Skipped, and said so, without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/engine.h"
#include "engine/model/cuda_runner.h"
#include "engine/model/reference_runner.h"
#include "engine/policy.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void skip_without_device(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
		cr_skip_test("no GPU");
	}
}

TestSuite(cuda_runner, .init = skip_without_device, .timeout = 300);

static const struct model_config SMALL = {
	.name = "small",
	.hidden_size = 128,
	.num_hidden_layers = 3,
	.num_attention_heads = 6,
	.num_key_value_heads = 2,
	.head_dim = 32,
	.intermediate_size = 192,
	.vocab_size = 1000,
	.max_position_embeddings = 2048,
	.rms_norm_eps = 1e-6,
	.rope_theta = 1e6,
	.tie_word_embeddings = true,
	.dtype = MODEL_DTYPE_BFLOAT16,
};

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
	cr_assert(engine_add(engine, &request) == FIT_OK);
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
	struct engine engine;
};

static void open_cuda(struct run *run, const struct weights *weights,
	const struct engine_config *config, bool is_eager)
{
	struct error error = {0};
	struct cuda_memory memory;
	const struct cuda_runner_options options = {.weights = weights,
		.engine = config,
		.gpu_memory_utilization = 900000,
		.seed = 3,
		.is_eager = is_eager};

	cr_assert(cuda_runner_open(&run->runner, &options, &memory, &error) == STATUS_OK, "%s",
		error.text);
	cr_assert(memory.block_count == config->kv_block_count);
	cr_assert(engine_open(&run->engine, config, &run->runner, &error) == STATUS_OK);
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
	const struct block_manager *blocks = &run->engine.scheduler.blocks;

	engine_check(&run->engine);
	cr_expect(blocks->free_count == blocks->block_count, "%u of %u blocks are free",
		blocks->free_count, blocks->block_count);
	engine_close(&run->engine);
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
	uint32_t rows = (uint32_t)own->gpu.engine.scheduler.batch.counts.sampled_rows;
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
			(unsigned long)own->gpu.engine.scheduler.batch.step, r, row_error);
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

	cr_assert(engine_step(&run->engine, &time, &error) == STATUS_OK, "%s", error.text);
	cr_assert(memcmp(counts, &run->engine.scheduler.batch.counts, sizeof(*counts)) == 0);
}

static void compare_step(struct comparison *own)
{
	struct error error = {0};
	struct step_time time;
	const struct step_counts *counts = &own->gpu.engine.scheduler.batch.counts;

	cr_assert(engine_step(&own->gpu.engine, &time, &error) == STATUS_OK, "%s", error.text);
	step_alike(&own->rounded, counts);
	step_alike(&own->exact, counts);
	own->preemptions += counts->preemptions;
	own->graph_steps += time.mode == STEP_MODE_GRAPH;
	own->eager_steps += time.mode == STEP_MODE_EAGER;
	compare_logits(own);
	while (engine_take_finished(&own->gpu.engine) != NULL) {
	}
	while (engine_take_finished(&own->rounded.engine) != NULL) {
	}
	while (engine_take_finished(&own->exact.engine) != NULL) {
	}
}

/* All step side by side. */
static struct comparison compare_runs(
	const struct subject *subject, const char *policy, uint32_t blocks, bool is_eager)
{
	struct engine_config config = config_of(policy, blocks);
	struct comparison own;

	comparison_open(&own, subject, &config, is_eager);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(&own.gpu.engine);) {
		uint32_t count = own.vocab_size;
		for (uint32_t i = 0; i < 3 && id < REQUESTS; i++) {
			if (engine_has_room(&own.gpu.engine)) {
				add_request(&own.gpu.engine, id, count, true);
				add_request(&own.rounded.engine, id, count, true);
				add_request(&own.exact.engine, id, count, true);
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
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(&run.engine);) {
		for (uint32_t i = 0; i < 3 && id < REQUESTS && engine_has_room(&run.engine); i++) {
			add_request(&run.engine, id++, subject->model.vocab_size, false);
		}
		cr_assert(engine_step(&run.engine, &time, &error) == STATUS_OK, "%s", error.text);
		while ((sequence = engine_take_finished(&run.engine)) != NULL) {
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
		add_request(&run.engine, id, subject.model.vocab_size, false);
	}
	cr_assert(engine_step(&run.engine, &time, &error) == STATUS_OK, "%s", error.text);
	cr_assert(engine_has_work(&run.engine));
	engine_close(&run.engine);
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
