#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/policy.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/kv_oracle.h"

/* What a runner is given under policy vllm, synchronous or not: the oracle demands that every slot
   holds the prefix that the row reads, also where the last token is fed back, and answers depend on
   the request only. */

enum { REQUESTS = 10, PROMPT_MAX = 20, ANSWER_MAX = 12 };

struct drawn {
	int32_t prompt[PROMPT_MAX];
	uint32_t prompt_count, max_tokens;
};

struct answer {
	int32_t tokens[ANSWER_MAX];
	uint32_t count;
};

static struct engine_config draw_config(struct prop *prop)
{
	const struct policy_defaults *own = &policy_vllm.defaults;
	struct engine_config config = {
		.policy = &policy_vllm,
		.allocation = own->allocation,
		.strategies = {.free_order = own->free_order,
			.equal_blocks = own->equal_blocks,
			.has_null_block = own->has_null_block},
		.block_size = prop_range(prop, 1, 5),
		.max_num_seqs = prop_range(prop, 1, 5),
		.max_model_len = PROMPT_MAX + ANSWER_MAX + 1,
		.eos_token_id = -1,
		.is_async = prop_chance(prop, 1, 2),
		.long_prefill_threshold = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 6) : 0,
	};
	uint32_t longest = (config.max_model_len + config.block_size - 1) / config.block_size;
	config.kv_block_count = 1 + longest + prop_range(prop, 0, longest);
	config.max_num_batched_tokens = config.max_num_seqs + prop_range(prop, 0, 20);
	prop_log(prop, "%s, %u blocks of %u, %u seats, %u tokens, threshold %u",
		config.is_async ? "asynchronous" : "synchronous", config.kv_block_count,
		config.block_size, config.max_num_seqs, config.max_num_batched_tokens,
		config.long_prefill_threshold);
	return config;
}

static void take_finished(struct engine *engine, const struct drawn *drawn, struct answer *answers)
{
	const struct sequence *sequence;

	while ((sequence = engine_take_finished(engine)) != NULL) {
		struct answer *own = &answers[sequence->request];
		own->count = sequence_completion_count(sequence);
		require_equal(own->count, drawn[sequence->request].max_tokens);
		memcpy(own->tokens, sequence->token_ids + sequence->prompt_count,
			own->count * sizeof(int32_t));
	}
}

static void run(const struct engine_config *config, const struct drawn *drawn,
	uint32_t request_count, struct answer *answers)
{
	struct kv_oracle oracle;
	struct engine *engine;
	struct error error = {0};
	struct step_time time;
	uint32_t added = 0;

	kv_oracle_init(&oracle, config, REQUESTS, 1000, 7);
	const struct runner runner = kv_oracle_runner(&oracle);
	require(engine_open(&engine, config, &runner, &error) == STATUS_OK, "%s", error.text);
	while (added < request_count || engine_has_work(engine)) {
		while (added < request_count && engine_has_room(engine)) {
			const struct request request = {.id = added,
				.prompt = drawn[added].prompt,
				.prompt_count = drawn[added].prompt_count,
				.max_tokens = drawn[added].max_tokens,
				.temperature = 1,
				.ignore_eos = true};
			require_equal(engine_add(engine, &request, NULL), FIT_OK);
			kv_oracle_add(&oracle, &request);
			added++;
		}
		require(engine_step(engine, &time, &error) == STATUS_OK, "%s", error.text);
		engine_check(engine);
		take_finished(engine, drawn, answers);
	}
	engine_close(engine);
	kv_oracle_deinit(&oracle);
}

static void body(struct prop *prop, const void *context)
{
	struct drawn drawn[REQUESTS];
	struct answer answers[REQUESTS] = {0}, alone[REQUESTS] = {0};
	struct engine_config config = draw_config(prop);
	uint32_t request_count = prop_range(prop, 1, REQUESTS);
	uint32_t vocabulary = prop_range(prop, 1, 3);
	(void)context;

	for (uint32_t i = 0; i < request_count; i++) {
		drawn[i].prompt_count = prop_range(prop, 1, PROMPT_MAX);
		drawn[i].max_tokens = prop_range(prop, 1, ANSWER_MAX);
		for (uint32_t j = 0; j < drawn[i].prompt_count; j++) {
			drawn[i].prompt[j] = (int32_t)prop_below(prop, vocabulary);
		}
	}
	run(&config, drawn, request_count, answers);
	config.is_async = false;
	config.long_prefill_threshold = 0;
	config.max_num_seqs = 1;
	run(&config, drawn, request_count, alone);
	for (uint32_t i = 0; i < request_count; i++) {
		require_equal(answers[i].count, drawn[i].max_tokens);
		require(memcmp(answers[i].tokens, alone[i].tokens,
				answers[i].count * sizeof(int32_t)) == 0,
			"the answer of request %u is another one alone", i);
	}
}

/* A step that ends while the next is decided already has the cause that its own decision found, and
   not that of the next: of three requests for one seat the others wait for it until the last. */
Test(engine_async, a_step_keeps_the_cause_of_its_own_waits)
{
	const struct policy_defaults *own = &policy_vllm.defaults;

	for (uint32_t is_async = 0; is_async < 2; is_async++) {
		struct engine_config config = {.policy = &policy_vllm,
			.allocation = own->allocation,
			.strategies = {.free_order = own->free_order,
				.equal_blocks = own->equal_blocks,
				.has_null_block = own->has_null_block},
			.block_size = 4,
			.kv_block_count = 40,
			.max_num_seqs = 1,
			.max_num_batched_tokens = 20,
			.max_model_len = PROMPT_MAX + ANSWER_MAX + 1,
			.eos_token_id = -1,
			.is_async = is_async != 0};
		static const int32_t prompt[5];
		struct kv_oracle oracle;
		struct engine *engine;
		struct error error = {0};
		struct step_time time;
		uint32_t waits = 0;
		kv_oracle_init(&oracle, &config, REQUESTS, 1000, 7);
		const struct runner runner = kv_oracle_runner(&oracle);
		require(engine_open(&engine, &config, &runner, &error) == STATUS_OK, "%s",
			error.text);
		for (uint32_t i = 0; i < 3; i++) {
			const struct request request = {.id = i,
				.prompt = prompt,
				.prompt_count = 5,
				.max_tokens = 6,
				.temperature = 1,
				.ignore_eos = true};
			require_equal(engine_add(engine, &request, NULL), FIT_OK);
			kv_oracle_add(&oracle, &request);
		}
		while (engine_has_work(engine)) {
			require(engine_step(engine, &time, &error) == STATUS_OK, "%s", error.text);
			const struct step_decisions decisions = engine_decisions(engine);
			if (decisions.counts->waiting > 0) {
				require_equal(decisions.wait_cause, WAIT_SEATS);
				waits++;
			}
			while (engine_take_finished(engine) != NULL) {
			}
		}
		require(waits >= 10, "%u steps with requests that wait", waits);
		engine_close(engine);
		kv_oracle_deinit(&oracle);
	}
}

Test(engine_async, runners_read_what_was_computed)
{
	struct prop_options options = {
		.name = "policy vllm over the KV oracle", .body = body, .trials = 1000};

	cr_assert(prop_holds(&options));
}
