#include "tests/harness/cuda_run.h"

#include "engine/base/counter_hash.h"
#include "engine/engine_internal.h"
#include "engine/model/config_json.h"
#include "engine/policy.h"
#include "engine/reference/reference_runner.h"
#include "engine/shape/kernel_tiles.h"
#include "tests/harness/small_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

const struct model_config run_small_model = SMALL_MODEL(.name = "small", .hidden_size = 128,
	.num_hidden_layers = 3, .num_attention_heads = 6, .num_key_value_heads = 2, .head_dim = 32,
	.intermediate_size = 192, .vocab_size = 1000, .tie_word_embeddings = true);

static const char *const fixtures[FIXTURE_COUNT] = {
	"group3-head32", "group2-head64", "group2-head128"};

void subject_open_small(struct subject *subject)
{
	struct error error = {0};

	subject->model = run_small_model;
	cr_assert(weights_open(&subject->weights, &run_small_model, "dummy:7", &error) == STATUS_OK,
		"%s", error.text);
}

void subject_open_fixture(struct subject *subject, uint32_t i)
{
	char path[512];
	struct error error = {0};

	snprintf(path, sizeof(path), "tests/fixtures/models/%s", fixtures[i]);
	cr_assert(model_config_find(path, &subject->model, &error) == STATUS_OK, "%s", error.text);
	cr_assert(weights_open(&subject->weights, &subject->model, path, &error) == STATUS_OK, "%s",
		error.text);
}

void subject_close(struct subject *subject)
{
	weights_close(subject->weights);
}

int32_t request_token(uint64_t seed, uint64_t request, uint64_t position, uint32_t vocab_size)
{
	/* A third of the requests share their first 150 tokens, another third the first 330, and
	   most of these even their first 390. */
	uint64_t group = request % 3, branch = request % 4 == 0 ? 1 : 2;
	uint64_t key = group == 0 && position < 150 ? 999 : request;

	if (group == 1 && position < 390) {
		key = position < 330 ? 998 : 990 + branch;
	}

	return (int32_t)(counter_hash(counter_key(seed, key), position) % vocab_size);
}

/* A third of the prompts are longer than a split of decode attention, which they share. */
static uint32_t prompt_count_of(uint64_t request)
{
	uint32_t least = request % 3 == 1 ? DECODE_SPLIT + 1 : 1;

	return least + (uint32_t)(counter_hash(5, request) % (PROMPT_MAX + 1 - least));
}

/* A forced token. No prompt repeats it: a block that decode rows filled may have other bits
   (cuda_runner.h), and which prompts found it would depend on the batches. */
static int32_t completion_token(uint64_t request, uint64_t position, uint32_t vocab_size)
{
	return (int32_t)(counter_hash(counter_key(3, request), position) % vocab_size);
}

void add_request(struct engine *engine, uint64_t id, uint32_t vocab_size, bool is_forced)
{
	int32_t tokens[PROMPT_MAX + OUTPUT_MAX];
	uint32_t prompt = prompt_count_of(id);
	uint32_t output = 1 + (uint32_t)(counter_hash(6, id) % OUTPUT_MAX);

	for (uint32_t i = 0; i < prompt + output; i++) {
		tokens[i] = i < prompt ? request_token(1, id, i, vocab_size)
				       : completion_token(id, i, vocab_size);
	}
	const struct request request = {
		.id = id,
		.prompt = tokens,
		.prompt_count = prompt,
		.forced = is_forced ? tokens + prompt : NULL,
		.max_tokens = output,
		.temperature = id % 2 == 0 ? 0.0f : 1.0f,
	};
	cr_assert(engine_add(engine, &request, NULL) == FIT_OK);
}

struct engine_config run_config(const char *policy, uint32_t blocks)
{
	const struct policy *found = policy_at(0);

	for (uint32_t i = 1; strcmp(found->name, policy) != 0; i++) {
		found = policy_at(i);
		cr_assert(found != NULL, "no policy %s", policy);
	}
	const struct policy_defaults *own = &found->defaults;
	return (struct engine_config){
		.policy = found,
		.allocation = own->allocation,
		.strategies = {.free_order = own->free_order,
			.equal_blocks = own->equal_blocks,
			.has_null_block = own->has_null_block},
		.block_size = 64,
		.kv_block_count = blocks,
		.max_num_seqs = 20,
		.max_num_batched_tokens = strcmp(policy, "mixed") == 0 ? 200 : 512,
		.max_model_len = 512,
		.eos_token_id = -1,
	};
}

void open_cuda_path(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum kernel_path path, bool is_eager)
{
	struct error error = {0};
	struct cuda_memory memory;
	const struct cuda_runner_options options = {.weights = weights,
		.engine = config,
		.gpu_memory_utilization = 900000,
		.seed = 3,
		.is_eager = is_eager,
		.sharing = DECODE_SHARING_ON,
		.path = path};

	cr_assert(cuda_runner_open(&run->runner, &options, &memory, &error) == STATUS_OK, "%s",
		error.text);
	cr_assert(memory.block_count == config->kv_block_count);
	cr_assert(engine_open(&run->engine, config, &run->runner, &error) == STATUS_OK);
}

void open_cuda(struct run *run, const struct weights *weights, const struct engine_config *config,
	bool is_eager)
{
	open_cuda_path(run, weights, config, kernel_path_of_device(), is_eager);
}

void open_reference(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum rounding rounding)
{
	open_reference_ranks(run, weights, config, rounding, 1);
}

void open_reference_ranks(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum rounding rounding, uint32_t ranks)
{
	struct error error = {0};
	const struct reference_options options = {.weights = weights,
		.engine = config,
		.rounding = rounding,
		.seed = 3,
		.ranks = {.count = ranks}};

	cr_assert(reference_runner_open(&run->runner, &options, &error) == STATUS_OK);
	cr_assert(engine_open(&run->engine, config, &run->runner, &error) == STATUS_OK);
}

void close_run(struct run *run)
{
	const struct block_manager *blocks = &run->engine->scheduler.blocks;

	uint32_t null = run->engine->scheduler.config.strategies.has_null_block;

	engine_check(run->engine);
	cr_expect(blocks->free_count + null == blocks->block_count, "%u of %u blocks are free",
		blocks->free_count, blocks->block_count);
	engine_close(run->engine);
	run->runner.close(run->runner.state);
}

uint32_t sample_all(const struct subject *subject, bool is_eager, int32_t *tokens)
{
	struct error error = {0};
	struct run run;
	struct step_time time;
	struct engine_config config = run_config("mixed", 10);
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
