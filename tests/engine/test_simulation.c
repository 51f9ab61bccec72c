#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "engine/policy.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/simulation.h"

/* Whole runs drawn from a seed. PROP_SEED and PROP_TRIALS choose others. */

static void require_same_run(
	const struct simulated_run *a, const struct simulated_run *b, const char *what)
{
	require(a->event_hash == b->event_hash && a->steps == b->steps && a->end_ns == b->end_ns &&
			a->preemptions == b->preemptions && a->cached_tokens == b->cached_tokens,
		"%s: the runs decide differently", what);
	for (uint32_t i = 0; i < a->request_count; i++) {
		require_equal(a->outcomes[i].fit, b->outcomes[i].fit);
		require_equal(a->outcomes[i].token_count, b->outcomes[i].token_count);
		for (uint32_t j = 0; j < a->outcomes[i].token_count; j++) {
			require_equal(a->outcomes[i].tokens[j], b->outcomes[i].tokens[j]);
		}
	}
}

/* A run; the same run repeated; and the same decisions with tokens that are known in advance, with
   a runner that computes and with one that only counts. */
static void body_run(struct prop *prop, const void *context)
{
	(void)context;
	struct drawn_requests drawn;
	struct drawn_requests forced;
	struct simulated_run run;
	struct simulated_run other;
	struct engine_config config = simulation_draw_config(prop);
	requests_draw(prop, &drawn, &config);
	simulation_run(&run, &drawn, &config, false);
	simulation_run(&other, &drawn, &config, false);
	require_same_run(&run, &other, "the same again");
	simulated_run_deinit(&other);
	requests_force(&forced, &drawn, &run);
	simulation_run(&other, &forced, &config, false);
	require_same_run(&run, &other, "forced");
	simulated_run_deinit(&other);
	simulation_run(&other, &forced, &config, true);
	require_same_run(&run, &other, "counted");
	simulated_run_deinit(&other);
	simulated_run_deinit(&run);
	requests_deinit(&forced);
	requests_deinit(&drawn);
}

Test(simulation, whole_runs_hold, .timeout = 600)
{
	struct prop_options options = {.name = "whole run", .body = body_run, .trials = 4000};
	cr_assert(prop_holds(&options));
}

/* What is sampled depends only on the request: not on policy, block size, prefix cache (none when a
   block is longer than any sequence), preemptions or the other requests. */
static void body_metamorphic(struct prop *prop, const void *context)
{
	(void)context;
	struct drawn_requests drawn;
	struct simulated_run run;
	struct simulated_run other;
	struct engine_config config = simulation_draw_config(prop);
	struct engine_config second = simulation_draw_config(prop);
	struct engine_config plain = {
		.policy = &policy_mixed,
		.block_size = 128,
		.kv_block_count = 1,
		.max_num_seqs = 1,
		.max_num_batched_tokens = 128,
		.max_model_len = 128,
	};
	second.eos_token_id = config.eos_token_id;
	plain.eos_token_id = config.eos_token_id;
	requests_draw(prop, &drawn, NULL);
	simulation_run(&run, &drawn, &plain, false);
	require_equal(run.preemptions + run.cached_tokens, 0);
	for (uint32_t i = 0; i < 2; i++) {
		simulation_run(&other, &drawn, i == 0 ? &config : &second, false);
		for (uint32_t j = 0; j < drawn.request_count; j++) {
			const struct simulated_outcome *expected = &run.outcomes[j];
			const struct simulated_outcome *found = &other.outcomes[j];
			require_equal(expected->fit, FIT_OK);
			require(found->fit != FIT_OK ||
					(found->token_count == expected->token_count &&
						memcmp(found->tokens, expected->tokens,
							found->token_count * sizeof(int32_t)) == 0),
				"request %u is answered differently", j);
		}
		simulated_run_deinit(&other);
	}
	simulated_run_deinit(&run);
	requests_deinit(&drawn);
}

Test(simulation, answers_depend_only_on_the_request, .timeout = 600)
{
	struct prop_options options = {
		.name = "metamorphic", .body = body_metamorphic, .trials = 2000};
	cr_assert(prop_holds(&options));
}
