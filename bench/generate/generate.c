#include "bench/generate/generate.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status check_fit(const struct engine_config *config,
	const struct generate_prompts *prompts, struct error *error)
{
	char what[160];

	for (uint32_t i = 0; i < prompts->count; i++) {
		const struct generate_prompt *prompt = &prompts->items[i];
		enum fit fit = engine_config_fit(config, prompt->ids.count, prompt->max_tokens);
		if (fit == FIT_TOO_LONG) {
			snprintf(what, sizeof(what),
				"found %zu %s to continue by %u, expected at most %u together "
				"(--max-model-len)",
				prompt->ids.count,
				word_of_count(prompt->ids.count, "token", "tokens"),
				prompt->max_tokens, config->max_model_len);
		} else if (fit == FIT_NEVER) {
			snprintf(what, sizeof(what),
				"found %zu %s to continue by %u, expected no more than %u %s of %u "
				"hold (--kv-blocks)",
				prompt->ids.count,
				word_of_count(prompt->ids.count, "token", "tokens"),
				prompt->max_tokens, config->kv_block_count,
				word_of_count(config->kv_block_count, "block", "blocks"),
				config->block_size);
		}
		if (fit != FIT_OK) {
			return generate_prompts_refuse(prompts, prompt, what, error);
		}
	}
	return STATUS_OK;
}

enum status generation_open(struct generation *generation, const struct engine_config *config,
	const struct runner *runner, const struct tokenizer *tokenizer,
	const struct generate_prompts *prompts, struct error *error)
{
	memset(generation, 0, sizeof(*generation));
	check(runner->is_computing && prompts->count > 0);
	TRY(engine_config_validate(config, error));
	TRY(check_fit(config, prompts, error));
	TRY(engine_open(&generation->engine, config, runner, error));
	generation->runner = runner;
	generation->tokenizer = tokenizer;
	generation->prompts = prompts;
	generation->answers = memory_take(prompts->count, sizeof(*generation->answers));
	return STATUS_OK;
}

void generation_close(struct generation *generation)
{
	for (uint32_t i = 0; generation->answers != NULL && i < generation->prompts->count; i++) {
		free(generation->answers[i].ids.ids);
		free(generation->answers[i].text.bytes);
	}
	free(generation->answers);
	engine_close(generation->engine);
	memset(generation, 0, sizeof(*generation));
}

static void add_prompts(struct generation *generation)
{
	while (generation->added_count < generation->prompts->count &&
		engine_has_room(generation->engine)) {
		const struct generate_prompt *prompt =
			&generation->prompts->items[generation->added_count];
		const struct request request = {
			.id = generation->added_count,
			.prompt = prompt->ids.ids,
			.prompt_count = u32_from(prompt->ids.count),
			.max_tokens = prompt->max_tokens,
			.temperature = prompt->temperature,
			.ignore_eos = prompt->ignore_eos,
		};
		enum fit fit = engine_add(generation->engine, &request, NULL);
		check(fit == FIT_OK);
		generation->added_count++;
	}
}

/* Appends the tokens that the step sampled to their answers. */
static void append_tokens(struct generation *generation)
{
	const struct batch *batch = engine_batch(generation->engine);
	const int32_t *token = engine_token_ids(generation->engine);

	for (uint32_t i = 0; i < batch->row_count; i++) {
		if (!batch->is_sampled[i]) {
			continue;
		}
		struct generate_answer *answer = &generation->answers[batch->request[i]];
		token_list_add(&answer->ids, *token);
		tokenizer_decode(
			generation->tokenizer, *token, true, &answer->stream, &answer->text);
		token++;
	}
}

static void end_answers(struct generation *generation)
{
	const struct sequence *sequence = NULL;

	while ((sequence = engine_take_finished(generation->engine)) != NULL) {
		struct generate_answer *answer = &generation->answers[sequence->request];
		uint32_t count = sequence_completion_count(sequence);
		int32_t last = sequence->token_ids[sequence->token_count - 1];
		check(!answer->is_finished && answer->ids.count == count);
		check(answer->ids.ids[count - 1] == last);
		utf8_end(&answer->stream, &answer->text);
		answer->is_finished = true;
		answer->is_stopped = !sequence->ignore_eos &&
				     engine_config_is_eos(engine_limits(generation->engine), last);
		answer->cached_tokens = sequence->cached_count;
		generation->finished_count++;
	}
}

static void count_time(struct generate_speed *speed, const struct step_counts *counts,
	const struct step_time *time)
{
	uint64_t tokens = counts->prefill_tokens + counts->decode_rows;
	uint64_t prefill_ns =
		tokens == 0 ? 0
			    : (uint64_t)((u128)time->elapsed_ns * counts->prefill_tokens / tokens);

	speed->prefill_tokens += counts->prefill_tokens;
	speed->prefill_ns += prefill_ns;
	speed->decode_tokens += counts->decode_rows;
	speed->decode_ns += counts->decode_rows == 0 ? 0 : time->elapsed_ns - prefill_ns;
}

enum status generation_step(struct generation *generation, bool *is_done, struct error *error)
{
	struct engine *engine = generation->engine;
	const struct runner *runner = generation->runner;
	struct step_time time;
	uint64_t start_ns = 0;

	add_prompts(generation);
	if (runner->start != NULL) {
		TRY(runner->start(runner->state, 0, &start_ns, error));
	}
	const struct batch *batch = engine_schedule(engine);
	check(batch != NULL);
	TRY(engine_execute(engine, &time, error));
	append_tokens(generation);
	engine_postprocess(engine);
	count_time(&generation->speed, &batch->counts, &time);
	end_answers(generation);
	*is_done = generation->finished_count == generation->prompts->count;
	return STATUS_OK;
}

uint64_t generate_rate(uint64_t tokens, uint64_t elapsed_ns)
{
	return elapsed_ns == 0 ? 0 : (uint64_t)((u128)tokens * 1000000000 / elapsed_ns);
}
