#include "bench/record/metrics.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/policy.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"
#include "tests/models/metrics_model.h"

static void body_metrics(struct prop *prop, const void *context)
{
	const char *path = context;
	struct metrics_model *model = malloc(sizeof(*model));

	require(model != NULL, "out of memory");
	metrics_model_open(model, prop, path);
	metrics_model_run(model);
	metrics_model_require_same(model, path);
	metrics_model_close(model);
	free(model);
}

Test(metrics, figures_equal_those_of_a_model_that_writes_everything_down, .timeout = 600)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {
		.name = "metrics", .body = body_metrics, .context = path, .trials = 1000};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* ---- memory ---- */

struct flow {
	struct engine_config config;
	uint32_t first_max_tokens; /* of the first request; all others want one token */
	uint64_t count;
};

static enum status take_a_nanosecond(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)state;
	(void)batch;
	(void)token_ids;
	(void)error;
	*time = (struct step_time){.elapsed_ns = 1};
	return STATUS_OK;
}

/* Runs the flow's prompts of one token, as many per step as fit. Returns the largest number of
   entries that the ring of fresh sequences had room for. */
static uint32_t run_flow(const struct flow *flow, const char *path)
{
	static struct table_writer table;
	static struct metrics metrics;
	const struct runner runner = {.name = "nanosecond", .execute = take_a_nanosecond};
	const struct metrics_options options = {0};
	const int32_t tokens[64] = {0};
	struct engine *engine;
	struct error error = {0};
	uint64_t now_ns = 0;

	require(engine_open(&engine, &flow->config, &runner, &error) == STATUS_OK, "%s",
		error.text);
	table_file_open(&table, path, REQUEST_COLUMNS);
	metrics_init(&metrics, &options, engine_slot_count(engine), &table);
	for (uint64_t id = 0; id < flow->count || engine_has_work(engine); now_ns++) {
		for (; id < flow->count && engine_has_room(engine); id++) {
			const struct request request = {.id = id,
				.prompt = tokens,
				.prompt_count = 1,
				.forced = tokens,
				.max_tokens = id == 0 ? flow->first_max_tokens : 1,
				.ignore_eos = true};
			const struct metrics_arrival arrival = {.id = id,
				.arrival_ns = now_ns,
				.prompt_tokens = 1,
				.max_tokens = request.max_tokens};
			uint32_t slot;
			require_equal(engine_add(engine, &request, &slot), FIT_OK);
			metrics_arrive(&metrics, slot, &arrival, now_ns);
		}
		struct step_time time;
		require_equal(engine_step(engine, &time, &error), STATUS_OK);
		const struct step_decisions decisions = engine_decisions(engine);
		metrics_step(&metrics, engine, &decisions, now_ns, now_ns + 1, 0);
		while (engine_take_finished(engine) != NULL) {
		}
	}
	require_equal(metrics.finished, flow->count);
	require_equal(
		metrics.distributions->latency[LATENCY_ITL].count, flow->first_max_tokens - 1);
	uint32_t capacity = metrics.fresh_capacity;
	metrics_deinit(&metrics);
	engine_close(engine);
	table_file_close(&table);
	return capacity;
}

/* Memory depends on the engine's limits and not on the length of the run, also where no step, or
   hardly any, decodes: sequences that end with their first token never leave the ring of fresh ones
   by decoding. */
Test(metrics, memory_does_not_grow_with_the_run)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct flow flow = {
		.config = {.policy = &policy_mixed,
			.block_size = 1,
			.kv_block_count = 64,
			.max_num_seqs = 8,
			.max_num_batched_tokens = 64,
			.max_model_len = 64,
			.eos_token_id = -1},
		.first_max_tokens = 1,
		.count = 20000,
	};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	cr_expect_leq(run_flow(&flow, path), 256);
	/* prefill-first: the first one does not decode as long as prompts come. */
	flow.config.policy = &policy_prefill_first;
	flow.first_max_tokens = 3;
	cr_expect_leq(run_flow(&flow, path), 256);
	temporary_remove(folder);
}
