#include "sim/cost_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The price of a step beside a naive one, which follows the words of sim/price_by_rates.h and
   sim/step_curves.h term by term: layer by layer, byte by byte, and each curve by its name. */

/* ---- drawing ---- */

/* A number with a fraction, in (0, limit]. */
static double draw_number(struct prop *prop, double limit)
{
	return limit * (double)(1 + prop_below(prop, 1000000)) / 1000000;
}

/* A model that so many ranks can share. */
static void draw_model(struct prop *prop, struct model_config *model, uint32_t ranks)
{
	*model = (struct model_config){
		.name = "drawn",
		.hidden_size = prop_range(prop, 1, 4096),
		.num_hidden_layers = prop_range(prop, 1, 40),
		.num_key_value_heads = ranks * prop_range(prop, 1, 4),
		.head_dim = 2 * prop_range(prop, 1, 64),
		.intermediate_size = ranks * prop_range(prop, 1, 3000),
		.vocab_size = prop_range(prop, ranks, 160000),
	};
	model->num_attention_heads = model->num_key_value_heads * prop_range(prop, 1, 8);
}

static void draw_counts(struct prop *prop, struct step_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (prop_chance(prop, 3, 4)) {
		counts->decode_rows = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 9 : 600);
		counts->decode_context_tokens =
			counts->decode_rows * prop_range(prop, 1, 9000) + prop_below(prop, 7);
		counts->decode_longest_context =
			counts->decode_context_tokens / counts->decode_rows + prop_below(prop, 99);
		counts->shared_tokens = prop_chance(prop, 1, 2) ? prop_below(prop, 9000) : 0;
		counts->pair_tokens = prop_chance(prop, 1, 2) ? prop_range(prop, 1000, 90000) : 0;
	}
	if (prop_chance(prop, 2, 3)) {
		counts->prefill_rows = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 1 : 30);
		counts->prefill_tokens = counts->prefill_rows + prop_below(prop, 17000);
		counts->prefill_attention_pairs =
			counts->prefill_tokens * (1 + prop_below(prop, 40000)) / 2 + 1;
	}
	counts->sampled_rows = counts->decode_rows + prop_below(prop, counts->prefill_rows + 1);
	prop_log(prop,
		"%llu decode rows of %llu tokens, %llu prompts of %llu tokens and %llu pairs, %llu "
		"samples",
		(unsigned long long)counts->decode_rows,
		(unsigned long long)counts->decode_context_tokens,
		(unsigned long long)counts->prefill_rows,
		(unsigned long long)counts->prefill_tokens,
		(unsigned long long)counts->prefill_attention_pairs,
		(unsigned long long)counts->sampled_rows);
}

/* ---- comparing ---- */

static void require_near(double found, double expected, const char *what)
{
	double scale = fmax(fabs(found), fabs(expected));

	require(fabs(found - expected) <= 1e-9 * fmax(scale, 1), "%s is %.6f, expected %.6f", what,
		found, expected);
}

static double sum_gpu(const struct step_price *price)
{
	double sum = price->decode_attention + price->prefill_attention + price->elementwise +
		     price->exchange + price->sampling + price->step_fixed;

	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		sum += price->linear[i];
	}
	return sum;
}

/* Times are the price, rounded once to the nearest nanosecond. Sums below 0 take no time. */
static void require_times(const struct step_time *time, const struct step_price *price)
{
	double gpu = fmax(sum_gpu(price), 0), host = fmax(price->host, 0);
	double elapsed = gpu + host;
	double slack = 0.5 + 1e-12 * (fabs(sum_gpu(price)) + fabs(price->host));

	require(fabs((double)time->elapsed_ns - elapsed) <= slack, "%llu ns for %.6f",
		(unsigned long long)time->elapsed_ns, elapsed);
	require(fabs((double)time->host_ns - host) <= slack, "the host's %llu ns for %.6f",
		(unsigned long long)time->host_ns, host);
	require_equal(time->gpu_ns + time->host_ns, time->elapsed_ns);
	require_equal(time->idle_ns, 0);
	require_equal(time->mode, STEP_MODE_NONE);
}

static void require_price(const struct step_price *found, const struct step_price *expected)
{
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		require_near(found->linear[i], expected->linear[i], "a linear layer");
	}
	require_near(found->decode_attention, expected->decode_attention, "decode attention");
	require_near(found->prefill_attention, expected->prefill_attention, "prefill attention");
	require_near(found->elementwise, expected->elementwise, "elementwise");
	require_near(found->exchange, expected->exchange, "exchanges");
	require_near(found->sampling, expected->sampling, "sampling");
	require_near(found->step_fixed, expected->step_fixed, "what a step has once");
	require_near(found->host, expected->host, "the host");
}

/* ---- by work and rates ---- */

static void draw_rates(struct prop *prop, struct gpu_profile *gpu)
{
	memset(gpu, 0, sizeof(*gpu));
	strcpy(gpu->name, "drawn");
	gpu->memory_rate = draw_number(prop, 9000);
	gpu->product_sustained = draw_number(prop, 1);
	gpu->decode_attention_fixed = draw_number(prop, 20000);
	gpu->decode_attention_row = draw_number(prop, 30);
	/* Slow memory makes short chunks behind long prefixes wait for keys and values. */
	gpu->decode_attention_rate = draw_number(prop, prop_chance(prop, 1, 2) ? 20 : 9000);
	gpu->prefill_attention_fixed = draw_number(prop, 20000);
	gpu->prefill_attention_token = draw_number(prop, 1);
	gpu->prefill_attention_rate = draw_number(prop, 900);
	gpu->elementwise_fixed = draw_number(prop, 20000);
	gpu->sampling_fixed = draw_number(prop, 4000);
	gpu->sampling_rate = draw_number(prop, 200);
	gpu->step_fixed = draw_number(prop, 9000);
	gpu->host_fixed = draw_number(prop, 600000);
	gpu->host_row = draw_number(prop, 3000);
	gpu->has_link = true;
	gpu->link_fixed = draw_number(prop, 20000);
	gpu->link_rank = draw_number(prop, 3000);
	gpu->link_rate = draw_number(prop, 900);
	gpu->host_rank = draw_number(prop, 9000);
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		gpu->linear[i] = (struct gpu_linear){.floor = draw_number(prop, 9000),
			.memory_rate = draw_number(prop, 6000),
			.flop_rate = draw_number(prop, 900)};
	}
}

/* One linear layer of `rows` rows: bf16 weights and activations, in and out. */
static double naive_linear(
	const struct gpu_linear *gpu, double share, double rows, double inputs, double outputs)
{
	double bytes = 2 * (inputs * outputs + rows * inputs + rows * outputs);
	double flops = 2 * rows * inputs * outputs;

	return gpu->floor + fmax(bytes / gpu->memory_rate, flops / (gpu->flop_rate * 1000 * share));
}

/* All ranks read the rows of all others, or each adds a part of the rows and gives it to all. */
static double naive_exchange(const struct gpu_profile *gpu, double ranks, double bytes)
{
	double start = gpu->link_fixed + gpu->link_rank * (ranks - 2);
	double once = start + (ranks - 1) * bytes / gpu->link_rate;
	double twice = 2 * start + 2 * (ranks - 1) / ranks * bytes / gpu->link_rate;

	return ranks == 1 ? 0 : fmin(once, twice);
}

/* Heads, inner size and vocabulary are those of one rank. */
static struct step_price naive_rates(const struct model_config *model,
	const struct gpu_profile *gpu, uint32_t ranks, const struct step_counts *counts)
{
	struct step_price price = {0};
	double heads = model->num_attention_heads / ranks;
	double kv_heads = model->num_key_value_heads / ranks;
	double query = heads * model->head_dim, key = kv_heads * model->head_dim;
	double hidden = model->hidden_size, inner = model->intermediate_size / ranks;
	double vocabulary = model->vocab_size / ranks;
	double decodes = (double)counts->decode_rows, prompts = (double)counts->prefill_rows;
	double prompt_tokens = (double)counts->prefill_tokens;
	double pairs = (double)counts->prefill_attention_pairs;
	double tokens = decodes + prompt_tokens, samples = (double)counts->sampled_rows;
	const double shapes[MODEL_LINEAR_COUNT][2] = {
		[MODEL_LINEAR_QKV] = {hidden, query + 2 * key},
		[MODEL_LINEAR_O] = {query, hidden},
		[MODEL_LINEAR_GATE_UP] = {hidden, 2 * inner},
		[MODEL_LINEAR_DOWN] = {inner, hidden},
		[MODEL_LINEAR_LM_HEAD] = {hidden, vocabulary},
	};
	/* Two bytes for each element of: the streams and the sum that a norm reads and writes,
	   twice; queries, keys and values in, queries, keys and values out, twice; gate, up and
	   their product. */
	double token_bytes = 2 * (2 * 4 * hidden + 2 * (2 * query + 4 * key) + 3 * inner);

	for (uint32_t layer = 0; layer < model->num_hidden_layers && tokens > 0; layer++) {
		for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
			price.linear[i] += naive_linear(&gpu->linear[i], gpu->product_sustained,
				tokens, shapes[i][0], shapes[i][1]);
		}
		price.exchange += 2 * naive_exchange(gpu, ranks, 2 * hidden * tokens);
		price.elementwise +=
			gpu->elementwise_fixed + tokens * token_bytes / gpu->memory_rate;
		if (decodes > 0) {
			double bytes = (double)counts->decode_context_tokens * 2 * 2 * key;
			price.decode_attention += gpu->decode_attention_fixed +
						  gpu->decode_attention_row * kv_heads * decodes +
						  bytes / gpu->decode_attention_rate;
		}
		if (prompts > 0) {
			double bytes = pairs / prompt_tokens * prompts * 2 * 2 * key;
			double flops = 4 * model->head_dim * heads * pairs;
			price.prefill_attention +=
				gpu->prefill_attention_fixed +
				gpu->prefill_attention_token * heads * prompt_tokens +
				fmax(flops / (gpu->prefill_attention_rate * 1000),
					bytes / gpu->decode_attention_rate);
		}
	}
	if (samples > 0) {
		price.linear[MODEL_LINEAR_LM_HEAD] =
			naive_linear(&gpu->linear[MODEL_LINEAR_LM_HEAD], 1, samples,
				shapes[MODEL_LINEAR_LM_HEAD][0], shapes[MODEL_LINEAR_LM_HEAD][1]);
		price.sampling = gpu->sampling_fixed + samples * vocabulary / gpu->sampling_rate;
		price.exchange += naive_exchange(gpu, ranks, 0);
	}
	price.step_fixed = gpu->step_fixed;
	price.host = gpu->host_fixed + gpu->host_row * (decodes + prompts) +
		     gpu->host_rank * (ranks - 1);
	return price;
}

static void body_rates(struct prop *prop, const void *context)
{
	struct model_config model;
	struct gpu_profile gpu;
	struct step_counts counts;
	struct runner runner;
	struct error error = {0};
	struct step_price price;
	struct step_time time = {0};
	(void)context;

	uint32_t ranks = prop_range(prop, 1, 4);
	draw_model(prop, &model, ranks);
	draw_rates(prop, &gpu);
	draw_counts(prop, &counts);
	require_equal(cost_model_open(&runner, &model, &gpu, ranks, &error), STATUS_OK);
	require(runner.launch == NULL && runner.collect == NULL && runner.start == NULL,
		"rates know nothing of steps in flight");
	const struct batch batch = {.step = 3, .counts = counts};
	const struct step_price expected = naive_rates(&model, &gpu, ranks, &counts);
	cost_model_price(&runner, &counts, &price);
	require_price(&price, &expected);
	require_equal(runner.execute(runner.state, &batch, NULL, &time, &error), STATUS_OK);
	require_times(&time, &expected);
	runner.close(runner.state);
}

Test(step_price, by_rates_equals_the_sum_over_the_layers)
{
	const struct prop_options options = {
		.name = "price by rates", .body = body_rates, .trials = 3000};

	cr_assert(prop_holds(&options));
}

/* ---- by curves ---- */

/* may_fall: heights may be below those before them, and below 0. */
static void draw_curve(struct prop *prop, struct step_curve_table *curve, bool may_fall)
{
	memset(curve, 0, sizeof(*curve));
	if (prop_chance(prop, 1, 8)) {
		return; /* 0 everywhere */
	}
	curve->count = prop_range(prop, 2, 6);
	for (uint32_t i = 1; i < curve->count; i++) {
		bool falls = may_fall && prop_chance(prop, 1, 3);
		curve->at[i] = curve->at[i - 1] + 1 + draw_number(prop, 3000);
		curve->ns[i] =
			curve->ns[i - 1] + (falls ? -1 : 1) * draw_number(prop, falls ? 90 : 500);
	}
}

/* On the line through the two points around x, or through the last two. */
static double naive_curve(const struct step_curve_table *curve, double x)
{
	for (uint32_t i = 1; i < curve->count; i++) {
		if (x <= curve->at[i] || i + 1 == curve->count) {
			double slope = (curve->ns[i] - curve->ns[i - 1]) /
				       (curve->at[i] - curve->at[i - 1]);
			return curve->ns[i - 1] + slope * (x - curve->at[i - 1]);
		}
	}
	return 0;
}

/* Rows of a CUDA graph: powers of two up to 16, then multiples of 16. */
static double naive_padded(uint64_t rows)
{
	uint64_t padded = rows > 16 ? 16 : rows > 0;

	while (padded < rows) {
		padded += rows > 16 ? 16 : padded;
	}
	return (double)padded;
}

#define AT(curve, x) naive_curve(&curves[STEP_CURVE_##curve], (double)(x))

static struct step_price naive_curves(
	const struct step_curve_table *curves, const struct step_counts *counts, bool is_ahead)
{
	struct step_price price = {0};
	bool has_prompts = counts->prefill_rows > 0;
	bool only_decodes = counts->decode_rows > 0 && !has_prompts;
	bool is_mixed = counts->decode_rows > 0 && has_prompts;
	double decodes = (double)counts->decode_rows, prompts = (double)counts->prefill_rows;
	double tokens = (double)counts->prefill_tokens;
	double context = (double)counts->decode_context_tokens;
	double shared = fmin((double)counts->shared_tokens, context);
	double padded = has_prompts ? 0 : naive_padded(counts->decode_rows);
	double pairs = (double)counts->prefill_attention_pairs;
	double mean = has_prompts ? pairs / tokens : 0;
	double tiles = prompts > 1 ? tokens / 128 + prompts / 2 : ceil(tokens / 128);
	double distance = counts->pair_tokens == 0 ? 0
						   : context * (double)counts->shared_tokens /
							     (2 * (double)counts->pair_tokens);

	price.step_fixed = AT(decode_step, only_decodes) + AT(decode_rows, padded) +
			   AT(decode_ahead, is_ahead ? padded : 0) + AT(prefill_step, has_prompts) +
			   AT(mixed_step, is_mixed) +
			   AT(prefill_tokens, has_prompts ? tokens + decodes : 0) +
			   AT(mixed_rows, is_mixed ? decodes : 0) + AT(prefill_rows, prompts);
	price.decode_attention =
		AT(decode_attention, context - shared) + shared * AT(decode_shared, distance) +
		AT(decode_attention_rows, decodes) +
		(decodes > 0 ? context / decodes : 0) * AT(decode_spread, decodes) +
		AT(decode_merge, counts->decode_longest_context);
	price.prefill_attention = mean * AT(prefill_attention, tiles) +
				  (has_prompts ? mean + tokens / (2 * prompts) : 0) *
					  AT(prefill_context, has_prompts);
	price.sampling = AT(sampled_rows,
		has_prompts ? (double)counts->sampled_rows : naive_padded(counts->sampled_rows));
	if (is_ahead) {
		price.host = AT(host_ahead_step, 1);
	} else {
		price.host = AT(host_decode_step, only_decodes) +
			     AT(host_prefill_step, has_prompts) + AT(host_rows, decodes + prompts) +
			     AT(host_decode_context, context) + AT(host_prefill_tokens, tokens);
	}
	return price;
}

/* A run of a few steps, each executed, or launched and collected: one at a time or one ahead. */
static void play_steps(
	struct prop *prop, const struct runner *runner, const struct step_curve_table *curves)
{
	enum { STEPS = 6 };
	struct step_counts counts[STEPS];
	bool is_ahead[STEPS];
	struct error error = {0};
	uint32_t launched = 0;

	for (uint32_t collected = 0; collected < STEPS;) {
		bool can_launch = launched < STEPS && launched - collected < 2;
		if (can_launch && (launched == collected || prop_chance(prop, 1, 2))) {
			draw_counts(prop, &counts[launched]);
			const struct batch batch = {.step = launched, .counts = counts[launched]};
			is_ahead[launched] = launched > collected;
			require_equal(runner->launch(runner->state, &batch, &error), STATUS_OK);
			launched++;
			continue;
		}
		struct step_time time = {0};
		const struct step_price expected =
			naive_curves(curves, &counts[collected], is_ahead[collected]);
		require_equal(runner->collect(runner->state, NULL, &time, &error), STATUS_OK);
		require_times(&time, &expected);
		collected++;
	}
}

static void body_curves(struct prop *prop, const void *context)
{
	const struct model_config model = {.name = "drawn"};
	struct gpu_profile gpu = {
		.name = "drawn", .model = "drawn", .ranks = 1, .is_calibrated = true};
	struct step_counts counts;
	struct runner runner;
	struct error error = {0};
	struct step_price price;
	struct step_time time = {0};
	(void)context;

	bool falls = prop_chance(prop, 1, 3);
	for (uint32_t i = 0; i < STEP_CURVE_COUNT; i++) {
		draw_curve(prop, &gpu.curves[i], falls);
	}
	require_equal(cost_model_open(&runner, &model, &gpu, 1, &error), STATUS_OK);
	draw_counts(prop, &counts);
	const struct batch batch = {.step = 3, .counts = counts};
	const struct step_price expected = naive_curves(gpu.curves, &counts, false);
	cost_model_price(&runner, &counts, &price);
	require_price(&price, &expected);
	enum status status = runner.execute(runner.state, &batch, NULL, &time, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_times(&time, &expected);
	play_steps(prop, &runner, gpu.curves);
	runner.close(runner.state);
}

Test(step_price, by_curves_equals_the_sum_of_the_curves)
{
	const struct prop_options options = {
		.name = "price by curves", .body = body_curves, .trials = 3000};

	cr_assert(prop_holds(&options));
}

/* Curves that fall make a GPU faster than nothing where nothing was measured. It then takes no
   time, and the host takes its own. */
Test(step_price, a_sum_below_zero_takes_no_time)
{
	const struct model_config model = {.name = "drawn"};
	struct gpu_profile gpu = {
		.name = "drawn", .model = "drawn", .ranks = 1, .is_calibrated = true};
	const struct batch batch = {.counts = {.decode_rows = 100, .sampled_rows = 100}};
	struct runner runner;
	struct error error = {0};
	struct step_time time = {0};

	gpu.curves[STEP_CURVE_decode_attention_rows] =
		(struct step_curve_table){.count = 2, .at = {0, 10}, .ns = {0, -1000}};
	gpu.curves[STEP_CURVE_host_rows] =
		(struct step_curve_table){.count = 2, .at = {0, 10}, .ns = {0, 77}};
	require_equal(cost_model_open(&runner, &model, &gpu, 1, &error), STATUS_OK);
	require_equal(runner.execute(runner.state, &batch, NULL, &time, &error), STATUS_OK);
	require_equal(time.elapsed_ns, 770);
	require_equal(time.host_ns, 770);
	require_equal(time.gpu_ns, 0);
	runner.close(runner.state);
}

/* 10^15 ns is the longest step. */
Test(step_price, the_longest_step_is_allowed_and_one_beyond_it_is_refused)
{
	const struct model_config model = {.name = "drawn"};
	const struct batch batch = {.step = 12, .counts = {.decode_rows = 1, .sampled_rows = 1}};
	struct gpu_profile gpu = {
		.name = "drawn", .model = "drawn", .ranks = 1, .is_calibrated = true};
	struct runner runner;
	struct error error = {0};
	struct step_time time = {0};

	gpu.curves[STEP_CURVE_decode_step] =
		(struct step_curve_table){.count = 2, .at = {0, 1}, .ns = {0, 1e15}};
	require_equal(cost_model_open(&runner, &model, &gpu, 1, &error), STATUS_OK);
	require_equal(runner.execute(runner.state, &batch, NULL, &time, &error), STATUS_OK);
	require_equal(time.elapsed_ns, UINT64_C(1000000000000000));
	runner.close(runner.state);
	gpu.curves[STEP_CURVE_decode_step].ns[1] = 1e15 + 1;
	require_equal(cost_model_open(&runner, &model, &gpu, 1, &error), STATUS_OK);
	require_equal(runner.execute(runner.state, &batch, NULL, &time, &error), STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "step 12"), "%s", error.text);
	runner.close(runner.state);
}

/* A calibrated profile prices the model and the number of ranks that it was measured with, and no
   others. */
Test(step_price, of_another_model_or_number_of_ranks_is_refused)
{
	const struct model_config model = {.name = "other"};
	const struct gpu_profile gpu = {
		.name = "drawn", .model = "drawn", .ranks = 1, .is_calibrated = true};
	struct runner runner;
	struct error error = {0};

	require_equal(cost_model_open(&runner, &model, &gpu, 1, &error), STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "other"), "%s", error.text);
	const struct model_config same = {.name = "drawn"};
	require_equal(cost_model_open(&runner, &same, &gpu, 2, &error), STATUS_USAGE);
	const struct gpu_profile alone = {.name = "drawn"};
	require_equal(cost_model_open(&runner, &same, &alone, 2, &error), STATUS_USAGE);
}
