#include "engine/shape/graph_bucket.h"
#include "engine/shape/kernel_tiles.h"
#include "engine/shape/model_config.h"
#include "engine/shape/step_tensors.h"
#include "engine/shape/weight_shape.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"

Test(shape, built_in_shapes_have_the_published_parameter_counts)
{
	/* Of the weights files; embeddings tied in the first three. KiB of K and V a token. */
	static const struct {
		const char *name;
		uint64_t parameters;
		uint64_t kv_kib;
	} published[] = {
		{"qwen3-0.6b", UINT64_C(596049920), 112},
		{"qwen3-1.7b", UINT64_C(1720574976), 112},
		{"qwen3-4b", UINT64_C(4022468096), 144},
		{"qwen3-8b", UINT64_C(8190735360), 144},
		{"qwen3-14b", UINT64_C(14768307200), 160},
		{"qwen3-32b", UINT64_C(32762123264), 256},
	};
	require_equal(model_config_count(), sizeof(published) / sizeof(published[0]));
	for (uint32_t i = 0; i < model_config_count(); i++) {
		struct model_config config;
		cr_assert_str_eq(model_config_name(i), published[i].name);
		cr_assert(model_config_builtin(published[i].name, &config));
		require_equal(weight_parameter_count(&config), published[i].parameters);
		require_equal(weight_total_bytes(&config), 2 * published[i].parameters);
		require_equal(model_config_kv_bytes_per_token(&config), published[i].kv_kib * 1024);
		require_equal(config.max_position_embeddings, 40960);
		require_equal(config.eos_token_ids[0], 151645);
	}
	struct model_config config;
	cr_assert_null(model_config_name(model_config_count()));
	cr_assert(!model_config_builtin("qwen3-7b", &config));
}

/* A built-in model is named in any case, with its publisher or without, and by nothing shorter or
   longer. */
Test(shape, built_in_shapes_have_their_whole_names_only)
{
	struct model_config config;

	for (uint32_t i = 0; i < model_config_count(); i++) {
		const char *own = model_config_name(i);
		size_t length = strlen(own);
		for (uint32_t form = 0; form < 4; form++) {
			char name[64], longer[80];
			snprintf(name, sizeof(name), "%s%s", form / 2 == 0 ? "" : "Qwen/", own);
			size_t start = strlen(name) - length;
			name[start] = form % 2 == 0 ? 'q' : 'Q';
			name[start + length - 1] = form % 2 == 0 ? 'b' : 'B';
			require(model_config_builtin(name, &config), "no %s", name);
			cr_expect_str_eq(config.name, own);
			for (const char *more = "0bB-./ \n"; *more != '\0'; more++) {
				snprintf(longer, sizeof(longer), "%s%c", name, *more);
				require(!model_config_builtin(longer, &config), "'%s'", longer);
			}
			snprintf(longer, sizeof(longer), "%s-awq", name);
			require(!model_config_builtin(longer, &config), "'%s'", longer);
			snprintf(longer, sizeof(longer), "x%s", name);
			require(!model_config_builtin(longer, &config), "'%s'", longer);
			for (size_t kept = 0; kept < start + length; kept++) {
				snprintf(longer, sizeof(longer), "%.*s", (int)kept, name);
				require(!model_config_builtin(longer, &config), "'%s'", longer);
			}
		}
	}
	cr_expect(!model_config_builtin("qwen/qwen3-8b", &config));
	cr_expect(!model_config_builtin("Qwen/Qwen/qwen3-8b", &config));
}

Test(shape, linear_layers_multiply_what_the_forward_pass_does)
{
	struct model_config config;
	static const struct model_linear_shape shapes[] = {
		{5120, 10240}, {8192, 5120}, {5120, 51200}, {25600, 5120}, {5120, 151936}};

	cr_assert(model_config_builtin("qwen3-32b", &config));
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		struct model_linear_shape shape = model_linear_shape(&config, (enum model_linear)i);
		require_equal(shape.inputs, shapes[i].inputs);
		require_equal(shape.outputs, shapes[i].outputs);
	}
	cr_assert_str_eq(model_linear_name(MODEL_LINEAR_GATE_UP), "gate_up");
}

Test(shape, a_step_of_qwen3_0_6b_has_the_tensors_that_its_kernels_write)
{
	static const struct step_tensor_size expected[STEP_TENSOR_COUNT] = {{11 * 1024, 2},
		{11 * 151936, 4}, {11 * 149, 8}, {1 + 11 * 8 * 4, 4}, {4 * 11 * 1024, 4},
		{512 * 1024, 2}, {512 * 1024, 2}, {512 * 4096, 2}, {512 * 2048, 2}, {512 * 2048, 2},
		{512 * 6144, 2}, {512 * 3072, 2}, {8 * 16 * 2048, 4}, {8 * 16 * 16 * 2, 4}};
	const struct model_step_limits limits = model_step_limits(512, 8, 4096);
	struct model_config config;
	uint64_t bytes = 4096 * 128 * 4;

	cr_assert(model_config_builtin("qwen3-0.6b", &config));
	for (uint32_t i = 0; i < STEP_TENSOR_COUNT; i++) {
		struct step_tensor_size size =
			step_tensor_size((enum step_tensor)i, &config, &limits);
		require_equal(size.count, expected[i].count);
		require_equal(size.element_bytes, expected[i].element_bytes);
		bytes += expected[i].count * expected[i].element_bytes;
	}
	require_equal(step_tensors_bytes(&config, &limits), bytes);
}

Test(shape, graphs_double_up_to_16_rows_and_grow_by_16_from_there)
{
	static const uint32_t sizes[] = {0, 1, 2, 4, 8, 16, 32, 48, 64};
	uint32_t next = 0;

	for (uint32_t rows = 0; rows <= 64; rows++) {
		next += rows > sizes[next];
		require_equal(graph_bucket(rows), sizes[next]);
	}
}

/* qwen3-1.7b has 1.4 billion weights in its layers, qwen3-4b 3.6. */
Test(shape, small_models_have_graphs_with_few_prompt_tokens)
{
	static const struct {
		const char *model;
		uint64_t tokens;
	} models[] = {{"qwen3-0.6b", 256}, {"qwen3-1.7b", 256}, {"qwen3-4b", 0}, {"qwen3-8b", 0},
		{"qwen3-14b", 0}, {"qwen3-32b", 0}};
	struct model_config config;

	for (uint32_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		cr_assert(model_config_builtin(models[i].model, &config));
		require_equal(graph_prompt_tokens(&config), models[i].tokens);
	}
}

Test(shape, a_graph_holds_up_to_3_prompts_beside_128_rows)
{
	for (uint64_t most = 0; most <= 256; most += 64) {
		for (uint64_t rows = 126; rows <= 130; rows++) {
			for (uint64_t prompts = 1; prompts <= 6; prompts++) {
				for (uint64_t tokens = prompts; tokens <= 260; tokens++) {
					bool is_held = rows < 129 && prompts < 4 && tokens <= most;
					cr_assert(graph_holds_prompts(
							  most, rows, prompts, tokens) == is_held);
				}
			}
		}
	}
	cr_assert(!graph_holds_prompts(256, 1, 0, 0), "a step that only decodes");
}

/* Four warps have eight query heads each, of whole rows: of qwen3-0.6b, 8b, 14b and 32b, of a model
   without groups, and of one whose rows are too large for a warp. */
Test(shape, a_reading_serves_the_rows_that_fit_into_its_warps)
{
	static const struct {
		uint32_t heads, kv_heads, readers;
	} cases[] = {{16, 8, 16}, {32, 8, 8}, {40, 8, 4}, {64, 8, 4}, {32, 4, 4}, {8, 8, 32},
		{24, 8, 8}, {72, 8, 0}, {5, 0, 0}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require(decode_readers(cases[i].heads, cases[i].kv_heads) == cases[i].readers,
			"%u heads of %u: %u", cases[i].heads, cases[i].kv_heads,
			decode_readers(cases[i].heads, cases[i].kv_heads));
	}
}
