/* Logits of the CUDA runner against those of the reference runner that rounds to bf16 as a GPU
   does, with made-up models and those of tests/fixtures/models whose size of a head it takes.
   Tokens are forced, so both take the same steps and every step's logits can be compared. */

#include "engine/base/memory.h"
#include "engine/engine_internal.h"
#include "engine/runners/cuda_runner.h"
#include "engine/reference/reference_runner.h"
#include "tests/harness/cuda_comparison.h"
#include "tests/harness/small_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_runner_logits, .init = skip_without_device, .timeout = 300);

static void compare_policies(const struct subject *subject)
{
	struct comparison graphs = compare_runs(subject, "prefill-first", 200, false, 1);
	struct comparison eager = compare_runs(subject, "prefill-first", 200, true, 1);

	compare_runs(subject, "mixed", 200, false, 1);
	cr_expect(graphs.graph_steps > 0 && graphs.eager_steps > 0);
	cr_expect(eager.graph_steps == 0 && eager.eager_steps > 0);
}

Test(cuda_runner_logits, logits_are_those_of_the_reference)
{
	struct subject subject;

	subject_open_small(&subject);
	compare_policies(&subject);
	subject_close(&subject);
}

Test(cuda_runner_logits, logits_of_stored_models_are_those_of_the_reference)
{
	for (uint32_t i = 0; i < FIXTURE_COUNT; i++) {
		struct subject subject;
		subject_open_fixture(&subject, i);
		compare_policies(&subject);
		subject_close(&subject);
	}
}

Test(cuda_runner_logits, logits_are_right_with_preemptions)
{
	struct subject subject;

	subject_open_small(&subject);
	cr_expect(compare_runs(&subject, "mixed", 10, false, 1).preemptions > 0);
	cr_expect(compare_runs(&subject, "prefill-first", 10, false, 1).preemptions > 0);
	subject_close(&subject);
}

static void check_graphs(const struct subject *subject)
{
	int32_t eager[REQUESTS * OUTPUT_MAX], graph[REQUESTS * OUTPUT_MAX];
	uint32_t count = sample_all(subject, true, eager);

	cr_assert(count > REQUESTS);
	cr_assert(count == sample_all(subject, false, graph));
	cr_expect(memcmp(eager, graph, count * sizeof(int32_t)) == 0, "%s", subject->model.name);
}

Test(cuda_runner_logits, graphs_and_eager_steps_sample_the_same)
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

/* ---- a prompt that repeats a completion ---- */

/* Two of a layer's weights have an order of sums for decode rows that is not that of prompts. */
static const struct model_config DIALOG_MODEL =
	SMALL_MODEL(.name = "hidden-512", .hidden_size = 512, .num_hidden_layers = 2,
		.num_attention_heads = 16, .num_key_value_heads = 4, .head_dim = 128,
		.intermediate_size = 2048, .vocab_size = 1000, .tie_word_embeddings = true);

/* Token counts: the first turn is a prompt and its completion; the second turn adds a question to
   them and has an answer. */
enum { DIALOG_PROMPT = 130, DIALOG_COMPLETION = 80, DIALOG_QUESTION = 20, DIALOG_ANSWER = 12 };
enum { DIALOG_TURN = DIALOG_PROMPT + DIALOG_COMPLETION };

/* The second turn: what it found in the cache, and the logits of its answer. */
struct dialog {
	uint32_t cached_count, row_count;
	float logits[DIALOG_ANSWER][1000]; /* of DIALOG_MODEL's vocabulary */
};

/* Computes a turn whose tokens are forced. Returns how many tokens of its prompt were cached. */
static uint32_t run_turn(struct run *run, uint32_t prompt_count, uint32_t output_count,
	bool is_cuda, struct dialog *dialog)
{
	struct error error = {0};
	struct step_time time;
	int32_t tokens[DIALOG_TURN + DIALOG_QUESTION + DIALOG_ANSWER];
	const struct sequence *sequence = NULL;

	for (uint32_t i = 0; i < prompt_count + output_count; i++) {
		tokens[i] = request_token(1, 1, i, DIALOG_MODEL.vocab_size);
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
	for (dialog->row_count = 0; engine_has_work(run->engine);) {
		cr_assert(engine_step(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
		sequence = engine_take_finished(run->engine);
		if (run->engine->scheduler.batch.counts.sampled_rows == 0) {
			continue;
		}
		float *row = dialog->logits[dialog->row_count++ % DIALOG_ANSWER];
		if (is_cuda) {
			cr_assert(cuda_runner_logits(&run->runner, 1, row, &error) == STATUS_OK);
		} else {
			memcpy(row, reference_runner_logits(&run->runner),
				sizeof(dialog->logits[0]));
		}
	}
	cr_assert(sequence != NULL);
	cr_assert(dialog->row_count == output_count);
	return sequence->cached_count;
}

/* Computes two turns. is_computed: the cache is emptied between them. */
static void run_dialog(struct run *run, bool is_cuda, bool is_computed, struct dialog *dialog)
{
	struct error error = {0};
	struct engine_config config = run->engine->scheduler.config;

	cr_assert(run_turn(run, DIALOG_PROMPT, DIALOG_COMPLETION, is_cuda, dialog) == 0);
	if (is_computed) {
		engine_close(run->engine);
		cr_assert(engine_open(&run->engine, &config, &run->runner, &error) == STATUS_OK);
	}
	dialog->cached_count =
		run_turn(run, DIALOG_TURN + DIALOG_QUESTION, DIALOG_ANSWER, is_cuda, dialog);
	cr_expect(is_computed ? dialog->cached_count == 0 : dialog->cached_count > DIALOG_PROMPT,
		"%u tokens found", dialog->cached_count);
	close_run(run);
}

static struct dialog *dialog_on_gpu(
	const struct subject *subject, enum kernel_path path, bool is_eager, bool is_computed)
{
	struct engine_config config = run_config("mixed", 60);
	struct dialog *dialog = memory_take(1, sizeof(*dialog));
	struct run run;

	open_cuda_path(&run, subject->weights, &config, path, is_eager);
	run_dialog(&run, true, is_computed, dialog);
	return dialog;
}

static struct dialog *dialog_on_cpu(const struct subject *subject, enum rounding rounding)
{
	struct engine_config config = run_config("mixed", 60);
	struct dialog *dialog = memory_take(1, sizeof(*dialog));
	struct run run;

	open_reference(&run, subject->weights, &config, rounding);
	run_dialog(&run, false, false, dialog);
	return dialog;
}

static double distance(const struct dialog *a, const struct dialog *b)
{
	size_t count = sizeof(a->logits) / sizeof(a->logits[0][0]);

	return sqrt(squared_distance(a->logits[0], b->logits[0], count) /
		    squared_size(b->logits[0], count));
}

/* Where the second turn finds the completion in the cache, decode rows have computed its K/V; where
   it does not, prefill rows do, and the bits may differ. Both are as far from the exact logits as
   rounding to bf16 makes them, so at most twice as far from each other. A repeated run has the same
   bits. */
static void check_dialog(const struct subject *subject, enum kernel_path path, double rounding,
	const struct dialog *exact)
{
	struct dialog *computed = dialog_on_gpu(subject, path, false, true);
	struct dialog *found = dialog_on_gpu(subject, path, false, false);
	struct dialog *again = dialog_on_gpu(subject, path, false, false);
	struct dialog *eager = dialog_on_gpu(subject, path, true, false);

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

Test(cuda_runner_logits, prompts_that_repeat_a_completion_are_close_to_the_computed)
{
	struct error error = {0};
	struct subject subject = {.model = DIALOG_MODEL};

	cr_assert(weights_open(&subject.weights, &subject.model, "dummy:5", &error) == STATUS_OK,
		"%s", error.text);
	struct dialog *exact = dialog_on_cpu(&subject, ROUNDING_NONE);
	struct dialog *rounded = dialog_on_cpu(&subject, ROUNDING_BF16);
	double rounding = distance(rounded, exact);
	cr_expect(rounding > 0);
	check_dialog(&subject, kernel_path_of_device(), rounding, exact);
	if (kernel_path_of_device() != KERNEL_PATH_GENERAL) {
		check_dialog(&subject, KERNEL_PATH_GENERAL, rounding, exact);
	}
	free(exact);
	free(rounded);
	subject_close(&subject);
}
