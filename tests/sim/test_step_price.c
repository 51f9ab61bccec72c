#include "sim/cost_model.h"
#include "sim/price_by_operations.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The price of a step beside a naive one, which follows the words of sim/price_by_rates.h and
   sim/operation_prices.h: layer by layer, byte by byte, and each term by its name. */

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
		uint32_t most = (uint32_t)u64_min(counts->decode_context_tokens, 9000);
		uint32_t shared = prop_chance(prop, 1, 2) ? prop_below(prop, most + 1) : 0;
		counts->shared_tokens = shared;
		counts->reread_tokens = prop_chance(prop, 1, 2) ? prop_below(prop, shared + 1) : 0;
		counts->repeat_tokens = prop_chance(prop, 1, 2) ? prop_below(prop, shared + 1) : 0;
	}
	if (prop_chance(prop, 2, 3)) {
		counts->prefill_rows = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 1 : 30);
		counts->prefill_tokens = counts->prefill_rows + prop_below(prop, 17000);
		counts->prefill_attention_pairs =
			counts->prefill_tokens * (1 + prop_below(prop, 40000)) / 2 + 1;
		counts->prefill_longest_context =
			prop_chance(prop, 1, 2) ? prop_range(prop, 1, 90000) : 0;
		if (prop_chance(prop, 1, 2)) {
			counts->prefill_tiles = prop_range(prop, 1, 700);
			counts->prefill_tile_keys = prop_range(prop, 1, 9000000);
			counts->prefill_chain_keys =
				prop_chance(prop, 1, 2) ? prop_range(prop, 1, 900000) : 0;
			counts->prefill_half_chain_keys =
				prop_chance(prop, 1, 2) ? prop_range(prop, 1, 900000) : 0;
			counts->prefill_context_tokens =
				prop_chance(prop, 1, 2) ? prop_range(prop, 1, 900000) : 0;
		}
		counts->prefill_shared_tokens =
			prop_chance(prop, 1, 2)
				? prop_below(prop, (uint32_t)counts->prefill_context_tokens + 1)
				: 0;
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

/* Times are the price, rounded once to the nearest nanosecond. */
static void require_times(const struct step_time *time, const struct step_price *price)
{
	double gpu = sum_gpu(price), host = price->host;
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
			double longest = (double)counts->prefill_longest_context;
			double contexts = (double)counts->prefill_context_tokens;
			double bytes = (contexts > 0 ? contexts : prompts * longest) * 2 * 2 * key;
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

/* ---- by operations ---- */

static const struct model_config whole_model = {.name = "drawn",
	.hidden_size = 512,
	.num_hidden_layers = 7,
	.num_attention_heads = 8,
	.num_key_value_heads = 4,
	.head_dim = 64,
	.intermediate_size = 1024,
	.vocab_size = 5000};

/* Prices of any size, in numbers a reader of the term would expect. */
static void draw_prices(struct prop *prop, struct operation_prices *prices)
{
	memset(prices, 0, sizeof(*prices));
	prices->shape = whole_model;
	prices->limits = (struct operation_limits){.read_rate = draw_number(prop, 5000),
		.flop_rate = draw_number(prop, 900),
		.multiprocessors = prop_range(prop, 1, 200)};
	if (prop_chance(prop, 1, 2)) {
		prices->sharing.tokens = prop_range(prop, 1, 9000);
		prices->sharing.longest = prop_range(prop, 1, 9000);
		prices->sharing.alone = prices->sharing.longest + prop_below(prop, 9000);
		prices->sharing.round = prop_chance(prop, 1, 3) ? 0 : prop_range(prop, 1, 3000);
	}
	prices->graph_tokens = prop_chance(prop, 1, 2) ? 0 : prop_range(prop, 1, 256);
	for (uint32_t t = 0; t < OPERATION_TERM_COUNT; t++) {
		struct operation_parts *parts = &prices->terms[t];
		bool is_ramp = operation_term_kind((enum operation_term)t) == OPERATION_KIND_RAMP;
		double at = is_ramp ? 0 : draw_number(prop, 20), most = 3000;
		parts->count = prop_chance(prop, 1, 20) ? OPERATION_PARTS : prop_below(prop, 5);
		if (t == OPERATION_TERM_kv_rounds || t == OPERATION_TERM_prefill_half) {
			/* rising up to 1 */
			parts->count = prop_below(prop, 3);
			at = 0.25;
			most = 0;
		}
		for (uint32_t i = 0; i < parts->count; i++) {
			parts->at[i] = at;
			parts->ns[i] = prop_chance(prop, 1, 4) ? 0 : draw_number(prop, 500);
			at += most == 0 ? 0.75 : 1 + draw_number(prop, most);
		}
	}
	if (prop_chance(prop, 1, 4)) { /* mixed steps that would cost more than their bound */
		prices->terms[OPERATION_TERM_eager_mixed] =
			(struct operation_parts){.count = 1, .ns = {draw_number(prop, 1e11)}};
	}
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

/* Parts of x, from each `at` to the next. */
static double naive_ramp(const struct operation_parts *parts, double x)
{
	double ns = 0;

	for (uint32_t i = 0; i < parts->count; i++) {
		double end = i + 1 < parts->count ? fmin(x, parts->at[i + 1]) : x;
		ns += end > parts->at[i] ? parts->ns[i] * (end - parts->at[i]) : 0;
	}
	return ns;
}

static double naive_dearer(const struct operation_parts *parts, double x, double y)
{
	double ns = 0;

	for (uint32_t i = 0; i < parts->count; i++) {
		ns += parts->ns[i] * fmax(x, parts->at[i] * y);
	}
	return ns;
}

static double naive_cheaper(const struct operation_parts *parts, double x, double y)
{
	double ns = 0;

	for (uint32_t i = 0; i < parts->count; i++) {
		ns += parts->ns[i] * fmin(x, parts->at[i] * y);
	}
	return ns;
}

#define TERM(name) (&prices->terms[OPERATION_TERM_##name])
#define RAMP(name, x) naive_ramp(TERM(name), x)

/* Tokens of whole rounds, as many as a row alone of so many tokens takes, at most of a row that is
   as long as its kernel computes; and no less than the tokens. */
static double naive_rounds(const struct operation_sharing *rule, double tokens)
{
	double in_rounds = 0;

	while (rule->round > 0 && in_rounds < tokens && in_rounds < rule->alone) {
		in_rounds += rule->round;
	}
	return in_rounds > tokens ? in_rounds : tokens;
}

/* What decode rows read, and at the limits of the GPU. */
static double naive_context(
	const struct operation_prices *prices, const struct step_counts *counts, double *floor)
{
	double rows = (double)counts->decode_rows, context = (double)counts->decode_context_tokens;
	double shared = (double)counts->shared_tokens;
	double longest = fmin((double)counts->decode_longest_context, context);
	double ns = 0;

	if (rows == 0) {
		*floor = 0;
		return 0;
	}
	longest = fmax(longest, context / rows);
	bool is_each = shared < prices->sharing.tokens &&
		       (double)counts->decode_longest_context <= prices->sharing.longest;
	double once = is_each ? 0 : shared;
	double short_most = rows > 1 ? prices->sharing.longest : prices->sharing.alone;
	bool has_long_row = short_most > 0 && longest > short_most;
	for (uint32_t i = 0; i < TERM(kv_reread)->count; i++) {
		double again = (double)counts->reread_tokens * context / TERM(kv_reread)->at[i];
		ns += TERM(kv_reread)->ns[i] * (context - shared + fmin(once, again));
	}
	ns += RAMP(kv_all, context) + naive_dearer(TERM(kv_uneven), context, longest) +
	      RAMP(kv_longest, longest) + naive_dearer(TERM(kv_shared), context - shared, context) +
	      naive_dearer(
		      TERM(kv_rounds), context - shared, naive_rounds(&prices->sharing, longest)) +
	      RAMP(kv_each, shared - once) + naive_cheaper(TERM(kv_again), once, 1) +
	      naive_cheaper(
		      TERM(kv_each_far), shared - once, (double)counts->reread_tokens * context) +
	      naive_cheaper(TERM(kv_merge), once, rows) + naive_cheaper(TERM(kv_first), longest, 1);
	if (shared > 0 && !is_each) {
		ns += RAMP(kv_repeat, (double)counts->repeat_tokens);
	}
	if (has_long_row || (shared > 0 && !is_each)) {
		ns += RAMP(kv_long, 1) + RAMP(kv_long_rows, rows);
	}
	if (rows > 1 || has_long_row) {
		ns += naive_cheaper(TERM(kv_late), longest, rows);
		ns += RAMP(kv_longest_many, longest) + naive_cheaper(TERM(kv_fill), context, 1) +
		      naive_cheaper(TERM(kv_beside), longest, context - longest);
	}
	*floor = (context - shared) * 2 * 2 * 7 * 4 * 64 / prices->limits.read_rate;
	return ns;
}

static double naive_prompts(
	const struct operation_prices *prices, const struct step_counts *counts, double *floor)
{
	double tokens = (double)counts->prefill_tokens, prompts = (double)counts->prefill_rows;
	double pairs = (double)counts->prefill_attention_pairs;
	double keys = (double)counts->prefill_longest_context;
	double tiles = prompts > 1 ? tokens / 128 + prompts / 2 : ceil(tokens / 128);
	double processors = prices->limits.multiprocessors;

	if (counts->prefill_tokens == 0) {
		*floor = 0;
		return 0;
	}
	keys = keys > 0 ? keys : pairs / tokens + (tokens / prompts - 1) / 2;
	double walked = pairs + (tiles * 128 - tokens) * keys;
	double least = ceil(tokens / 128);
	if (counts->prefill_tiles > 0) {
		tiles = least = (double)counts->prefill_tiles;
		walked = 128 * (double)counts->prefill_tile_keys;
	}
	double even = walked * 8 / (128 * processors), units = 8 * tiles;
	double rounds = fmax(fmax(1, units / processors), ceil(least * 8 / processors));
	double each = prompts > 1 ? keys : fmax(keys - tokens / 2, 0);
	double chain = counts->prefill_chain_keys > 0 ? (double)counts->prefill_chain_keys
						      : keys + fmin((rounds - 1) * each, even);
	double half = counts->prefill_half_chain_keys > 0
			      ? (double)counts->prefill_half_chain_keys
			      : chain * (2 * units > processors ? 1 : 0.5);
	double shared = (double)counts->prefill_shared_tokens;
	double others = fmax(0, (double)counts->prefill_context_tokens - keys - shared);
	*floor = 4 * pairs * 8 * 64 * 6 / (prices->limits.flop_rate * 1000);
	return RAMP(prefill_walk, keys) + RAMP(prefill_half_chain, half) +
	       naive_cheaper(TERM(prefill_beside), chain, others) +
	       naive_dearer(TERM(prefill_even), even, keys) + RAMP(prefill_chain, chain) +
	       RAMP(prefill_pairs, walked) + naive_dearer(TERM(prefill_half), pairs, walked) +
	       RAMP(prefill_tiles, tiles);
}

static double naive_host(
	const struct operation_prices *prices, const struct step_counts *counts, bool is_ahead)
{
	bool is_eager = counts->prefill_tokens > 0;

	if (is_ahead) {
		return RAMP(host_ahead, 1);
	}
	return (is_eager ? RAMP(host_eager, 1) : RAMP(host_graph, counts->decode_rows > 0)) +
	       RAMP(host_rows, (double)(counts->decode_rows + counts->prefill_rows)) +
	       RAMP(host_tokens, (double)counts->prefill_tokens) +
	       RAMP(host_context, (double)counts->decode_context_tokens);
}

/* Quarter, half, whole and further tiles of 128 tokens, numbered from 0. */
static double naive_tiles(double tokens)
{
	return tokens <= 32 ? 0 : tokens <= 64 ? 1 : 1 + ceil(tokens / 128);
}

/* What the rows of a step take beside their attention. *floor: products and lm_head at the limits.
   The weights of 7 layers are read; tokens compute 6 layers and the qkv of the last. */
static double naive_launch(
	const struct operation_prices *prices, const struct step_counts *counts, double *floor)
{
	double rows = (double)counts->decode_rows, prompts = (double)counts->prefill_rows;
	double tokens = (double)counts->prefill_tokens, samples = (double)counts->sampled_rows;
	double qkv = 512. * (512 + 2 * 256), layer = qkv + 512. * 512 + 3 * 512. * 1024;
	double read = prices->limits.read_rate, flops = prices->limits.flop_rate * 1000;
	double reading = 2 * 7 * layer / read;
	double computing = 2 * (6 * layer + qkv) * (rows + tokens) / flops;
	double products = rows + tokens > 0 ? fmax(reading, computing) : 0;
	double base = rows + tokens > 0 ? fmax(reading, computing - reading / 2) : 0;
	double head =
		samples > 0 ? fmax(2 * 512. * 5000 / read, 2 * 512. * 5000 * samples / flops) : 0;
	double padded = naive_padded(counts->decode_rows);
	bool is_launched = tokens > prices->graph_tokens || prompts > 3 || rows > 128;

	*floor = products + head;
	if (counts->prefill_tokens == 0) {
		return base + head + RAMP(graph, rows > 0) + RAMP(graph_rows, padded) +
		       RAMP(samples, padded);
	}
	return base + head + RAMP(eager, 1) + RAMP(eager_launched, is_launched) +
	       RAMP(eager_mixed, rows > 0) +
	       RAMP(eager_mixed_tokens, rows > 0 ? fmin(tokens, 2048) : 0) +
	       RAMP(eager_products, products) + RAMP(eager_tokens, tokens + rows) +
	       RAMP(eager_tiles, naive_tiles(tokens + rows)) + RAMP(eager_decodes, rows) +
	       RAMP(eager_decode, rows) + RAMP(eager_rows, prompts) + RAMP(samples, samples);
}

static double naive_whole(const struct operation_prices *prices, const struct step_counts *counts,
	bool is_ahead, double *roofline)
{
	double fixed, read, computed;
	double priced =
		naive_launch(prices, counts, &fixed) + naive_context(prices, counts, &read) +
		naive_prompts(prices, counts, &computed) + naive_host(prices, counts, is_ahead);

	*roofline = fixed + read + computed;
	return fmax(priced, *roofline);
}

/* Price of a step: GPU and host. */
static struct operation_price naive_operations(
	const struct operation_prices *prices, const struct step_counts *counts, bool is_ahead)
{
	struct step_counts decodes = *counts, prompts = *counts;
	double roofline, ns = naive_whole(prices, counts, is_ahead, &roofline);

	if (counts->decode_rows > 0 && counts->prefill_tokens > 0) {
		decodes.prefill_rows = decodes.prefill_tokens = 0;
		decodes.sampled_rows = counts->decode_rows;
		prompts.decode_rows = prompts.decode_context_tokens = prompts.shared_tokens = 0;
		prompts.sampled_rows = counts->sampled_rows - counts->decode_rows;
		double a = naive_whole(prices, &decodes, is_ahead, &roofline);
		double b = naive_whole(prices, &prompts, is_ahead, &roofline);
		ns = fmax(fmin(ns, 1.25 * (a + b)), fmax(a, b));
	}
	double host = fmin(naive_host(prices, counts, is_ahead), ns);
	return (struct operation_price){.gpu_ns = ns - host, .host_ns = host};
}

static void require_operation_times(
	const struct step_time *time, const struct operation_price *expected)
{
	double elapsed = expected->gpu_ns + expected->host_ns;
	double slack = 0.5 + 1e-9 * elapsed;

	require(fabs((double)time->elapsed_ns - elapsed) <= slack, "%llu ns for %.6f",
		(unsigned long long)time->elapsed_ns, elapsed);
	require(fabs((double)time->host_ns - expected->host_ns) <= slack, "host: %llu ns for %.6f",
		(unsigned long long)time->host_ns, expected->host_ns);
	require_equal(time->gpu_ns + time->host_ns, time->elapsed_ns);
	require_equal(time->idle_ns, 0);
	require_equal(time->mode, STEP_MODE_NONE);
}

/* A run of a few steps, each executed, or launched and collected: one at a time or one ahead. */
static void play_steps(
	struct prop *prop, const struct runner *runner, const struct operation_prices *prices)
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
		const struct operation_price expected =
			naive_operations(prices, &counts[collected], is_ahead[collected]);
		enum status status = runner->collect(runner->state, NULL, &time, &error);
		require(status == STATUS_OK, "%s", error.text);
		require_operation_times(&time, &expected);
		collected++;
	}
}

static struct gpu_profile calibrated_profile(void)
{
	return (struct gpu_profile){.name = "drawn",
		.model = "drawn",
		.ranks = 1,
		.is_calibrated = true,
		.has_limits = true,
		.prices = {.shape = whole_model,
			.limits = {.read_rate = 1e6, .flop_rate = 1e6, .multiprocessors = 1}}};
}

static void body_operations(struct prop *prop, const void *context)
{
	struct gpu_profile gpu = calibrated_profile();
	struct step_counts counts;
	struct runner runner;
	struct error error = {0};
	struct step_time time = {0};
	(void)context;

	draw_prices(prop, &gpu.prices);
	require_equal(cost_model_open(&runner, &whole_model, &gpu, 1, &error), STATUS_OK);
	draw_counts(prop, &counts);
	const struct batch batch = {.step = 3, .counts = counts};
	const struct operation_price expected = naive_operations(&gpu.prices, &counts, false);
	enum status status = runner.execute(runner.state, &batch, NULL, &time, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_operation_times(&time, &expected);
	play_steps(prop, &runner, &gpu.prices);
	runner.close(runner.state);
}

Test(step_price, by_operations_equals_the_sum_of_the_terms)
{
	const struct prop_options options = {
		.name = "price by operations", .body = body_operations, .trials = 3000};

	cr_assert(prop_holds(&options));
}

/* A step of these counts by prices that are 0 but for one term. */
static enum status price_graph(double graph_ns, struct step_time *time, struct error *error)
{
	const struct batch batch = {.step = 12, .counts = {.decode_rows = 1}};
	struct gpu_profile gpu = calibrated_profile();
	struct operation_floors floors;
	struct runner runner;

	operation_floors_of(&floors, &gpu.prices.limits, &gpu.prices.shape);
	gpu.prices.terms[OPERATION_TERM_graph] =
		(struct operation_parts){.count = 1, .ns = {graph_ns - floors.products}};
	require_equal(cost_model_open(&runner, &whole_model, &gpu, 1, error), STATUS_OK);
	enum status status = runner.execute(runner.state, &batch, NULL, time, error);
	runner.close(runner.state);
	return status;
}

/* 10^15 ns is the longest step. */
Test(step_price, the_longest_step_is_allowed_and_one_beyond_it_is_refused)
{
	struct error error = {0};
	struct step_time time = {0};

	require_equal(price_graph(1e15 - 1, &time, &error), STATUS_OK);
	require_equal(time.elapsed_ns, UINT64_C(999999999999999));
	require_equal(price_graph(1e15 + 1, &time, &error), STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "step 12"), "%s", error.text);
}

/* A calibrated profile prices the model and the number of ranks that it was measured with, and no
   others. */
Test(step_price, of_another_model_or_number_of_ranks_is_refused)
{
	const struct model_config model = {.name = "other"};
	const struct gpu_profile gpu = calibrated_profile();
	struct runner runner;
	struct error error = {0};

	require_equal(cost_model_open(&runner, &model, &gpu, 1, &error), STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "other"), "%s", error.text);
	const struct model_config same = whole_model;
	require_equal(cost_model_open(&runner, &same, &gpu, 2, &error), STATUS_USAGE);
	struct model_config wider = whole_model;
	wider.head_dim *= 2;
	error = (struct error){0};
	require_equal(cost_model_open(&runner, &wider, &gpu, 1, &error), STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "of head_dim 64 on a GPU"), "%s", error.text);
	const struct gpu_profile alone = {.name = "drawn"};
	require_equal(cost_model_open(&runner, &same, &alone, 2, &error), STATUS_USAGE);
}
