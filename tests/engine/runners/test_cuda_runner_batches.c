/* Batch invariance of whole runs on the GPU: tokens and K/V of a request have the same bits,
   whatever the batches that it is computed in. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/engine_internal.h"
#include "engine/runners/cuda_runner.h"
#include "tests/harness/cuda_run.h"
#include "tests/harness/small_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

TestSuite(cuda_runner_batches, .init = skip_without_device, .timeout = 300);

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

enum { LENGTH_MAX = PROMPT_MAX + OUTPUT_MAX, KV_TENSORS_MAX = 6 };

/* The tokens of a request, and for each position a hash of the keys, and one of the values, of each
   layer. */
struct outcome {
	uint32_t prompt_count, token_count;
	uint32_t cached_count, preemption_count;
	int32_t tokens[LENGTH_MAX];
	uint64_t kv[LENGTH_MAX][KV_TENSORS_MAX];
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

/* Called in the step that ends a sequence, before its blocks are given back. */
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
struct setup {
	const char *name;
	const char *policy;
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t blocks;
	bool is_one_by_one; /* one request after the other, each with an empty cache */
	bool is_eager;
	uint32_t background; /* others with prompts of a few tokens, there from the start */
};

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

static struct outcomes *run_setup(
	const struct subject *subject, const struct setup *setup, enum kernel_path path)
{
	struct error error = {0};
	struct outcomes *outcomes = memory_take(1, sizeof(*outcomes));
	struct engine_config config = run_config(setup->policy, setup->blocks);
	struct run run;
	uint32_t vocab_size = subject->model.vocab_size;

	config.max_num_seqs = setup->max_num_seqs;
	config.max_num_batched_tokens = setup->max_num_batched_tokens;
	open_cuda_path(&run, subject->weights, &config, path, setup->is_eager);
	add_background(run.engine, setup->background, vocab_size);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(run.engine);) {
		uint32_t count = setup->is_one_by_one ? !engine_has_work(run.engine) : 3;
		if (setup->is_one_by_one && count == 1) {
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

/* Compares every request, or only those that were never preempted. */
static void expect_equal_outcomes(const char *model, const char *name, const struct outcomes *a,
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

static const struct setup one_by_one = {"one by one", "prefill-first", 1, 512, 200, true, false, 0};

static const struct setup setups[] = {
	{"prompts whole", "prefill-first", 20, 2048, 200, false, false, 0},
	{"prompts whole, eager", "prefill-first", 20, 2048, 200, false, true, 0},
	{"chunks and decodes", "mixed", 20, 200, 200, false, false, 0},
	{"chunks of odd sizes", "mixed", 13, 61, 200, false, false, 0},
	{"chunks, eager", "mixed", 20, 130, 200, false, true, 0},
	{"one by one, chunks, other bucket", "mixed", 2, 100, 200, true, true, 0},
	{"a few at a time", "mixed", 3, 333, 200, false, false, 0},
};

/* Enough decode rows for every linear kernel. Their number falls from that of all requests, the
   background included, to one, through all numbers between. */
static const struct setup large_batches[] = {
	{"with 1 other", "mixed", 21, 100, 200, false, false, 1},
	{"with 63 others", "mixed", 83, 300, 330, false, false, 63},
	{"with 65 others, eager", "mixed", 85, 190, 330, false, true, 65},
	{"with 128 others, eager", "mixed", 148, 400, 460, false, true, 128},
	{"with 200 others, prompts whole", "prefill-first", 220, 2048, 600, false, false, 200},
	{"with 256 others, chunks of odd sizes", "mixed", 276, 333, 720, false, false, 256},
};

static void check_invariance(const struct subject *subject, enum kernel_path path,
	const struct setup *others, size_t count)
{
	char name[128];
	struct outcomes *base = run_setup(subject, &one_by_one, path);

	snprintf(name, sizeof(name), "%s, path %d", subject->model.name, (int)path);
	for (size_t i = 0; i < count; i++) {
		struct outcomes *other = run_setup(subject, &others[i], path);
		expect_equal_outcomes(name, others[i].name, base, other, true);
		cr_expect(other->preemptions == 0);
		cr_expect(other->most_decode_rows > others[i].background);
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

Test(cuda_runner_batches, requests_do_not_depend_on_the_batch)
{
	const size_t count = sizeof(setups) / sizeof(setups[0]);

	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		check_invariance(&subject, kernel_path_of_device(), setups, count);
		if (kernel_path_of_device() != KERNEL_PATH_GENERAL) {
			check_invariance(&subject, KERNEL_PATH_GENERAL, setups, count);
		}
		subject_close(&subject);
	}
}

Test(cuda_runner_batches, requests_do_not_depend_on_large_batches)
{
	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		check_invariance(&subject, kernel_path_of_device(), large_batches,
			sizeof(large_batches) / sizeof(large_batches[0]));
		subject_close(&subject);
	}
}

/* What is computed again after a preemption may have other bits than before. But a run that is
   repeated has the same bits, and requests that were never preempted keep theirs. */
Test(cuda_runner_batches, preempted_runs_repeat_bit_by_bit)
{
	static const struct setup preempted[] = {
		{"preempted, mixed", "mixed", 20, 200, 12, false, false, 0},
		{"preempted, prefill-first", "prefill-first", 20, 512, 12, false, false, 0},
		{"preempted, with 100 others", "mixed", 120, 300, 100, false, false, 100},
	};
	const uint32_t count = sizeof(preempted) / sizeof(preempted[0]);

	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		struct outcomes *base = run_setup(&subject, &one_by_one, kernel_path_of_device());
		for (uint32_t c = 0; c < count; c++) {
			struct outcomes *a =
				run_setup(&subject, &preempted[c], kernel_path_of_device());
			struct outcomes *b =
				run_setup(&subject, &preempted[c], kernel_path_of_device());
			cr_expect(a->preemptions > 0);
			expect_equal_outcomes(subject.model.name, preempted[c].name, a, b, true);
			expect_equal_outcomes(subject.model.name, "not preempted", base, a, false);
			free(a);
			free(b);
		}
		free(base);
		subject_close(&subject);
	}
}
