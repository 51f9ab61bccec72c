#include <criterion/criterion.h>

#include <string.h>

#include "engine/engine.h"
#include "engine/policy.h"
#include "engine/step_record.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/kv_oracle.h"

/* Where an engine says that its next step does not depend on arrivals, a twin that is given new
   requests before the step decides the same as one that is given them behind it. */

enum { PROMPT_MAX = 24, ANSWER_MAX = 8, TWINS = 2, STEPS = 40 };

/* Few different prompts, so that some share what is cached. */
enum { PROMPTS = 4 };

static int32_t tokens[PROMPTS][PROMPT_MAX + ANSWER_MAX];

struct pair {
	struct engine_config config;
	struct engine *twins[TWINS];
	uint64_t next_id;
};

static void draw_config(struct prop *prop, struct engine_config *config)
{
	static const struct policy *const policies[] = {
		&policy_mixed, &policy_prefill_first, &policy_vllm};
	const struct policy *policy = policies[prop_below(prop, 3)];
	bool is_vllm = policy == &policy_vllm;

	*config = (struct engine_config){.policy = policy,
		.allocation =
			is_vllm && prop_chance(prop, 1, 2) ? ALLOCATION_CHUNK : ALLOCATION_PROMPT,
		.strategies = {.free_order = policy->defaults.free_order,
			.equal_blocks = policy->defaults.equal_blocks,
			.has_null_block = policy->defaults.has_null_block},
		.prefix_caching = prop_chance(prop, 1, 2) ? PREFIX_CACHING_OFF : PREFIX_CACHING_ON,
		.block_size = prop_range(prop, 1, 5),
		.max_num_seqs = prop_range(prop, 1, 3),
		.max_model_len = PROMPT_MAX + ANSWER_MAX,
		.eos_token_id = -1};
	uint32_t longest = config->max_model_len / config->block_size + 2;
	config->kv_block_count = longest + prop_range(prop, 0, 2 * longest);
	config->max_num_batched_tokens =
		policy == &policy_prefill_first ? config->max_model_len : config->max_num_seqs;
	config->max_num_batched_tokens += prop_range(prop, 0, 15);
	if (is_vllm) {
		config->queue_order = prop_chance(prop, 1, 3) ? QUEUE_PRIORITY : QUEUE_FCFS;
		config->long_prefill_threshold =
			prop_chance(prop, 1, 2) ? prop_range(prop, 1, 9) : 0;
		config->has_no_full_gate = prop_chance(prop, 1, 3);
		config->watermark = prop_chance(prop, 1, 3) ? 0.1 : 0;
	}
	prop_log(prop, "policy %s, %u blocks of %u, %u seats, %u tokens, threshold %u, order %d",
		policy->name, config->kv_block_count, config->block_size, config->max_num_seqs,
		config->max_num_batched_tokens, config->long_prefill_threshold,
		(int)config->queue_order);
}

static struct request draw_request(struct prop *prop, struct pair *pair)
{
	uint64_t id = pair->next_id++;
	struct request request = {.id = id,
		.arrival = id,
		.prompt = tokens[prop_below(prop, PROMPTS)],
		.prompt_count = prop_range(prop, 1, PROMPT_MAX),
		.forced = tokens[0],
		.max_tokens = prop_range(prop, 1, ANSWER_MAX),
		.priority = (int32_t)prop_below(prop, 3),
		.ignore_eos = true};

	prop_log(prop, "request %u: prompt %u, answer %u, priority %d", (unsigned)id,
		request.prompt_count, request.max_tokens, request.priority);
	return request;
}

static void step(struct engine *engine)
{
	struct step_time time;
	struct error error = {0};

	require(engine_step(engine, &time, &error) == STATUS_OK, "%s", error.text);
	while (engine_take_finished(engine) != NULL) {
	}
}

static void require_same_decisions(const struct pair *pair)
{
	const struct step_decisions a = engine_decisions(pair->twins[0]);
	const struct step_decisions b = engine_decisions(pair->twins[1]);
	uint64_t here[STEP_COLUMN_COUNT], there[STEP_COLUMN_COUNT];

	step_count_values(a.counts, here + STEP_COLUMN_FIRST_COUNT);
	step_count_values(b.counts, there + STEP_COLUMN_FIRST_COUNT);
	for (uint32_t i = STEP_COLUMN_FIRST_COUNT; i < STEP_COLUMN_COUNT; i++) {
		/* Only one of them has the newcomers in its queue. */
		require(here[i] == there[i] || i == STEP_COLUMN_waiting, "%s: %u and %u",
			step_column_names[i], (unsigned)here[i], (unsigned)there[i]);
	}
	require_equal(a.wait_cause, b.wait_cause);
	require_equal(a.events->count, b.events->count);
	for (size_t i = 0; i < a.events->count; i++) {
		const struct event *x = &a.events->events[i], *y = &b.events->events[i];
		require(x->kind == y->kind && x->request == y->request && x->a == y->a &&
				x->b == y->b,
			"event %u differs", (unsigned)i);
	}
}

/* New requests, and a step of both twins; false: they may have no room. */
static bool advance(struct prop *prop, struct pair *pair)
{
	bool depends = engine_next_step_depends_on_arrivals(pair->twins[0]);
	struct request added[3];
	uint32_t count = prop_range(prop, 0, 3);

	for (uint32_t i = 0; i < count; i++) {
		added[i] = draw_request(prop, pair);
		require_equal(engine_has_room(pair->twins[0]), engine_has_room(pair->twins[1]));
	}
	for (uint32_t twin = 0; twin < TWINS; twin++) {
		struct engine *engine = pair->twins[twin];
		bool is_behind = twin == 0 && !depends;
		for (uint32_t pass = 0; pass < 2; pass++) {
			bool is_time = (pass == 1) == is_behind;
			for (uint32_t i = 0; is_time && i < count; i++) {
				if (!engine_has_room(engine)) {
					return false;
				}
				require_equal(engine_add(engine, &added[i], NULL), FIT_OK);
			}
			if (pass == 0 && engine_has_work(engine)) {
				step(engine);
			}
		}
	}
	return true;
}

static void body(struct prop *prop, const void *context)
{
	struct pair pair = {.next_id = 0};
	struct error error = {0};
	uint64_t seed = 0;
	const struct runner runner = counting_runner(&seed);
	(void)context;

	for (int32_t i = 0; i < PROMPTS * (PROMPT_MAX + ANSWER_MAX); i++) {
		tokens[i / (PROMPT_MAX + ANSWER_MAX)][i % (PROMPT_MAX + ANSWER_MAX)] = i;
	}
	draw_config(prop, &pair.config);
	for (uint32_t twin = 0; twin < TWINS; twin++) {
		require(engine_open(&pair.twins[twin], &pair.config, &runner, &error) == STATUS_OK,
			"%s", error.text);
	}
	for (uint32_t i = 0; i < STEPS && advance(prop, &pair); i++) {
		if (engine_has_work(pair.twins[0])) {
			require_same_decisions(&pair);
		}
	}
	for (uint32_t twin = 0; twin < TWINS; twin++) {
		engine_close(pair.twins[twin]);
	}
}

Test(newcomers, do_not_change_a_step_that_does_not_depend_on_them)
{
	struct prop_options options = {.name = "newcomers", .body = body, .trials = 1500};

	cr_assert(prop_holds(&options));
}
