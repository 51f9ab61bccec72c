#include "sim/step_heat.h"

#include "engine/batch.h"
#include "sim/cost_model.h"

#include <criterion/criterion.h>
#include <math.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Heat by itself, and in a cost model, whose steps remember the ones before. */

static const struct step_counts prompt = {.prefill_rows = 1,
	.prefill_tokens = 8192,
	.prefill_attention_pairs = 8192 * 4096,
	.prefill_longest_context = 8192,
	.sampled_rows = 1};
static const struct step_counts decode = {.decode_rows = 4,
	.decode_context_tokens = 4000,
	.decode_longest_context = 1000,
	.sampled_rows = 4};

/* The mean of the heat's square in many small pieces, by the middle of each. */
static double summed_square(double decay, double heat, double share, double elapsed)
{
	enum { PIECES = 4000 };
	double sum = 0;

	for (int i = 0; i < PIECES; i++) {
		double at = elapsed * (i + 0.5) / PIECES;
		double here = share + (heat - share) * pow(decay / (decay + at), 2);
		sum += here * here / PIECES;
	}
	return sum;
}

static void body_heat(struct prop *prop, const void *context)
{
	(void)context;
	double decay = 1e6 * (1 + prop_below(prop, 1000));
	double heat = prop_below(prop, 1001) / 1000.0;
	double elapsed = 1 + prop_below(prop, prop_chance(prop, 1, 4) ? 1000000 : 1000000000);
	double flops = prop_below(prop, 1000000000);
	double share = fmin(1, flops / elapsed);
	double after = heat_after(decay, heat, flops, elapsed);

	/* It moves towards the step's share, and never beyond it. */
	require(after >= fmin(heat, share) - 1e-12 && after <= fmax(heat, share) + 1e-12,
		"%g behind %g, share %g", after, heat, share);
	/* The longer the nearer. */
	double later = heat_after(decay, heat, share * 2 * elapsed, 2 * elapsed);
	require(fabs(later - share) <= fabs(after - share) + 1e-12, "%g, later %g", after, later);
	double square = heat_mean_square(decay, heat, flops, elapsed);
	double low = fmin(heat * heat, after * after), high = fmax(heat * heat, after * after);
	require(square >= low - 1e-12 && square <= high + 1e-12, "%g is not in %g to %g", square,
		low, high);
	if (elapsed < 20 * decay) { /* where the pieces are small enough */
		double summed = summed_square(decay, heat, share, elapsed);
		require(fabs(square - summed) <= 1e-4, "%.9g, in pieces %.9g", square, summed);
	}
}

Test(step_heat, moves_towards_the_share_of_each_step)
{
	const struct prop_options options = {.name = "heat", .body = body_heat, .trials = 2000};

	cr_assert(prop_holds(&options));
}

Test(step_heat, only_steps_with_prompts_heat)
{
	const struct operation_floors floors = {
		.product_token = 2, .head_row = 5, .pair = 0.25, .products = 7, .head = 9};

	require(heat_flops_ns(&floors, &decode) == 0, "decode rows heat");
	require(heat_flops_ns(&floors, &prompt) == 2.0 * 8192 + 5 + 0.25 * 8192 * 4096, "%g",
		heat_flops_ns(&floors, &prompt));
	struct step_counts both = prompt;
	both.decode_rows = decode.decode_rows;
	both.decode_context_tokens = decode.decode_context_tokens;
	both.sampled_rows += decode.sampled_rows;
	require(heat_flops_ns(&floors, &both) ==
			2.0 * (8192 + 4) + 5 * (1 + 4) + 0.25 * 8192 * 4096,
		"beside a prompt decode rows heat too: %g", heat_flops_ns(&floors, &both));
}

/* A step that takes longer at no heat, with as many FLOPs or more, takes longer at any. */
static void body_rises(struct prop *prop, const void *context)
{
	(void)context;
	const struct heat_prices prices = {1, 1, 1e6 * (1 + prop_below(prop, 1000))};
	double heat = prop_below(prop, 1001) / 1000.0;
	double ns = 1 + prop_below(prop, 1000000000);
	double flops = prop_below(prop, 2) * prop_below(prop, 1000000000);
	double more_ns = ns + prop_below(prop, 2) * prop_below(prop, 1000000000);
	double more_flops = flops + prop_below(prop, 2) * prop_below(prop, 1000000000);
	double less = ns + heat_extra_ns(&prices, heat, flops, &prompt, ns);
	double more = more_ns + heat_extra_ns(&prices, heat, more_flops, &prompt, more_ns);

	require(more >= less * (1 - 1e-12), "%.12g, with more work %.12g", less, more);
	require(less >= ns && less <= 2 * ns * (1 + 1e-12), "%g of %g", less, ns);
}

Test(step_heat, more_work_takes_longer_at_any_heat)
{
	const struct prop_options options = {.name = "rises", .body = body_rises, .trials = 20000};

	cr_assert(prop_holds(&options));
}

static bool is_about(double found, double expected)
{
	return fabs(found / expected - 1) < 0.01;
}

Test(step_heat, a_long_step_pays_its_own_heat_and_no_more_than_a_third_of_the_decay_of_others)
{
	const struct heat_prices prices = {0.2, 0.1, 5e7};
	double most = 0.2 * 5e7 / 3;

	for (double ns = 1; ns < 1e13; ns *= 3) {
		require(heat_extra_ns(&prices, 1, 0, &prompt, ns) <= most * (1 + 1e-9),
			"%g ns pay too much", ns);
	}
	require(is_about(heat_extra_ns(&prices, 1, 0, &prompt, 1e12), most), "too little");
	require(is_about(heat_extra_ns(&prices, 0.5, 0, &decode, 1e5), 0.1 * 0.25 * 1e5),
		"a short step pays the rise times the square of the heat");
	require(is_about(heat_extra_ns(&prices, 0, 6e11, &prompt, 1e12), 0.2 * 0.36 * 1e12),
		"a long step pays the rise times the square of its own share");
	require(heat_extra_ns(&prices, 0, 1e5, &prompt, 1e5) < 0.01 * 0.2 * 1e5,
		"a short step is not as hot as itself");
	require(heat_extra_ns(&(struct heat_prices){0}, 1, 1e6, &prompt, 1e6) == 0, "no rise");
	require(heat_after(5e7, 0.5, 0, 0) == 0.5 && heat_after(5e7, 0.5, 7, 0) == 0.5,
		"a step of no time heats");
	require(heat_extra_ns(&prices, 0.5, 7, &prompt, 0) == 0, "a step of no time takes longer");
}

/* ---- in a cost model ---- */

static uint64_t step_ns(struct runner *runner, const struct step_counts *counts)
{
	const struct batch batch = {.counts = *counts};
	struct step_time time;
	struct error error = {0};

	require(runner->execute(runner->state, &batch, NULL, &time, &error) == STATUS_OK, "%s",
		error.text);
	require_equal(time.elapsed_ns, time.gpu_ns + time.host_ns);
	return time.elapsed_ns;
}

static uint64_t price_ns(struct runner *runner, const struct step_counts *counts)
{
	struct error error = {0};
	uint64_t ns = 0;

	require(runner->price(runner->state, counts, &ns, &error) == STATUS_OK, "%s", error.text);
	return ns;
}

static void open_model(struct runner *out, const struct heat_prices *heat)
{
	static struct gpu_profile profile;
	struct model_config model;
	struct error error = {0};

	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	profile.heat = *heat;
	require(model_config_builtin("qwen3-0.6b", &model), "no such model");
	require(cost_model_open(out, &model, &profile, 1, &error) == STATUS_OK, "%s", error.text);
}

Test(step_heat, steps_behind_prompts_are_dearer_until_the_gpu_has_cooled)
{
	const struct heat_prices heat = {0.4, 0.3, 5e7};
	struct runner runner;

	open_model(&runner, &heat);
	uint64_t rested = step_ns(&runner, &decode), first = step_ns(&runner, &prompt);
	uint64_t priced = price_ns(&runner, &decode), second = step_ns(&runner, &prompt);
	uint64_t hot = step_ns(&runner, &decode);
	require(second > first, "the second prompt takes %llu ns, the first %llu",
		(unsigned long long)second, (unsigned long long)first);
	require(hot > rested + rested / 50 && hot < rested + rested / 10, "%llu ns, rested %llu",
		(unsigned long long)hot, (unsigned long long)rested);
	require_equal(price_ns(&runner, &decode), priced); /* which heats nothing */
	uint64_t before = hot;
	for (uint32_t i = 0; i < 2000; i++) {
		uint64_t ns = step_ns(&runner, &decode);
		require(ns <= before, "it grows hotter while it decodes");
		before = ns;
	}
	require_equal(before, rested);
	runner.close(runner.state);
}

Test(step_heat, a_replica_has_its_own)
{
	const struct heat_prices heat = {0.2, 0.1, 5e7};
	struct runner first, other;

	open_model(&first, &heat);
	cost_model_open_beside(&other, &first);
	uint64_t rested = step_ns(&other, &decode);
	for (uint32_t i = 0; i < 3; i++) {
		step_ns(&first, &prompt);
	}
	require_equal(step_ns(&other, &decode), rested);
	require(step_ns(&first, &decode) > rested, "the first is not hot");
	other.close(other.state);
	require(step_ns(&first, &decode) > rested, "the first is closed too");
	first.close(first.state);
}

/* Steps that are launched ahead, and collected in order, take what they take one by one. */
Test(step_heat, a_step_launched_ahead_is_as_hot_as_one_executed)
{
	const struct heat_prices heat = {0.2, 0.1, 5e7};
	struct runner ahead, rested;
	struct step_time time, cold;
	struct error error = {0};
	const struct batch batches[] = {{.counts = prompt}, {.counts = decode}, {.counts = decode}};

	open_model(&ahead, &heat);
	open_model(&rested, &(struct heat_prices){0});
	for (uint32_t i = 0; i < 3; i++) {
		require_equal(ahead.launch(ahead.state, &batches[i], &error), STATUS_OK);
		require_equal(rested.launch(rested.state, &batches[i], &error), STATUS_OK);
		if (i > 0) {
			ahead.collect(ahead.state, NULL, &time, &error);
			rested.collect(rested.state, NULL, &cold, &error);
			require(time.elapsed_ns > cold.elapsed_ns, "step %u", i - 1);
		}
	}
	ahead.collect(ahead.state, NULL, &time, &error);
	rested.collect(rested.state, NULL, &cold, &error);
	require(time.elapsed_ns > cold.elapsed_ns, "not hot");
	ahead.close(ahead.state);
	rested.close(rested.state);
}

Test(step_heat, without_a_rise_no_step_remembers_another)
{
	struct runner runner;

	open_model(&runner, &(struct heat_prices){0});
	uint64_t alone = step_ns(&runner, &decode);
	step_ns(&runner, &prompt);
	require_equal(step_ns(&runner, &decode), alone);
	runner.close(runner.state);
}
