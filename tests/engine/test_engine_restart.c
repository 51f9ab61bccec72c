#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/policy.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/kv_oracle.h"

/* An engine that was restarted in the middle of any work decides as a new one does, step by step.
   Only the numbers of its steps go on. */

enum { REQUESTS_MOST = 32, TOKENS_MOST = 48, BLOCK_SIZE = 4 };

struct bench {
	struct engine_config config;
	struct kv_oracle oracle;
	struct runner runner;
	struct engine *engine;
	struct block_log log;
};

static void open_bench(struct bench *bench, const struct engine_config *config)
{
	struct error error = {0};

	memset(bench, 0, sizeof(*bench));
	bench->config = *config;
	kv_oracle_init(&bench->oracle, &bench->config, REQUESTS_MOST, 1000, 1);
	bench->runner = kv_oracle_runner(&bench->oracle);
	require(engine_open(&bench->engine, &bench->config, &bench->runner, &error) == STATUS_OK,
		"%s", error.text);
	engine_set_block_log(bench->engine, &bench->log);
}

static void close_bench(struct bench *bench)
{
	engine_close(bench->engine);
	kv_oracle_deinit(&bench->oracle);
	free(bench->log.changes);
}

/* A request, of which some begin with the same tokens. */
struct drawn_request {
	int32_t prompt[TOKENS_MOST];
	struct request request;
};

static void draw_request(struct prop *prop, struct drawn_request *out, uint64_t id)
{
	uint32_t count = prop_range(prop, 1, TOKENS_MOST / 2), shared = prop_range(prop, 0, 24);
	int32_t family = (int32_t)prop_below(prop, 2);

	for (uint32_t i = 0; i < count; i++) {
		out->prompt[i] = i < shared ? 100 * family + (int32_t)i
					    : 1000 + 50 * (int32_t)id + (int32_t)i;
	}
	out->request = (struct request){.id = id,
		.prompt = out->prompt,
		.prompt_count = count,
		.max_tokens = prop_range(prop, 1, TOKENS_MOST - count),
		.ignore_eos = true};
}

static void add(struct bench *bench, const struct request *request)
{
	if (engine_has_room(bench->engine) && engine_add(bench->engine, request, NULL) == FIT_OK) {
		kv_oracle_add(&bench->oracle, request);
	}
}

static void step(struct bench *bench)
{
	struct step_time time;
	struct error error = {0};

	bench->log.count = 0;
	require(engine_step(bench->engine, &time, &error) == STATUS_OK, "%s", error.text);
	engine_check(bench->engine);
}

static void require_same(const struct bench *again, const struct bench *fresh, uint64_t first_step)
{
	const struct step_decisions a = engine_decisions(again->engine);
	const struct step_decisions b = engine_decisions(fresh->engine);

	require_equal(
		engine_batch(again->engine)->step, first_step + engine_batch(fresh->engine)->step);
#define SAME_COUNT(column) require_equal(a.counts->column, b.counts->column);
	STEP_COUNT_LIST(SAME_COUNT)
#undef SAME_COUNT
	require_equal(a.wait_cause, b.wait_cause);
	require_equal(a.events->count, b.events->count);
	for (size_t i = 0; i < a.events->count; i++) {
		const struct event *one = &a.events->events[i], *other = &b.events->events[i];
		require(one->kind == other->kind && one->request == other->request &&
				one->a == other->a && one->b == other->b &&
				one->has_evicted == other->has_evicted &&
				one->is_sampled == other->is_sampled &&
				one->recomputed == other->recomputed,
			"event %zu differs", i);
	}
	require_equal(again->log.count, fresh->log.count);
	for (size_t i = 0; i < again->log.count; i++) {
		const struct block_change *one = &again->log.changes[i];
		const struct block_change *other = &fresh->log.changes[i];
		require(memcmp(&one->key, &other->key, sizeof(one->key)) == 0 &&
				one->is_added == other->is_added,
			"change %zu of the cache differs", i);
	}
	require_equal(engine_waiting_count(again->engine), engine_waiting_count(fresh->engine));
	require_equal(
		engine_used_block_count(again->engine), engine_used_block_count(fresh->engine));
	require_equal(engine_has_room(again->engine), engine_has_room(fresh->engine));
	require_equal(engine_has_work(again->engine), engine_has_work(fresh->engine));
}

/* Takes what has finished out of both. */
static void take_finished(struct bench *again, struct bench *fresh)
{
	const struct sequence *one, *other;

	do {
		one = engine_take_finished(again->engine);
		other = engine_take_finished(fresh->engine);
		require((one == NULL) == (other == NULL), "one has finished more");
		require(one == NULL || (one->request == other->request &&
					       one->preemption_count == other->preemption_count &&
					       one->cached_count == other->cached_count),
			"another has finished");
	} while (one != NULL);
}

static void body_restart(struct prop *prop, const void *context)
{
	static const struct policy *const policies[] = {&policy_mixed, &policy_prefill_first};
	struct drawn_request drawn[REQUESTS_MOST];
	struct bench again, fresh;
	uint32_t before = prop_range(prop, 1, REQUESTS_MOST / 2), count = before, steps = 0;
	const struct engine_config config = {.policy = policies[prop_below(prop, 2)],
		.block_size = BLOCK_SIZE,
		.kv_block_count = prop_range(prop, TOKENS_MOST / BLOCK_SIZE, 40),
		.max_num_seqs = prop_range(prop, 1, 6),
		.max_num_batched_tokens = TOKENS_MOST,
		.max_model_len = TOKENS_MOST,
		.eos_token_id = -1};

	(void)context;
	open_bench(&again, &config);
	for (uint32_t i = 0; i < before; i++) {
		draw_request(prop, &drawn[i], i);
		add(&again, &drawn[i].request);
	}
	for (uint32_t left = prop_range(prop, 0, 40); left > 0 && engine_has_work(again.engine);
		left--, steps++) {
		step(&again);
		while (engine_take_finished(again.engine) != NULL && prop_chance(prop, 1, 2)) {
		}
	}
	engine_restart(again.engine);
	open_bench(&fresh, &config);
	while (count < REQUESTS_MOST || engine_has_work(fresh.engine)) {
		for (uint32_t more = prop_range(prop, 0, 3); more > 0 && count < REQUESTS_MOST;
			more--, count++) {
			draw_request(prop, &drawn[count], count);
			add(&again, &drawn[count].request);
			add(&fresh, &drawn[count].request);
		}
		require_equal(engine_has_work(again.engine), engine_has_work(fresh.engine));
		if (engine_has_work(fresh.engine)) {
			step(&again);
			step(&fresh);
			require_same(&again, &fresh, steps);
			take_finished(&again, &fresh);
		}
	}
	close_bench(&again);
	close_bench(&fresh);
}

Test(engine_restart, decides_as_a_new_engine, .timeout = 240)
{
	const struct prop_options options = {
		.name = "restarted engine", .body = body_restart, .trials = 300};

	cr_assert(prop_holds(&options));
}
