/* The CUDA runner under the real engine, against the reference runner that rounds to bf16 as a GPU
   does. Completions are forced, so both take the same steps and every step's logits can be
   compared. Skipped, and said so, without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/engine.h"
#include "engine/model/cuda_runner.h"
#include "engine/model/reference_runner.h"
#include "engine/policy.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
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

enum { REQUESTS = 24, PROMPT_MAX = 400, OUTPUT_MAX = 40 };

static int32_t token(uint64_t seed, uint64_t request, uint64_t position)
{
	/* A third of the requests share their first 150 tokens. */
	uint64_t key = request % 3 == 0 && position < 150 ? 999 : request;

	return (int32_t)(counter_hash(counter_key(seed, key), position) % 1000);
}

static void add_request(struct engine *engine, uint64_t id, bool is_forced)
{
	int32_t tokens[PROMPT_MAX + OUTPUT_MAX];
	uint32_t prompt = 1 + (uint32_t)(counter_hash(5, id) % PROMPT_MAX);
	uint32_t output = 1 + (uint32_t)(counter_hash(6, id) % OUTPUT_MAX);

	for (uint32_t i = 0; i < prompt + output; i++) {
		tokens[i] = token(1, id, i);
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

static void open_cuda(
	struct run *run, struct weights *weights, const struct engine_config *config, bool is_eager)
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

static void close_run(struct run *run)
{
	engine_close(&run->engine);
	run->runner.close(run->runner.state);
}

static double distance(const float *out, const float *ref, size_t count)
{
	double difference = 0, size = 0;

	for (size_t i = 0; i < count; i++) {
		difference += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
		size += (double)ref[i] * ref[i];
	}
	return sqrt(difference / size);
}

/* Both runners step side by side; returns the number of preemptions. */
static uint64_t compare_runs(const char *policy, uint32_t blocks, bool is_eager)
{
	struct error error = {0};
	struct run gpu, cpu;
	struct weights *weights;
	struct step_time time;
	struct engine_config config = config_of(policy, blocks);
	uint64_t preemptions = 0;

	cr_assert(weights_open(&weights, &SMALL, "dummy:7", &error) == STATUS_OK, "%s", error.text);
	open_cuda(&gpu, weights, &config, is_eager);
	const struct reference_options options = {
		.weights = weights, .engine = &config, .rounding = ROUNDING_BF16, .seed = 3};
	cr_assert(reference_runner_open(&cpu.runner, &options, &error) == STATUS_OK);
	cr_assert(engine_open(&cpu.engine, &config, &cpu.runner, &error) == STATUS_OK);
	for (uint64_t id = 0, step = 0; id < REQUESTS || engine_has_work(&gpu.engine); step++) {
		for (uint32_t i = 0; i < 3 && id < REQUESTS && engine_has_room(&gpu.engine); i++) {
			add_request(&gpu.engine, id, true);
			add_request(&cpu.engine, id, true);
			id++;
		}
		cr_assert(engine_step(&gpu.engine, &time, &error) == STATUS_OK, "%s", error.text);
		cr_assert(engine_step(&cpu.engine, &time, &error) == STATUS_OK);
		const struct step_counts *counts = &gpu.engine.scheduler.batch.counts;
		cr_assert(memcmp(counts, &cpu.engine.scheduler.batch.counts, sizeof(*counts)) == 0);
		preemptions += counts->preemptions;
		uint32_t rows = (uint32_t)counts->sampled_rows;
		size_t size = (size_t)rows * SMALL.vocab_size;
		float *logits = memory_take(size + 1, sizeof(float));
		cr_assert(cuda_runner_logits(&gpu.runner, rows, logits, &error) == STATUS_OK);
		for (uint32_t r = 0; r < rows; r++) {
			const float *expected =
				reference_runner_logits(&cpu.runner) + r * SMALL.vocab_size;
			double error_of_row =
				distance(logits + r * SMALL.vocab_size, expected, SMALL.vocab_size);
			cr_assert(error_of_row < 2e-2, "step %lu row %u: relative error %g",
				(unsigned long)step, r, error_of_row);
		}
		free(logits);
		while (engine_take_finished(&gpu.engine) != NULL) {
		}
		while (engine_take_finished(&cpu.engine) != NULL) {
		}
	}
	close_run(&gpu);
	close_run(&cpu);
	weights_close(weights);
	return preemptions;
}

Test(cuda_runner, logits_are_those_of_the_reference)
{
	compare_runs("mixed", 200, false);
	compare_runs("mixed", 200, true);
	compare_runs("prefill-first", 200, false);
}

Test(cuda_runner, logits_are_right_under_pressure)
{
	cr_expect(compare_runs("mixed", 12, false) > 0);
	cr_expect(compare_runs("prefill-first", 12, false) > 0);
}

/* Sampled tokens of all requests, in order. */
static uint32_t sample_all(bool is_eager, int32_t *tokens)
{
	struct error error = {0};
	struct run run;
	struct weights *weights;
	struct step_time time;
	struct engine_config config = config_of("mixed", 12);
	const struct sequence *sequence;
	uint32_t count = 0;

	cr_assert(weights_open(&weights, &SMALL, "dummy:7", &error) == STATUS_OK);
	open_cuda(&run, weights, &config, is_eager);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(&run.engine);) {
		for (uint32_t i = 0; i < 3 && id < REQUESTS && engine_has_room(&run.engine); i++) {
			add_request(&run.engine, id++, false);
		}
		cr_assert(engine_step(&run.engine, &time, &error) == STATUS_OK, "%s", error.text);
		while ((sequence = engine_take_finished(&run.engine)) != NULL) {
			for (uint32_t i = sequence->prompt_count; i < sequence->token_count; i++) {
				tokens[count++] = sequence->token_ids[i];
			}
		}
	}
	close_run(&run);
	weights_close(weights);
	return count;
}

Test(cuda_runner, graphs_and_eager_steps_sample_the_same)
{
	static int32_t eager[REQUESTS * OUTPUT_MAX], graph[REQUESTS * OUTPUT_MAX];
	uint32_t count = sample_all(true, eager);

	cr_assert(count == sample_all(false, graph));
	cr_expect(memcmp(eager, graph, count * sizeof(int32_t)) == 0);
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
