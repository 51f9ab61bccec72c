#include "engine/shape/exchange_layout.h"
#include "engine/shape/step_tensors.h"
#include "engine/shape/weight_shape.h"
#include "sim/cost_model.h"
#include "sim/kv_memory.h"
#include "sim/profile.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Prices and memory of several GPUs that share a model: by hand, and by laws. */

enum { RANKS_MAX = TENSOR_PARALLEL_MAX };

static struct model_config model_at(uint32_t index)
{
	struct model_config model;

	require(model_config_builtin(model_config_name(index), &model), "no model %u", index);
	return model;
}

static struct gpu_profile profile_of(const char *name)
{
	struct gpu_profile gpu;
	struct error error = {0};

	require(gpu_profile_find(name, &gpu, &error) == STATUS_OK, "%s", error.text);
	return gpu;
}

static struct step_price price_of(const struct model_config *model, const struct gpu_profile *gpu,
	uint32_t ranks, const struct step_counts *counts)
{
	struct step_price price;
	struct runner runner;
	struct error error = {0};

	require(cost_model_open(&runner, model, gpu, ranks, &error) == STATUS_OK, "%s", error.text);
	cost_model_price(&runner, counts, &price);
	runner.close(runner.state);
	return price;
}

/* ---- by hand ---- */

/* 2 layers of width 100 in 8 heads: a token's partial sums are 200 bytes. */
static const struct model_config small = {.name = "small",
	.hidden_size = 100,
	.num_hidden_layers = 2,
	.num_attention_heads = 16,
	.num_key_value_heads = 8,
	.head_dim = 10,
	.intermediate_size = 240,
	.vocab_size = 1000,
	.tie_word_embeddings = true};

static struct gpu_profile small_gpu(void)
{
	struct gpu_profile gpu = {.name = "slow",
		.memory_bytes = 10e6,
		.context_bytes = 1e6,
		.memory_rate = 1,
		.product_sustained = 1,
		.decode_attention_fixed = 7,
		.decode_attention_row = 3,
		.decode_attention_rate = 2,
		.prefill_attention_fixed = 11,
		.prefill_attention_token = 0.5,
		.prefill_attention_rate = 0.016,
		.elementwise_fixed = 13,
		.sampling_fixed = 17,
		.sampling_rate = 10,
		.step_fixed = 19,
		.host_fixed = 23,
		.host_row = 29,
		.has_link = true,
		.link_fixed = 1000,
		.link_rank = 100,
		.link_rate = 2,
		.host_rank = 5};

	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		gpu.linear[i] =
			(struct gpu_linear){.floor = 5, .memory_rate = 10, .flop_rate = 0.1};
	}
	return gpu;
}

Test(tensor_parallel, a_step_of_two_ranks_adds_up_as_the_header_says)
{
	const struct gpu_profile gpu = small_gpu();
	const struct step_counts counts = {
		.decode_rows = 3, .decode_context_tokens = 50, .sampled_rows = 3};
	struct step_price price = price_of(&small, &gpu, 2, &counts);

	/* A rank has 8 query and 4 KV heads: qkv is (100, 160), o (80, 100). */
	cr_assert(price.linear[MODEL_LINEAR_QKV] == 2 * (5 + 2 * (16000 + 3 * 260) / 10.0));
	cr_assert(price.linear[MODEL_LINEAR_O] == 2 * (5 + 2 * (8000 + 3 * 180) / 10.0));
	/* gate_up (100, 240), down (120, 100), and half of the vocabulary. */
	cr_assert(price.linear[MODEL_LINEAR_GATE_UP] == 2 * (5 + 2 * (24000 + 3 * 340) / 10.0));
	cr_assert(price.linear[MODEL_LINEAR_DOWN] == 2 * (5 + 2 * (12000 + 3 * 220) / 10.0));
	cr_assert(price.linear[MODEL_LINEAR_LM_HEAD] == 5 + 2 * (50000 + 3 * 600) / 10.0);
	/* 2 * (7 + 3 * 4 * 3), and 50 tokens of K and V of 4 heads of 10 in two layers. */
	cr_assert(price.decode_attention == 2 * 43.0 + 50 * 320 / 2.0);
	cr_assert(price.sampling == 17 + 3 * 500 / 10.0);
	/* A token: 2 bytes of 8 whole rows, qkv in and out twice, three rows of 120. */
	cr_assert(price.elementwise == 2 * (13 + 3 * 2 * (800 + 4 * 160 + 360.0)));
	/* Four exchanges of 600 bytes at 2, and one of candidates. */
	cr_assert(price.exchange == 4 * (1000 + 300.0) + 1000);
	cr_assert(price.host == 23 + 3 * 29 + 5.0);
	cr_assert(price.step_fixed == 19);
}

/* Long steps of many ranks are shorter in two ways of a part each. */
Test(tensor_parallel, an_exchange_takes_the_shorter_of_two_ways)
{
	const struct gpu_profile gpu = small_gpu();
	const struct step_counts few = {.prefill_rows = 1, .prefill_tokens = 1},
				 many = {.prefill_rows = 1, .prefill_tokens = 1000};
	/* Of 8 ranks an exchange starts after 1,600. 200 bytes go to 7 others, or 200,000 bytes. */
	cr_assert(price_of(&small, &gpu, 8, &few).exchange == 4 * (1600 + 7 * 100.0));
	cr_assert(price_of(&small, &gpu, 8, &many).exchange == 4 * (2 * 1600 + 2 * 0.875 * 100000));
	cr_assert(price_of(&small, &gpu, 4, &few).exchange == 4 * (1200 + 3 * 100.0));
	cr_assert(price_of(&small, &gpu, 2, &many).exchange == 4 * (1000 + 100000.0));
	cr_assert(price_of(&small, &gpu, 1, &many).exchange == 0);
}

/* ---- laws of prices ---- */

struct priced {
	struct step_counts counts;
	struct model_config model;
	struct gpu_profile gpu;
};

static void draw_step(struct prop *prop, struct priced *out)
{
	static const char *const names[] = {"h200-datasheet", "h100-datasheet", "a100-datasheet",
		"b200-datasheet", "l40s-datasheet", "rtx4090-datasheet"};

	out->model = model_at((uint32_t)prop_below(prop, model_config_count()));
	out->gpu = profile_of(names[prop_below(prop, 6)]);
	out->counts = (struct step_counts){
		.decode_rows = prop_below(prop, 257), .prefill_rows = prop_below(prop, 4)};
	out->counts.decode_context_tokens = out->counts.decode_rows * (1 + prop_below(prop, 4000));
	if (out->counts.prefill_rows > 0) {
		out->counts.prefill_tokens =
			out->counts.prefill_rows * (1 + prop_below(prop, 4000));
		out->counts.prefill_attention_pairs =
			batch_attention_pairs(prop_below(prop, 9999), out->counts.prefill_tokens);
	}
	out->counts.sampled_rows = out->counts.decode_rows + out->counts.prefill_rows;
}

/* What is divided among more ranks costs each of them less, what they exchange costs more, and the
   bytes of the exchange are those of the rows. */
static void body_laws(struct prop *prop, const void *context)
{
	struct priced priced;
	struct step_price before = {0};
	(void)context;

	draw_step(prop, &priced);
	double tokens = (double)(priced.counts.decode_rows + priced.counts.prefill_tokens);
	double bytes = tokens * 2 * priced.model.hidden_size;
	for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
		struct step_price price =
			price_of(&priced.model, &priced.gpu, ranks, &priced.counts);
		double link = priced.gpu.link_fixed + priced.gpu.link_rank * ((double)ranks - 2);
		double once = link + (ranks - 1) * bytes / priced.gpu.link_rate;
		double twice = 2 * link + 2 * (1 - 1.0 / ranks) * bytes / priced.gpu.link_rate;
		double sums =
			tokens == 0 ? 0 : 2 * priced.model.num_hidden_layers * fmin(once, twice);
		double expected = sums + (priced.counts.sampled_rows == 0 ? 0 : link);
		require(ranks == 1 ? price.exchange == 0
				   : fabs(price.exchange - expected) <= 1e-9 * expected,
			"%u ranks: exchange %.17g, expected %.17g", ranks, price.exchange,
			expected);
		for (uint32_t i = 0; ranks > 1 && i < MODEL_LINEAR_COUNT; i++) {
			require(price.linear[i] <= before.linear[i], "%u ranks: linear layer %u",
				ranks, i);
			/* No more than the ranks together save. */
			require(price.linear[i] >= before.linear[i] / 2,
				"%u ranks: linear layer %u", ranks, i);
		}
		if (ranks > 1) {
			require(price.decode_attention <= before.decode_attention, "decodes");
			require(price.prefill_attention <= before.prefill_attention, "prompts");
			require(price.elementwise <= before.elementwise, "elementwise");
			require(price.sampling <= before.sampling, "sampling");
			require(price.exchange >= before.exchange, "%u ranks: exchange", ranks);
			require(price.host >= before.host, "host");
			require(price.step_fixed == before.step_fixed, "fixed");
		}
		before = price;
	}
}

Test(tensor_parallel, prices_follow_the_shares)
{
	const struct prop_options options = {.name = "prices", .body = body_laws, .trials = 500};

	cr_assert(prop_holds(&options));
}

/* ---- laws of memory ---- */

static struct kv_memory memory_of(
	const struct model_config *model, const struct gpu_profile *gpu, uint32_t ranks)
{
	static const struct engine_config engine = {.block_size = 256,
		.max_num_seqs = 512,
		.max_num_batched_tokens = 16384,
		.max_model_len = 4096};
	struct kv_memory memory;
	struct error error = {0};

	require(kv_memory_estimate(model, gpu, &engine, 900000, ranks, &memory, &error) ==
			STATUS_OK,
		"%s", error.text);
	return memory;
}

/* The weights of all ranks are those of the model, and one copy more for each rank beyond the first
   of what every rank holds whole. */
Test(tensor_parallel, shards_of_weights_add_up)
{
	for (uint32_t m = 0; m < model_config_count(); m++) {
		const struct model_config model = model_at(m);
		uint64_t norms = model.num_hidden_layers *
					 (2 * (uint64_t)model.hidden_size + 2 * model.head_dim) +
				 model.hidden_size;
		uint64_t whole = 2 * (norms + (uint64_t)model.vocab_size * model.hidden_size);
		uint64_t before = UINT64_MAX;
		for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
			uint64_t sum = 0, most = 0;
			for (uint32_t rank = 0; rank < ranks; rank++) {
				uint64_t bytes = weight_shard_bytes(
					&model, (struct weight_shard){rank, ranks});
				sum += bytes;
				most = bytes > most ? bytes : most;
			}
			require_equal(sum, weight_total_bytes(&model) + (ranks - 1) * whole);
			require(most < before, "%s: a rank of %u holds more", model.name, ranks);
			before = most;
		}
	}
}

/* A rank that holds less of everything has room for more blocks, and more than twice as many of
   twice the ranks, since a block takes half and the weights leave more. */
Test(tensor_parallel, more_ranks_hold_more_blocks)
{
	const struct gpu_profile gpu = profile_of("h200-datasheet");

	for (uint32_t m = 0; m < model_config_count(); m++) {
		const struct model_config model = model_at(m);
		struct kv_memory one = memory_of(&model, &gpu, 1), before = one;
		require_equal(one.exchange_bytes, 0);
		for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks *= 2) {
			struct kv_memory memory = memory_of(&model, &gpu, ranks);
			uint64_t used = memory.context_bytes + memory.weight_bytes +
					memory.activation_bytes + memory.exchange_bytes;
			require_equal(memory.block_bytes * ranks, one.block_bytes);
			require_equal(memory.exchange_bytes,
				exchange_layout(ranks, model.hidden_size, 16384, 512).bytes);
			require(memory.weight_bytes < before.weight_bytes, "weights");
			require(memory.activation_bytes < before.activation_bytes, "activations");
			require(memory.block_count > 2 * before.block_count - 20,
				"%s, %u ranks: %u blocks, %u before", model.name, ranks,
				memory.block_count, before.block_count);
			require(used + memory.block_count * memory.block_bytes <=
						memory.usable_bytes &&
					used + (memory.block_count + 1) * memory.block_bytes >
						memory.usable_bytes,
				"%s, %u ranks: not the most that fit", model.name, ranks);
			before = memory;
		}
	}
}

/* Of a vocabulary that cannot be divided evenly, the rank with the most of it sets the number. */
Test(tensor_parallel, blocks_are_those_of_the_fullest_rank)
{
	struct model_config model = model_at(3);
	const struct gpu_profile gpu = profile_of("h200-datasheet");
	uint64_t largest = 0;

	model.vocab_size = 151937;
	for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
		uint64_t bytes = weight_shard_bytes(&model, (struct weight_shard){rank, RANKS_MAX});
		largest = bytes > largest ? bytes : largest;
	}
	require(largest > weight_shard_bytes(&model, (struct weight_shard){0, RANKS_MAX}),
		"the shares are equal");
	const struct kv_memory memory = memory_of(&model, &gpu, RANKS_MAX);
	require_equal(memory.weight_bytes, largest);
	/* as if every rank had as many tokens of the vocabulary as the fullest */
	model.vocab_size += RANKS_MAX - model.vocab_size % RANKS_MAX;
	require_equal(memory.activation_bytes, memory_of(&model, &gpu, RANKS_MAX).activation_bytes);
}

/* A profile of an engine that was measured whole has one sum for its context and activations. */
Test(tensor_parallel, measured_engines_have_no_further_context)
{
	const struct model_config model = model_at(0);
	struct gpu_profile gpu = profile_of("h200-datasheet");

	gpu.engine_bytes = 5e9;
	const struct kv_memory memory = memory_of(&model, &gpu, 1);
	require(gpu.context_bytes > 0, "the profile has no context");
	require_equal(memory.context_bytes, 0);
	require_equal(memory.activation_bytes, 5000000000);
	require_equal(memory.block_count,
		(memory.usable_bytes - memory.weight_bytes - 5000000000) / memory.block_bytes);
}

/* ---- refusals ---- */

static void require_refused(const struct model_config *model, const struct gpu_profile *gpu,
	uint32_t ranks, const char *words)
{
	struct runner runner;
	struct error error = {0};

	require_equal(cost_model_open(&runner, model, gpu, ranks, &error), STATUS_USAGE);
	require(strstr(error.text, words) != NULL, "'%s' does not say '%s'", error.text, words);
}

Test(tensor_parallel, a_profile_prices_the_ranks_that_it_knows)
{
	const struct model_config model = model_at(0);
	struct gpu_profile measured = profile_of("h200-qwen3-0.6b"),
			   rates = profile_of("h200-datasheet");

	require_equal(measured.ranks, 1);
	require_refused(&model, &measured, 2,
		"h200-qwen3-0.6b was calibrated with --tensor-parallel-size 1 and prices no other, "
		"found 2");
	measured.ranks = 2;
	measured.prices.shape = weight_shard_config(&model, (struct weight_shard){.ranks = 2});
	require_refused(&model, &measured, 1, "--tensor-parallel-size 2 and prices no other");
	struct runner runner;
	struct error error = {0};
	require(cost_model_open(&runner, &model, &measured, 2, &error) == STATUS_OK, "%s",
		error.text);
	runner.close(runner.state);
	rates.has_link = false;
	require_refused(&model, &rates, 4, "has no section 'link', expected one");
	price_of(&model, &rates, 1, &(struct step_counts){.decode_rows = 1});
}
