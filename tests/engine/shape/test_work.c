#include <criterion/criterion.h>

#include <string.h>

#include "engine/shape/model_config.h"
#include "engine/shape/work.h"
#include "tests/harness/require.h"

static const struct range_counts FIVE_ROWS = {.rows = 5}, NO_ROWS = {0};

static struct model_config model_named(const char *name)
{
	struct model_config model;

	require(model_config_builtin(name, &model), "no model %s", name);
	return model;
}

Test(work, attention_reads_keys_and_values_once)
{
	/* 256 sequences of 1,024 tokens, 8 key/value heads of 128: 1 GiB of keys and values, and
	   2 MiB of queries and outputs; 4 operations for each pair and each of 16 * 128 numbers. */
	const struct attention_counts counts = {
		.contexts = 256 * 1024, .queries = 256, .pairs = 256 * 1024};
	struct work work = work_attention(&counts, 16 * 128, 8 * 128);

	require_equal(work.bytes, (UINT64_C(1) << 30) + (2 << 20));
	require_equal(work.flops, UINT64_C(4) * 256 * 1024 * 16 * 128);
}

Test(work, linear_layers_read_their_weight_once)
{
	struct work none = work_linear(0, 1024, 4096, 2), some = work_linear(3, 1024, 4096, 2);

	require_equal(none.bytes, 2 * 1024 * 4096);
	require_equal(none.flops, 0);
	require_equal(some.bytes - none.bytes, 3 * 2 * (1024 + 4096));
	require_equal(some.flops, 2 * 3 * 1024 * 4096);
	require_equal(work_linear(3, 1024, 4096, 4).bytes - some.bytes, 3 * 2 * 4096);
	/* The fused activation writes half of the outputs and computes all of them. */
	struct work silu = work_linear_silu(3, 1024, 4096);
	require_equal(some.bytes - silu.bytes, 3 * 4096);
	require_equal(silu.flops, some.flops);
}

Test(work, operations_on_rows_move_their_tensors)
{
	require_equal(work_embedding(5, 8).bytes, 5 * (2 * 8 * 2 + 4));
	require_equal(work_gather_rows(5, 8).bytes, 5 * 2 * 8 * 2);
	require_equal(work_rms_norm(5, 8).bytes, 5 * 2 * 8 * 2);
	require_equal(work_add_rms_norm(5, 8).bytes, 5 * 4 * 8 * 2);
	require_equal(work_exchange_add_rms_norm(5, 8, 1).bytes, work_add_rms_norm(5, 8).bytes);
	require_equal(work_exchange_add_rms_norm(5, 8, 4).bytes, 5 * 7 * 8 * 2);
	require_equal(work_exchange_candidates(5, 3, 4).bytes, 5 * ((3 + 6) * 8 + 4));
	require_equal(work_silu_mul(5, 8).bytes, 5 * 3 * 8 * 2);
	require_equal(work_qk_norm_rope_store(5, 64, 16).bytes, 5 * 2 * (64 + 2 * 16) * 2);
	require_equal(work_sampler(5, 99).bytes, 5 * (99 * 4 + 4));
	require_equal(work_sampler(5, 99).flops, 0);
}

/* All linear layers of a step together are its weights, and 2 FLOPs a weight and row. */
Test(work, ranges_of_a_layer_have_the_work_of_its_weights)
{
	static const char *const layers[] = {"qkv", "o", "gate_up", "down"};
	struct model_config model = model_named("qwen3-8b");
	uint64_t hidden = model.hidden_size, heads = model.num_attention_heads;
	uint64_t weights = hidden * model.head_dim * (2 * heads + 2 * model.num_key_value_heads) +
			   3 * hidden * model.intermediate_size;
	uint64_t flops = 0;

	for (uint32_t i = 0; i < 4; i++) {
		flops += work_of_range(&model, layers[i], &FIVE_ROWS).flops;
	}
	require_equal(flops, 2 * 5 * weights);
}

Test(work, ranges_without_counts_are_unknown)
{
	struct model_config model = model_named("qwen3-0.6b");
	const struct range_counts both = {.rows = 5, .decode_contexts = 100, .prefill_pairs = 7};

	require_equal(work_of_range(&model, "qkv", &NO_ROWS).bytes, 0);
	require_equal(work_of_range(&model, "what", &both).flops, 0);
	require_equal(work_of_range(&model, "what", &both).bytes, 0);
	require_equal(work_of_range(&model, "prefill_attention", &both).bytes, 0);
	require_equal(work_of_range(&model, "prefill_attention", &both).flops,
		UINT64_C(4) * 7 * 16 * 128);
	require_equal(work_of_range(&model, "decode_attention", &both).flops,
		UINT64_C(4) * 100 * 16 * 128);
	require_equal(work_of_range(&model, "decode_attention", &both).bytes,
		2 * (2 * 100 * 8 * 128 + 2 * 5 * 16 * 128));
	/* Its range is that of the embedding and of the first norm. */
	require_equal(work_of_range(&model, "embedding", &FIVE_ROWS).bytes,
		work_embedding(5, 1024).bytes + work_rms_norm(5, 1024).bytes);
	require_equal(work_of_range(&model, "lm_head", &FIVE_ROWS).bytes,
		work_linear(5, 1024, 151936, 4).bytes);
}

/* Each range of qwen3-0.6b by its tensors: hidden 1,024, queries 2,048, keys 1,024 (values too),
   intermediate 3,072, vocabulary 151,936. A linear layer moves its weight and its rows. */
Test(work, every_range_moves_its_tensors)
{
	const uint64_t hidden = 1024, query = 2048, key = 1024, inner = 3072, words = 151936;
	struct model_config model = model_named("qwen3-0.6b");

	for (uint64_t rows = 0; rows < 7; rows += 3) {
		const struct range_counts counts = {rows, 2, 100, 7};
		/* bytes in units of 2 for each row, and at all; FLOPs */
		const struct {
			const char *name;
			uint64_t of_rows, of_all, flops;
		} ranges[] = {
			{"embedding", 2 * hidden + 2 + 2 * hidden, 0, 0},
			{"input_norm", 4 * hidden, 0, 0},
			{"qkv", hidden + query + 2 * key, hidden * (query + 2 * key),
				2 * rows * hidden * (query + 2 * key)},
			{"qk_norm_rope_store", 2 * (query + 2 * key), 0, 0},
			{"decode_attention", 2 * query, 2 * 100 * key, 4 * 100 * query},
			{"prefill_attention", 0, 0, 4 * 7 * query},
			{"gather_rows", 2 * (query + hidden), 0, 0},
			{"o", query + hidden, query * hidden, 2 * rows * query * hidden},
			{"post_norm", 4 * hidden, 0, 0},
			{"gate_up", hidden + inner, 2 * inner * hidden, 4 * rows * inner * hidden},
			{"silu_mul", 3 * inner, 0, 0},
			{"down", inner + hidden, inner * hidden, 2 * rows * inner * hidden},
			{"exchange", work_exchange_add_rms_norm(1, hidden, 2).bytes / 2, 0, 0},
			{"lm_head", hidden + 2 * words, words * hidden, 2 * rows * words * hidden},
			{"sampler", 2 * words + 2, 0, 0},
		};
		for (uint32_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
			bool is_known = rows > 0 || strstr(ranges[i].name, "attention") != NULL;
			struct work work = work_of_range(&model, ranges[i].name, &counts);
			uint64_t bytes = 2 * (rows * ranges[i].of_rows + ranges[i].of_all);
			require_equal(work.bytes, is_known ? bytes : 0);
			require_equal(work.flops, ranges[i].flops);
		}
	}
}
