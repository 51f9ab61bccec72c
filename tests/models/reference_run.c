#include "tests/models/reference_run.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/reference/reference_ranks.h"
#include "engine/reference/reference_runner.h"
#include "tests/harness/require.h"
#include "tests/harness/small_model.h"

struct serving {
	const struct reference_run_options *options;
	struct reference_run *run;
	struct runner runner;
	struct engine *engine;
	XXH64_state_t *hash;
	uint32_t finished;
};

static void hash_events(struct serving *serving, uint64_t step)
{
	const struct event_list *events = engine_decisions(serving->engine).events;

	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		const uint64_t record[] = {step, event->kind, event->request, event->a, event->b};
		require(XXH64_update(serving->hash, record, sizeof(record)) == XXH_OK, "no hash");
		require(event->kind != EVENT_REJECT, "a request does not fit");
		serving->run->cached_tokens += event->kind == EVENT_ADMIT ? event->a : 0;
		serving->run->chunks += event->kind == EVENT_CHUNK && !event->is_sampled;
	}
}

static void look_at_logits(struct serving *serving, const struct batch *batch)
{
	const struct reference_run_options *options = serving->options;
	uint32_t vocab_size = weights_config(options->weights)->vocab_size;
	const float *logits = reference_runner_logits(&serving->runner);

	for (uint32_t r = 0; r < batch->row_count; r++) {
		if (!batch->is_sampled[r]) {
			continue;
		}
		struct answer *answer = &serving->run->answers[batch->request[r]];
		uint32_t position = batch->sample_position[r];
		require_equal(answer->logits_hash[position], 0);
		answer->logits_hash[position] = XXH64(logits, vocab_size * sizeof(*logits), 0);
		if (options->look != NULL) {
			options->look(options->context, batch->request[r], position, logits);
		}
		logits += vocab_size;
	}
}

static void take_answers(struct serving *serving)
{
	const struct sequence *sequence;

	while ((sequence = engine_take_finished(serving->engine)) != NULL) {
		struct answer *answer = &serving->run->answers[sequence->request];
		answer->token_count = sequence->token_count;
		memcpy(answer->tokens, sequence->token_ids,
			sequence->token_count * sizeof(int32_t));
		serving->finished++;
	}
}

static void serve_step(struct serving *serving)
{
	struct step_time time;
	struct error error = {0};
	uint64_t start_ns = monotonic_ns();
	const struct batch *batch = engine_schedule(serving->engine);

	require(batch != NULL, "nothing to do, and requests are left");
	serving->run->steps++;
	serving->run->preemptions += batch->counts.preemptions;
	serving->run->mixed_steps +=
		batch->counts.decode_rows > 0 && batch->counts.prefill_rows > 0;
	for (uint32_t r = 0; serving->options->is_fed_back && r < batch->counts.decode_rows; r++) {
		batch->token_id[r] = -1;
	}
	require(engine_execute(serving->engine, &time, &error) == STATUS_OK, "%s", error.text);
	require(time.elapsed_ns == time.gpu_ns + time.host_ns, "parts of the time are missing");
	require(time.elapsed_ns <= monotonic_ns() - start_ns, "%llu ns are more than have passed",
		(unsigned long long)time.elapsed_ns);
	require_equal(time.mode, STEP_MODE_EAGER);
	if (!serving->options->has_processes) {
		look_at_logits(serving, batch);
	}
	engine_postprocess(serving->engine);
	hash_events(serving, batch->step);
	engine_check(serving->engine);
	take_answers(serving);
}

void reference_run(struct reference_run *run, const struct request *requests,
	uint32_t request_count, const struct reference_run_options *options)
{
	struct serving serving = {.options = options, .run = run, .hash = XXH64_createState()};
	const struct reference_options runner_options = {
		.weights = options->weights,
		.engine = options->engine,
		.rounding = options->rounding,
		.seed = options->seed,
		.ranks = options->ranks,
	};
	struct error error = {0};

	memset(run, 0, sizeof(*run));
	run->answers = memory_take(request_count, sizeof(*run->answers));
	run->request_count = request_count;
	run->has_logits = !options->has_processes;
	require(XXH64_reset(serving.hash, 0) == XXH_OK, "no hash");
	enum status status =
		options->has_processes
			? reference_ranks_open(&serving.runner, &runner_options, &error)
			: reference_runner_open(&serving.runner, &runner_options, &error);
	require(status == STATUS_OK, "%s", error.text);
	require(engine_open(&serving.engine, options->engine, &serving.runner, &error) == STATUS_OK,
		"%s", error.text);
	for (uint32_t i = 0; i < request_count; i++) {
		size_t capacity = (size_t)requests[i].prompt_count + requests[i].max_tokens;
		run->answers[i].prompt_count = requests[i].prompt_count;
		run->answers[i].tokens = memory_take(capacity, sizeof(int32_t));
		run->answers[i].logits_hash = memory_take(capacity, sizeof(uint64_t));
		while (!engine_has_room(serving.engine) ||
			(options->is_one_by_one && serving.finished < i)) {
			serve_step(&serving);
		}
		require_equal(requests[i].id, i);
		require_equal(engine_add(serving.engine, &requests[i], NULL), FIT_OK);
	}
	while (serving.finished < request_count) {
		serve_step(&serving);
	}
	run->event_hash = XXH64_digest(serving.hash);
	engine_close(serving.engine);
	serving.runner.close(serving.runner.state);
	XXH64_freeState(serving.hash);
}

void reference_run_deinit(struct reference_run *run)
{
	for (uint32_t i = 0; i < run->request_count; i++) {
		free(run->answers[i].tokens);
		free(run->answers[i].logits_hash);
	}
	free(run->answers);
}

void require_same_answers(
	const struct reference_run *a, const struct reference_run *b, const char *what)
{
	require_equal(a->request_count, b->request_count);
	for (uint32_t i = 0; i < a->request_count; i++) {
		const struct answer *x = &a->answers[i];
		const struct answer *y = &b->answers[i];
		require(x->token_count == y->token_count, "%s: request %u has %u tokens, or %u",
			what, i, x->token_count, y->token_count);
		for (uint32_t p = 0; p < x->token_count; p++) {
			require(x->tokens[p] == y->tokens[p],
				"%s: token %u of request %u is %d, or %d", what, p, i, x->tokens[p],
				y->tokens[p]);
			require(a->has_logits != b->has_logits ||
					x->logits_hash[p] == y->logits_hash[p],
				"%s: the logits of token %u of request %u differ in a bit", what, p,
				i);
		}
	}
}

struct model_config tiny_model(uint32_t vocab_size)
{
	return (struct model_config)SMALL_MODEL(.name = "tiny", .hidden_size = 16,
		.num_hidden_layers = 2, .num_attention_heads = 4, .num_key_value_heads = 2,
		.head_dim = 6, .intermediate_size = 20, .vocab_size = vocab_size,
		.attention_bias = true, .tie_word_embeddings = false);
}

struct model_config tiny_model_of_8_heads(uint32_t vocab_size)
{
	struct model_config model = tiny_model(vocab_size);

	model.num_attention_heads = 16;
	model.num_key_value_heads = 8;
	model.intermediate_size = 40;
	return model;
}

struct weights *open_weights(const struct model_config *model, const char *source)
{
	struct weights *weights;
	struct error error = {0};

	require(weights_open(&weights, model, source, &error) == STATUS_OK, "%s", error.text);
	return weights;
}
