#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/model/config_json.h"
#include "engine/shape/model_config.h"
#include "sim/cost_model.h"
#include "sim/kv_memory.h"
#include "sim/profile.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

struct fixture {
	struct model_config model;
	struct gpu_profile gpu;
	struct runner runner;
};

static void fixture_open_ranks(
	struct fixture *fixture, const char *model, const char *gpu, uint32_t ranks)
{
	struct error error = {STATUS_OK, ""};
	enum status status = model_config_find(model, &fixture->model, &error);
	require(status == STATUS_OK, "%s", error.text);
	status = gpu_profile_find(gpu, &fixture->gpu, &error);
	require(status == STATUS_OK, "%s", error.text);
	status = cost_model_open(&fixture->runner, &fixture->model, &fixture->gpu, ranks, &error);
	require(status == STATUS_OK, "%s", error.text);
}

static void fixture_open(struct fixture *fixture, const char *model, const char *gpu)
{
	fixture_open_ranks(fixture, model, gpu, 1);
}

static void fixture_close(struct fixture *fixture)
{
	fixture->runner.close(fixture->runner.state);
}

static struct step_time execute(const struct fixture *fixture, const struct step_counts *counts)
{
	const struct batch batch = {.counts = *counts};
	struct step_time time = {0};
	struct error error = {STATUS_OK, ""};
	enum status status =
		fixture->runner.execute(fixture->runner.state, &batch, NULL, &time, &error);
	require(status == STATUS_OK, "%s", error.text);
	return time;
}

/* A step among many is launched before its predecessor has ended, where the engine does so. */
Test(cost_model, the_price_of_a_step_is_that_of_one_among_many)
{
	const struct batch batch = {.counts = {.decode_rows = 3,
					    .decode_context_tokens = 900,
					    .decode_longest_context = 300,
					    .sampled_rows = 3}};
	struct step_time first, second;
	struct fixture fixture;
	struct error error = {STATUS_OK, ""};
	uint64_t price = 0;

	fixture_open(&fixture, "qwen3-0.6b", "h200-qwen3-0.6b");
	const struct runner *runner = &fixture.runner;
	require_equal(runner->launch(runner->state, &batch, &error), STATUS_OK);
	require_equal(runner->launch(runner->state, &batch, &error), STATUS_OK);
	require_equal(runner->collect(runner->state, NULL, &first, &error), STATUS_OK);
	require_equal(runner->collect(runner->state, NULL, &second, &error), STATUS_OK);
	require(second.elapsed_ns < first.elapsed_ns, "nothing is saved");
	require_equal(runner->price(runner->state, &batch.counts, &price, &error), STATUS_OK);
	require_equal(price, second.elapsed_ns);
	fixture_close(&fixture);
	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	require_equal(runner->price(runner->state, &batch.counts, &price, &error), STATUS_OK);
	require_equal(price, execute(&fixture, &batch.counts).elapsed_ns);
	fixture_close(&fixture);
}

/* ---- an engine in a process of its own ---- */

/* Its host's time is the least that a step takes, and shows on the host only; larger steps cost
   what they do without it. */
Test(cost_model, the_host_of_an_engine_process_is_a_floor)
{
	const struct step_counts small = {.decode_rows = 3,
		.decode_context_tokens = 900,
		.decode_longest_context = 300,
		.sampled_rows = 3};
	const struct step_counts crowd = {.decode_rows = 3,
		.decode_context_tokens = 900,
		.decode_longest_context = 300,
		.prefill_rows = 200,
		.prefill_tokens = 200,
		.prefill_attention_pairs = 200,
		.prefill_longest_context = 1,
		.sampled_rows = 203};
	const struct step_counts large = {.decode_rows = 512,
		.decode_context_tokens = 2000000,
		.decode_longest_context = 4000,
		.sampled_rows = 512};
	struct fixture own, same;
	struct error error = {STATUS_OK, ""};

	fixture_open(&own, "qwen3-0.6b", "h200-vllm-qwen3-0.6b");
	same = own;
	same.gpu.process_step = same.gpu.process_row = 0;
	require(cost_model_open(&same.runner, &same.model, &same.gpu, 1, &error) == STATUS_OK, "%s",
		error.text);
	struct step_time floor = execute(&own, &small), without = execute(&same, &small);
	require_equal(floor.elapsed_ns, 2504600 + 3 * 25400);
	require_equal(execute(&own, &crowd).elapsed_ns, 2504600 + 203 * 25400); /* prompts too */
	require_equal(floor.gpu_ns, without.gpu_ns);
	require(without.elapsed_ns < floor.elapsed_ns, "the floor changes nothing");
	require_equal(execute(&own, &large).elapsed_ns, execute(&same, &large).elapsed_ns);
	fixture_close(&own);
	fixture_close(&same);
}

static struct step_counts draw_counts(struct prop *prop)
{
	struct step_counts counts = {.decode_rows = prop_range(prop, 0, 300),
		.prefill_rows = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 8) : 0};
	uint64_t context = prop_range(prop, 1, 3000);

	counts.decode_rows += counts.decode_rows + counts.prefill_rows == 0;
	counts.decode_context_tokens = counts.decode_rows * context;
	counts.decode_longest_context = counts.decode_rows > 0 ? context : 0;
	if (counts.prefill_rows > 0) {
		uint64_t tokens = prop_range(prop, 1, 1000);
		counts.prefill_tokens = counts.prefill_rows * tokens;
		counts.prefill_attention_pairs = counts.prefill_rows * tokens * (tokens + 1) / 2;
		counts.prefill_longest_context = tokens;
	}
	counts.sampled_rows = counts.decode_rows + counts.prefill_rows;
	return counts;
}

/* Opens another model like it, with an engine process and without heat. */
static struct fixture with_process(const struct fixture *fixture, double step_ns, double row_ns)
{
	struct fixture own = *fixture;
	struct error error = {STATUS_OK, ""};

	own.gpu.process_step = step_ns;
	own.gpu.process_row = row_ns;
	own.gpu.heat = (struct heat_prices){0};
	require(cost_model_open(&own.runner, &own.model, &own.gpu, 1, &error) == STATUS_OK, "%s",
		error.text);
	return own;
}

/* Beside host prices of any size a step takes what it takes without the process or the process's
   time, whichever is more. The GPU's part is the same, and the rest is the host's. */
static void body_process(struct prop *prop, const void *context)
{
	static const char *const names[][2] = {{"qwen3-0.6b", "h200-qwen3-0.6b"},
		{"qwen3-8b", "h200-qwen3-8b"}, {"qwen3-0.6b", "h200-vllm-qwen3-0.6b"}};
	const char *const *name = names[prop_below(prop, 3)];
	struct fixture fixture;

	(void)context;
	fixture_open(&fixture, name[0], name[1]);
	struct fixture same = with_process(&fixture, 0, 0);
	for (uint32_t i = 0; i < 8; i++) {
		const struct step_counts counts = draw_counts(prop);
		const struct step_time without = execute(&same, &counts);
		uint64_t rows = counts.decode_rows + counts.prefill_rows;
		/* Below the GPU's part, between that and the whole step, and above both. */
		uint64_t from_ns = prop_chance(prop, 1, 2) ? without.gpu_ns : 0;
		uint64_t least_ns = from_ns + prop_below(prop, 2 * without.host_ns + 1000);
		uint64_t row_ns = prop_below(prop, least_ns / rows + 1);
		uint64_t step_ns = least_ns - rows * row_ns;
		struct fixture own = with_process(&fixture, (double)step_ns, (double)row_ns);
		const struct step_time with = execute(&own, &counts);
		uint64_t off = with.gpu_ns > without.gpu_ns ? with.gpu_ns - without.gpu_ns
							    : without.gpu_ns - with.gpu_ns;
		require_equal(with.elapsed_ns, u64_max(without.elapsed_ns, least_ns));
		require_equal(with.gpu_ns + with.host_ns, with.elapsed_ns);
		require(off <= 1, "the GPU's part differs by %llu ns", (unsigned long long)off);
		fixture_close(&own);
	}
	fixture_close(&same);
	fixture_close(&fixture);
}

Test(cost_model, an_engine_process_is_a_floor_beside_any_host_prices)
{
	const struct prop_options options = {
		.name = "engine process", .body = body_process, .trials = 40};

	cr_assert(prop_holds(&options));
}

/* ---- anchors: what was measured on one H200 ---- */

/* Prints a row of the table in sim/profiles/README.md; off: the deviation that is tolerated. */
static void expect(const char *what, double measured, double predicted, double off)
{
	double ratio = predicted / measured;
	cr_log_info("| %-46s | %9.3f | %9.3f | %+5.1f %% |", what, measured, predicted,
		(ratio - 1) * 100);
	require(ratio > 1 - off && ratio < 1 + off, "%s: %.3f measured, %.3f predicted", what,
		measured, predicted);
}

static double layer_products_ms(const struct fixture *fixture, uint64_t rows)
{
	struct step_price price;
	const struct step_counts counts = {.decode_rows = rows, .sampled_rows = rows};
	cost_model_price(&fixture->runner, &counts, &price);
	double sum = 0;
	for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
		sum += price.linear[i];
	}
	return sum / 1e6;
}

Test(anchors, matrix_products_of_decode_steps)
{
	/* Milliseconds of cuBLAS for qwen3-0.6b, weights not from cache. One row is an oddity of
	   that library (a slow kernel for o at one row) that the price does not follow. */
	static const struct {
		uint64_t rows;
		double layers, lm_head, off;
	} measured[] = {{1, 0.879, 0.078, 0.22}, {8, 0.687, 0.080, 0.05}, {32, 0.706, 0.084, 0.05},
		{64, 0.723, 0.087, 0.06}, {128, 0.761, 0.091, 0.06}, {256, 0.815, 0.121, 0.05},
		{512, 1.136, 0.225, 0.05}};
	struct fixture fixture;
	char what[64];

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		struct step_price price;
		const struct step_counts counts = {.sampled_rows = measured[i].rows};
		snprintf(what, sizeof(what), "28 layers' products, %u rows, ms",
			(unsigned)measured[i].rows);
		expect(what, measured[i].layers, layer_products_ms(&fixture, measured[i].rows),
			measured[i].off);
		cost_model_price(&fixture.runner, &counts, &price);
		snprintf(what, sizeof(what), "lm_head, %u rows, ms", (unsigned)measured[i].rows);
		expect(what, measured[i].lm_head, price.linear[MODEL_LINEAR_LM_HEAD] / 1e6, 0.06);
	}
	fixture_close(&fixture);
}

Test(anchors, matrix_products_of_prefill_steps)
{
	static const struct {
		uint64_t rows;
		double tflops;
	} measured[] = {{4096, 609}, {8192, 638}, {16384, 628}};
	struct fixture fixture;
	char what[64];

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	double layer_parameters = 1024 * 4096 + 2048 * 1024 + 1024 * 6144 + 3072 * 1024;
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		double flops = 28 * 2 * layer_parameters * (double)measured[i].rows;
		double ms = layer_products_ms(&fixture, measured[i].rows);
		snprintf(what, sizeof(what), "28 layers' products, %u rows, TFLOP/s",
			(unsigned)measured[i].rows);
		expect(what, measured[i].tflops, flops / ms / 1e9, 0.05);
	}
	fixture_close(&fixture);
}

static double decode_layer_us(const struct fixture *fixture, uint64_t rows, uint64_t context)
{
	struct step_price price;
	const struct step_counts counts = {.decode_rows = rows, .decode_context_tokens = context};
	cost_model_price(&fixture->runner, &counts, &price);
	return price.decode_attention / 28 / 1e3;
}

Test(anchors, decode_attention)
{
	/* TB/s of a layer of qwen3-0.6b, K and V, FlashAttention 2.8.3 on pages of 256 tokens. The
	   profile is fitted to FlashAttention 3, which splits small batches better and starts
	   later. */
	static const struct {
		uint64_t rows, context;
		double tb_per_s, off;
	} measured[] = {{256, 1024, 4.12, 0.15}, {256, 512, 3.74, 0.15}, {128, 1024, 4.02, 0.15},
		{64, 512, 3.46, 0.25}, {8, 1024, 0.94, 0.50}, {1, 1024, 0.24, 0.40}};
	struct fixture fixture;
	char what[64];

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		uint64_t tokens = measured[i].rows * measured[i].context;
		double us = (double)tokens * 4096 / measured[i].tb_per_s / 1e6;
		snprintf(what, sizeof(what), "decode attention, %u x %u, us",
			(unsigned)measured[i].rows, (unsigned)measured[i].context);
		expect(what, us, decode_layer_us(&fixture, measured[i].rows, tokens),
			measured[i].off);
	}
	fixture_close(&fixture);
}

Test(anchors, prefill_attention)
{
	/* Microseconds of a causal layer with 16 query and 8 KV heads, FlashAttention 3 in SGLang.
	 */
	static const struct {
		uint64_t rows, tokens;
		double us;
	} measured[] = {{32, 512, 158}, {16, 1024, 211}, {4, 4096, 519}, {1, 8192, 457}};
	struct fixture fixture;
	char what[64];

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		struct step_price price;
		uint64_t tokens = measured[i].tokens;
		const struct step_counts counts = {.prefill_rows = measured[i].rows,
			.prefill_tokens = measured[i].rows * tokens,
			.prefill_attention_pairs =
				measured[i].rows * batch_attention_pairs(0, tokens),
			.prefill_longest_context = tokens};
		cost_model_price(&fixture.runner, &counts, &price);
		snprintf(what, sizeof(what), "prefill attention, %u x %u, us",
			(unsigned)measured[i].rows, (unsigned)tokens);
		expect(what, measured[i].us, price.prefill_attention / 28 / 1e3, 0.20);
	}
	fixture_close(&fixture);
}

/* ---- the benchmark of the original engine, as a whole ---- */

enum { BENCH_REQUESTS = 256, BENCH_TOKEN_BUDGET = 16384 };

struct bench {
	uint64_t input[BENCH_REQUESTS], output[BENCH_REQUESTS];
};

/* Lengths only: the file's rows have a fixed form. False when it is not there. */
static bool read_bench(struct bench *bench)
{
	FILE *file = fopen(QUIRE_SOURCE_DIR "/../shared/traces/nano_bench.jsonl", "r");
	char line[512];
	uint32_t count = 0;

	if (file == NULL) {
		return false;
	}
	while (count < BENCH_REQUESTS && fgets(line, sizeof(line), file) != NULL) {
		const char *input = strstr(line, "\"input_length\":");
		const char *output = strstr(line, "\"output_length\":");
		require(input != NULL && output != NULL, "a row without lengths: %s", line);
		unsigned long long a = 0, b = 0;
		require(sscanf(input + 15, " %llu", &a) == 1, "input_length");
		require(sscanf(output + 16, " %llu", &b) == 1, "output_length");
		bench->input[count] = a;
		bench->output[count++] = b;
	}
	fclose(file);
	require_equal(count, BENCH_REQUESTS);
	return true;
}

struct bench_sum {
	double total_s, decode_attention_s;
	uint64_t output_tokens;
};

static void add_step(
	const struct fixture *fixture, const struct step_counts *counts, struct bench_sum *sum)
{
	struct step_price price;
	cost_model_price(&fixture->runner, counts, &price);
	sum->decode_attention_s += price.decode_attention / 1e9;
	sum->total_s += (double)execute(fixture, counts).elapsed_ns / 1e9;
}

/* The original's own schedule, without preemption: whole prompts in order while the budget lasts,
   then decode steps over all that are not done. */
static struct bench_sum run_bench(const struct fixture *fixture, const struct bench *bench)
{
	struct bench_sum sum = {0};
	struct step_counts prefill = {0};

	for (uint32_t i = 0; i < BENCH_REQUESTS; i++) {
		if (prefill.prefill_tokens + bench->input[i] > BENCH_TOKEN_BUDGET) {
			add_step(fixture, &prefill, &sum);
			prefill = (struct step_counts){0};
		}
		prefill.prefill_rows++;
		prefill.sampled_rows++;
		prefill.prefill_tokens += bench->input[i];
		prefill.prefill_attention_pairs += batch_attention_pairs(0, bench->input[i]);
		prefill.prefill_longest_context =
			u64_max(prefill.prefill_longest_context, bench->input[i]);
		sum.output_tokens += bench->output[i];
	}
	add_step(fixture, &prefill, &sum);
	for (uint64_t step = 1;; step++) {
		struct step_counts decode = {0};
		for (uint32_t i = 0; i < BENCH_REQUESTS; i++) {
			if (bench->output[i] > step) {
				decode.decode_rows++;
				decode.decode_context_tokens += bench->input[i] + step;
			}
		}
		if (decode.decode_rows == 0) {
			return sum;
		}
		decode.sampled_rows = decode.decode_rows;
		add_step(fixture, &decode, &sum);
	}
}

Test(anchors, benchmark_of_the_original_engine)
{
	/* One GPU: nano-vllm. Two: vLLM 0.26.0, which no number of the profile was fitted to. */
	static const struct {
		const char *model;
		uint32_t ranks;
		double tokens_per_s, off;
	} measured[] = {{"qwen3-0.6b", 1, 19757, 0.08}, {"qwen3-8b", 1, 8768, 0.08},
		{"qwen3-8b", 2, 14375, 0.08}, {"qwen3-32b", 2, 4933, 0.08}};
	struct bench bench;
	char what[64];

	if (!read_bench(&bench)) {
		cr_skip_test("../shared/traces/nano_bench.jsonl is not here");
	}
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		struct fixture fixture;
		fixture_open_ranks(
			&fixture, measured[i].model, "h200-datasheet", measured[i].ranks);
		struct bench_sum sum = run_bench(&fixture, &bench);
		require_equal(sum.output_tokens, 133966);
		snprintf(what, sizeof(what), "nano_bench, %s, %u GPUs, output tokens/s",
			measured[i].model, measured[i].ranks);
		expect(what, measured[i].tokens_per_s, (double)sum.output_tokens / sum.total_s,
			measured[i].off);
		if (i == 0) {
			expect("nano_bench, qwen3-0.6b, decode attention, s", 3.95,
				sum.decode_attention_s, 0.05);
		}
		fixture_close(&fixture);
	}
}

Test(anchors, one_request_of_the_original_engine)
{
	/* 128 tokens in, 512 out: nano-vllm with FlashAttention 2.8.3 and with a tuned decode
	   kernel, and vLLM 0.26.0 on two GPUs. */
	static const struct {
		const char *model;
		uint32_t ranks;
		double tokens_per_s, off;
	} measured[] = {{"qwen3-0.6b", 1, 427, 0.25}, {"qwen3-0.6b", 1, 500, 0.25},
		{"qwen3-8b", 1, 169, 0.15}, {"qwen3-8b", 1, 178, 0.15}, {"qwen3-8b", 2, 268, 0.1},
		{"qwen3-32b", 2, 91, 0.1}};
	enum { INPUT = 128, OUTPUT = 512 };
	char what[64];

	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		struct fixture fixture;
		const struct step_counts prefill = {.prefill_rows = 1,
			.prefill_tokens = INPUT,
			.prefill_attention_pairs = batch_attention_pairs(0, INPUT),
			.prefill_longest_context = INPUT,
			.sampled_rows = 1};
		fixture_open_ranks(
			&fixture, measured[i].model, "h200-datasheet", measured[i].ranks);
		uint64_t ns = execute(&fixture, &prefill).elapsed_ns;
		for (uint64_t token = 1; token < OUTPUT; token++) {
			const struct step_counts decode = {.decode_rows = 1,
				.decode_context_tokens = INPUT + token,
				.sampled_rows = 1};
			ns += execute(&fixture, &decode).elapsed_ns;
		}
		snprintf(what, sizeof(what), "one request, %s, %u GPUs, tokens/s",
			measured[i].model, measured[i].ranks);
		expect(what, measured[i].tokens_per_s, OUTPUT * 1e9 / (double)ns, measured[i].off);
		fixture_close(&fixture);
	}
}

Test(anchors, published_figures_of_other_engines_and_gpus)
{
	/* sim/profiles/README.md has the sources and says why each is off. */
	static const double a100[] = {10009, 9530, 8670, 8136};
	struct bench bench;

	if (!read_bench(&bench)) {
		cr_skip_test("../shared/traces/nano_bench.jsonl is not here");
	}
	struct fixture fixture;
	fixture_open(&fixture, "qwen3-0.6b", "a100-datasheet");
	struct bench_sum sum = run_bench(&fixture, &bench);
	for (size_t i = 0; i < sizeof(a100) / sizeof(a100[0]); i++) {
		expect("nano_bench, qwen3-0.6b, A100, output tokens/s", a100[i],
			(double)sum.output_tokens / sum.total_s, 0.4);
	}
	fixture_close(&fixture);
	for (uint32_t i = 0; i < BENCH_REQUESTS; i++) {
		bench.input[i] = bench.output[i] = 1024;
	}
	fixture_open(&fixture, "qwen3-8b", "h200-datasheet");
	sum = run_bench(&fixture, &bench);
	expect("SGLang, qwen3-8b, H200, 256 of 1024/1024, output tokens/s", 8497,
		(double)sum.output_tokens / sum.total_s, 0.05);
	fixture_close(&fixture);
}

/* ---- arithmetic, by hand ---- */

/* A model and a GPU with numbers that are easy to multiply. */
static void small_fixture(struct fixture *fixture)
{
	struct error error = {STATUS_OK, ""};
	fixture->model = (struct model_config){.name = "small",
		.hidden_size = 100,
		.num_hidden_layers = 2,
		.num_attention_heads = 4,
		.num_key_value_heads = 2,
		.head_dim = 10,
		.intermediate_size = 200,
		.vocab_size = 1000,
		.tie_word_embeddings = true};
	fixture->gpu = (struct gpu_profile){.name = "slow",
		.memory_bytes = 10e6,
		.context_bytes = 1e6,
		.memory_rate = 1,
		.product_sustained = 0.5,
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
		.host_row = 29};
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		fixture->gpu.linear[i] =
			(struct gpu_linear){.floor = 5, .memory_rate = 10, .flop_rate = 0.1};
	}
	enum status status =
		cost_model_open(&fixture->runner, &fixture->model, &fixture->gpu, 1, &error);
	require(status == STATUS_OK, "%s", error.text);
}

Test(cost_model, a_decode_step_adds_up_as_the_header_says)
{
	struct fixture fixture;
	struct step_price price;
	const struct step_counts counts = {
		.decode_rows = 3, .decode_context_tokens = 50, .sampled_rows = 3};

	small_fixture(&fixture);
	cost_model_price(&fixture.runner, &counts, &price);
	/* Two layers; qkv is (100, 80): bytes 2 * (8000 + 3 * 180), FLOPs 48,000 at half of 100. */
	cr_assert(price.linear[MODEL_LINEAR_QKV] == 2 * (5 + 1708.0));
	/* o is (40, 100): 2 * (4000 + 3 * 140) bytes. gate_up (100, 400), down (200, 100). */
	cr_assert(price.linear[MODEL_LINEAR_O] == 2 * (5 + 884.0));
	cr_assert(price.linear[MODEL_LINEAR_GATE_UP] == 2 * (5 + 8300.0));
	cr_assert(price.linear[MODEL_LINEAR_DOWN] == 2 * (5 + 4180.0));
	/* Once, at the full FLOP rate: 600,000 / 100 FLOPs against 206,600 / 10 bytes. */
	cr_assert(price.linear[MODEL_LINEAR_LM_HEAD] == 5 + 20660.0);
	/* 2 * (7 + 3 * 2 * 3) and 50 tokens of 160 bytes at 2. */
	cr_assert(price.decode_attention == 2 * 25.0 + 4000);
	cr_assert(price.prefill_attention == 0);
	/* A token: 2 bytes of 800 + 4 * 60 + 4 * 20 + 600 elements. */
	cr_assert(price.elementwise == 2 * (13 + 3 * 3440.0));
	cr_assert(price.sampling == 17 + 300.0);
	cr_assert(price.host == 23 + 87.0);

	struct step_time time = execute(&fixture, &counts);
	require_equal(time.host_ns, 110);
	require_equal(time.elapsed_ns, 30184 + 20665 + 4050 + 20666 + 317 + 19 + 110);
	require_equal(time.gpu_ns, time.elapsed_ns - time.host_ns);
	require_equal(time.mode, STEP_MODE_NONE);
	fixture_close(&fixture);
}

Test(cost_model, a_prefill_chunk_pays_for_pairs_or_for_its_prefix)
{
	struct fixture fixture;
	struct step_price price;
	/* 20 tokens behind 0 others: 210 pairs. */
	const struct step_counts fresh = {.prefill_rows = 1,
		.prefill_tokens = 20,
		.prefill_attention_pairs = batch_attention_pairs(0, 20)};
	/* One token behind 999 others. */
	const struct step_counts tail = {.prefill_rows = 1,
		.prefill_tokens = 1,
		.prefill_attention_pairs = batch_attention_pairs(999, 1),
		.prefill_longest_context = 1000};

	small_fixture(&fixture);
	cost_model_price(&fixture.runner, &fresh, &price);
	/* 160 FLOPs a pair at 16; K and V of 20 tokens, 80 bytes each, would take 800. */
	cr_assert(price.prefill_attention == 2 * (11 + 40 + 2100.0));
	cr_assert(price.linear[MODEL_LINEAR_QKV] == 2 * (5 + 6400.0));
	cr_assert(price.linear[MODEL_LINEAR_LM_HEAD] == 0);
	cr_assert(price.sampling == 0);
	cost_model_price(&fixture.runner, &tail, &price);
	/* 1,000 tokens of 80 bytes at 2 are slower than 160,000 FLOPs at 16. */
	cr_assert(price.prefill_attention == 2 * (11 + 2 + 40000.0));
	/* Beside 9 prompts of a token it is read once, not ten times. */
	struct step_counts crowd = tail;
	crowd.prefill_rows = crowd.prefill_tokens = 10;
	crowd.prefill_attention_pairs += 9;
	crowd.prefill_context_tokens = 1009;
	cost_model_price(&fixture.runner, &crowd, &price);
	cr_assert(
		price.prefill_attention == 2 * (11 + 20 + 40360.0), "%g", price.prefill_attention);
	crowd.prefill_context_tokens = 0; /* not known: ten of the longest */
	cost_model_price(&fixture.runner, &crowd, &price);
	cr_assert(
		price.prefill_attention == 2 * (11 + 20 + 400000.0), "%g", price.prefill_attention);
	fixture_close(&fixture);
}

Test(cost_model, more_work_never_costs_less)
{
	struct fixture fixture;
	fixture_open(&fixture, "qwen3-4b", "a100-datasheet");
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t key = counter_key(7, i);
		struct step_counts counts = {
			.decode_rows = counter_hash(key, 0) % 512,
			.prefill_rows = 1 + counter_hash(key, 1) % 8,
			.sampled_rows = counter_hash(key, 2) % 512,
		};
		counts.prefill_tokens = counts.prefill_rows + counter_hash(key, 3) % 16384;
		counts.decode_context_tokens = counts.decode_rows * (counter_hash(key, 4) % 40960);
		counts.prefill_attention_pairs =
			counts.prefill_tokens * (1 + counter_hash(key, 5) % 40960);
		counts.prefill_longest_context = 1 + counter_hash(key, 7) % 131072;
		bool has_contexts = counter_hash(key, 8) % 2 == 0;
		if (has_contexts) {
			counts.prefill_context_tokens =
				counts.prefill_longest_context + counter_hash(key, 9) % 131072;
		}
		uint64_t before = execute(&fixture, &counts).elapsed_ns;
		struct step_counts more = counts;
		switch (counter_hash(key, 6) % 5) {
		case 0:
			more.decode_rows++;
			break;
		case 1:
			more.decode_context_tokens += 4096;
			break;
		case 2:
			more.prefill_attention_pairs += 1 << 20;
			break;
		case 3:
			more.sampled_rows++;
			break;
		case 4: /* a short prompt beside the others */
			more.prefill_rows++;
			more.prefill_tokens += 1000;
			more.prefill_attention_pairs += batch_attention_pairs(0, 1000);
			more.prefill_context_tokens += has_contexts ? 1000 : 0;
			break;
		}
		require(execute(&fixture, &more).elapsed_ns >= before, "case %u costs less",
			(unsigned)i);
	}
	fixture_close(&fixture);
}

/* Nanoseconds are scaled after they were rounded, so that a scale of 1 changes none. */
Test(cost_model, a_scale_multiplies_whole_nanoseconds)
{
	static const uint64_t scales[] = {1000000, 1150000, 850000, 1, 1000000000, 333333};
	struct fixture fixture;
	const struct step_counts counts = {
		.decode_rows = 7, .decode_context_tokens = 7000, .sampled_rows = 7};

	small_fixture(&fixture);
	struct step_time plain = execute(&fixture, &counts);
	for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
		cost_model_scale(&fixture.runner, scales[i]);
		struct step_time time = execute(&fixture, &counts);
		require_equal(time.elapsed_ns, (plain.elapsed_ns * scales[i] + 500000) / 1000000);
		require_equal(time.host_ns, (plain.host_ns * scales[i] + 500000) / 1000000);
		require_equal(time.gpu_ns + time.host_ns, time.elapsed_ns);
	}
	fixture_close(&fixture);
}

Test(cost_model, a_price_beyond_reason_is_an_error)
{
	struct fixture fixture;
	const struct batch batch = {.step = 9,
		.counts = {.prefill_rows = 1,
			.prefill_tokens = 1,
			.prefill_attention_pairs = UINT64_C(1) << 60}};
	struct step_time time = {0};
	struct error error = {STATUS_OK, ""};

	small_fixture(&fixture);
	enum status status =
		fixture.runner.execute(fixture.runner.state, &batch, NULL, &time, &error);
	require_equal(status, STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "step 9"));
	fixture_close(&fixture);
}

/* ---- memory ---- */

static const struct engine_config default_engine = {.block_size = 256,
	.max_num_seqs = 512,
	.max_num_batched_tokens = 16384,
	.max_model_len = 4096};

Test(kv_memory, h200_holds_about_4500_blocks_of_the_smallest_model)
{
	struct fixture fixture;
	struct kv_memory memory;
	struct error error = {STATUS_OK, ""};

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	enum status status = kv_memory_estimate(
		&fixture.model, &fixture.gpu, &default_engine, 900000, 1, &memory, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(memory.block_bytes, 256 * 112 * 1024);
	require_equal(memory.usable_bytes, UINT64_C(150109106995) * 9 / 10);
	require_equal(memory.weight_bytes, 2 * UINT64_C(596049920));
	/* 16,384 tokens: two streams of 1,024, qkv of 4,096, two of 2,048 for queries, gate and up
	   and their product of 3,072, in 2 bytes; 512 sampled rows of a stream, 151,936
	   logits, 149 tiles and four parts of a stream's sums; 512 * 16 splits of 16 heads; 4,096
	   positions. */
	require_equal(memory.activation_bytes,
		UINT64_C(16384) * 2 * (2 * 1024 + 4096 + 2 * 2048 + 3 * 3072) +
			UINT64_C(512) * (1024 * 2 + 151936 * 4 + 149 * 8 + 4 * 1024 * 4) +
			(1 + UINT64_C(512) * 8 * 4) * 4 + UINT64_C(512) * 16 * (2048 + 2 * 16) * 4 +
			UINT64_C(4096) * 128 * 4);
	uint64_t left = memory.usable_bytes - memory.context_bytes - memory.weight_bytes -
			memory.activation_bytes;
	require_equal(memory.block_count, left / memory.block_bytes);
	require(memory.block_count > 4450 && memory.block_count < 4550, "%u blocks",
		memory.block_count);
	fixture_close(&fixture);
}

Test(kv_memory, utilization_is_taken_to_the_millionth)
{
	struct fixture fixture;
	struct kv_memory memory;
	struct error error = {STATUS_OK, ""};

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	fixture.gpu.memory_bytes = 123456789012345.0;
	enum status status = kv_memory_estimate(
		&fixture.model, &fixture.gpu, &default_engine, 333333, 1, &memory, &error);
	require_equal(status, STATUS_OK);
	/* floor(123456789012345 * 333333 / 10^6), from arithmetic with more digits */
	require_equal(memory.usable_bytes, UINT64_C(41152221851851));
	fixture_close(&fixture);
}

Test(kv_memory, a_model_that_leaves_no_block_is_refused_with_its_terms)
{
	struct fixture fixture;
	struct kv_memory memory;
	struct error error = {STATUS_OK, ""};

	fixture_open(&fixture, "qwen3-14b", "rtx4090-datasheet");
	enum status status = kv_memory_estimate(
		&fixture.model, &fixture.gpu, &default_engine, 900000, 1, &memory, &error);
	require_equal(status, STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "rtx4090"));
	cr_assert_not_null(strstr(error.text, "weights of qwen3-14b 29.537"));
	fixture_close(&fixture);
}

/* The terms of a refusal are those by which a block fits in memory that is one byte larger, alone
   and among ranks, of an engine that is estimated as of one that was measured whole. */
Test(kv_memory, the_terms_of_a_refusal_add_up)
{
	enum { HALF = 500000 };
	struct fixture fixture;

	fixture_open(&fixture, "qwen3-0.6b", "h200-datasheet");
	for (uint32_t i = 0; i < 8; i++) {
		const uint32_t ranks = 1u << i % 4;
		const double memory_bytes = fixture.gpu.memory_bytes;
		struct kv_memory all, one, none;
		struct error error = {STATUS_OK, ""};
		char terms[256];
		fixture.gpu.engine_bytes = i < 4 ? 0 : 5e9;
		require(kv_memory_estimate(&fixture.model, &fixture.gpu, &default_engine, HALF,
				ranks, &all, &error) == STATUS_OK,
			"%s", error.text);
		const uint64_t held = all.activation_bytes + all.exchange_bytes;
		const uint64_t needed =
			all.context_bytes + all.weight_bytes + held + all.block_bytes;
		require((all.exchange_bytes > 2000000) == (ranks > 1), "%u ranks", ranks);
		fixture.gpu.memory_bytes = 2 * (double)needed;
		require(kv_memory_estimate(&fixture.model, &fixture.gpu, &default_engine, HALF,
				ranks, &one, &error) == STATUS_OK,
			"%s", error.text);
		require_equal(one.usable_bytes, needed);
		require_equal(one.block_count, 1);
		fixture.gpu.memory_bytes--;
		require_equal(kv_memory_estimate(&fixture.model, &fixture.gpu, &default_engine,
				      HALF, ranks, &none, &error),
			STATUS_INPUT);
		snprintf(terms, sizeof(terms),
			"has %.3f GB, %.3f usable, less context %.3f, weights of qwen3-0.6b %.3f "
			"and activations %.3f, and a block of 256 tokens takes %.3f",
			(double)(2 * needed - 1) / 1e9, (double)(needed - 1) / 1e9,
			(double)all.context_bytes / 1e9, (double)all.weight_bytes / 1e9,
			(double)held / 1e9, (double)all.block_bytes / 1e9);
		require(strstr(error.text, terms) != NULL, "%u ranks: %s, expected %s", ranks,
			error.text, terms);
		fixture.gpu.memory_bytes = memory_bytes;
	}
	fixture_close(&fixture);
}

/* ---- profiles ---- */

Test(profile, all_that_are_built_in_can_be_read_and_price_a_step)
{
	require(gpu_profile_count() >= 6, "%u profiles", gpu_profile_count());
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		char name[GPU_PROFILE_NAME_BYTES];
		struct fixture fixture;
		struct gpu_profile gpu;
		struct error error = {STATUS_OK, ""};
		const struct step_counts counts = {
			.decode_rows = 64, .decode_context_tokens = 64000, .sampled_rows = 64};
		const char *file = gpu_profile_file(i);
		snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - 5), file);
		require(gpu_profile_find(name, &gpu, &error) == STATUS_OK, "%s", error.text);
		fixture_open_ranks(&fixture, gpu.is_calibrated ? gpu.model : "qwen3-8b", name,
			gpu.is_calibrated ? gpu.ranks : 1);
		cr_assert_str_eq(fixture.gpu.name, name);
		require(fixture.gpu.description[0] != '\0', "%s describes nothing", name);
		/* Calibrated ones are named for GPU and model. */
		require(gpu.is_calibrated == (strstr(name, "-qwen3-") != NULL), "%s", name);
		uint64_t elapsed_ns = execute(&fixture, &counts).elapsed_ns;
		require(elapsed_ns > 1000000 && elapsed_ns < 100000000, "%s: %llu ns", name,
			(unsigned long long)elapsed_ns);
		fixture_close(&fixture);
	}
	cr_assert_null(gpu_profile_file(gpu_profile_count()));
}

Test(profile, an_unknown_name_is_answered_with_the_names)
{
	static const char *const names[] = {"'h300'", "a100-datasheet, ", "b200-datasheet, ",
		"h200-datasheet, ", "h200-qwen3-0.6b, ", "l40s-datasheet, ",
		"rtx4090-datasheet, or a .json file"};
	struct gpu_profile gpu;
	struct error error = {STATUS_OK, ""};
	require_equal(gpu_profile_find("h300", &gpu, &error), STATUS_USAGE);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		require(strstr(error.text, names[i]) != NULL, "%s", error.text);
	}
}

/* Reads the h200 profile with the first `from` replaced by `to`. */
static enum status read_changed(
	const char *from, const char *to, struct gpu_profile *out, struct error *error)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	static char changed[65536];

	char *text = file_read(QUIRE_SOURCE_DIR "/sim/profiles/h200-datasheet.json", NULL);
	char *at = strstr(text, from);
	require(at != NULL, "'%s' is not in the profile", from);
	*at = '\0';
	snprintf(changed, sizeof(changed), "%s%s%s", text, to, at + strlen(from));
	free(text);

	temporary_folder(folder);
	temporary_write(folder, "mine.json", changed, path);
	enum status status = gpu_profile_find(path, out, error);
	temporary_remove(folder);
	return status;
}

Test(profile, a_file_of_ones_own_can_be_used)
{
	struct gpu_profile gpu;
	struct error error = {STATUS_OK, ""};
	enum status status = read_changed("\"value\": 4274", "\"value\": 99", &gpu, &error);
	require(status == STATUS_OK, "%s", error.text);
	cr_assert_str_eq(gpu.name, "mine");
	cr_assert(gpu.memory_rate == 99);
	require_equal(gpu.is_calibrated, false);
}

/* Only what is calibrated needs to know the best that the GPU can do. */
Test(profile, limits_may_be_missing_from_a_data_sheet)
{
	struct gpu_profile gpu;
	struct error error = {STATUS_OK, ""};

	require(read_changed("\"limits\"", "\"notes\"", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	require(!gpu.has_limits, "limits of nothing");
	require(read_changed("\"limits\"", "\"limits\"", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	require(gpu.has_limits, "no limits");
}

/* It is printed. */
Test(profile, a_description_steers_no_terminal)
{
	struct gpu_profile gpu;
	struct error error = {STATUS_OK, ""};

	require(read_changed("\"description\": \"", "\"description\": \"\\u001b[31mred\\n", &gpu,
			&error) == STATUS_OK,
		"%s", error.text);
	require(strstr(gpu.description, "[31mred") != NULL, "%s", gpu.description);
	for (const char *at = gpu.description; *at != '\0'; at++) {
		require((unsigned char)*at >= ' ', "byte %d", *at);
	}
}

Test(profile, malformed_files_are_refused_with_field_and_expectation)
{
	static const struct {
		const char *from, *to, *part;
	} cases[] = {
		{"\"value\": 4274", "\"value\": -1",
			"numbers.memory_rate.value: found -1, expected a number in [1, 1e+06]"},
		{"\"value\": 4274", "\"value\": \"fast\"", "found \"fast\""},
		{"\"value\": 4274", "\"value\": 1e999", "numbers.memory_rate.value"},
		{"\"unit\": \"GB/s\"", "\"unit\": \"TB/s\"",
			"numbers.memory_rate.unit: found \"TB/s\", expected \"GB/s\""},
		{"\"unit\": \"GB/s\", \"source\": \"",
			"\"unit\": \"GB/s\", \"source\": \"\", \"old\": \"",
			"numbers.memory_rate.source: found \"\", expected where the number was "
			"taken"},
		{"\"unit\": \"GB/s\", \"source\"", "\"unit\": \"GB/s\", \"sauce\"",
			"numbers.memory_rate.source: found nothing"},
		{"\"memory_rate\"", "\"memory_rat\"",
			"numbers.memory_rate: found nothing, expected an object"},
		{"\"numbers\": {", "\"numbers\": {\"spare\": 1, ",
			"numbers.spare: found 1, expected no such field"},
		{"\"link_rate\"", "\"link_speed\"", "link.link_rate: found nothing"},
		{"\"link\": {", "\"link\": {\"spare\": 1, ", "link.spare: found 1"},
		{"\"floor\"", "\"flor\"", "products.qkv.floor: found nothing"},
		{"\"qkv\"", "\"qkw\"", "products.qkv: found nothing"},
		{"quire-gpu-1", "quire-gpu-2", "schema: found \"quire-gpu-2\""},
		{"}\n", "\n", "mine.json:"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gpu_profile gpu;
		struct error error = {STATUS_OK, ""};
		enum status status = read_changed(cases[i].from, cases[i].to, &gpu, &error);
		require(status == STATUS_INPUT, "accepted: %s", cases[i].to);
		require(strstr(error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			error.text, cases[i].part);
	}
}

/* The engine counts blocks up to 2^28, however many would fit. */
Test(kv_memory, holds_as_many_blocks_as_fit_and_the_engine_counts)
{
	static const struct {
		double kv_bytes;
		uint64_t expected;
	} cases[] = {{160, 1}, {319, 1}, {320, 2}, {160.0 * (1 << 28), 1 << 28},
		{160.0 * (1 << 28) - 1, (1 << 28) - 1}, {160.0 * (1 << 28) + 160, 1 << 28},
		{160.0 * 4294967297.0, 1 << 28}, {1e15, 1 << 28}};
	const struct engine_config engine = {.block_size = 1,
		.max_num_seqs = 1,
		.max_num_batched_tokens = 1,
		.max_model_len = 1};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fixture;
		struct kv_memory memory = {0};
		struct error error = {0};
		small_fixture(&fixture);
		/* First what is not for blocks, then exactly as much as the case says. */
		fixture.gpu.memory_bytes = 1e15;
		fixture.gpu.context_bytes = 0;
		require_equal(kv_memory_estimate(&fixture.model, &fixture.gpu, &engine, 1000000, 1,
				      &memory, &error),
			STATUS_OK);
		require_equal(memory.block_bytes, 160);
		uint64_t used = memory.weight_bytes + memory.activation_bytes;
		fixture.gpu.memory_bytes = (double)used + cases[i].kv_bytes;
		require_equal(kv_memory_estimate(&fixture.model, &fixture.gpu, &engine, 1000000, 1,
				      &memory, &error),
			STATUS_OK);
		require_equal(memory.block_count, cases[i].expected);
		fixture_close(&fixture);
	}
}
