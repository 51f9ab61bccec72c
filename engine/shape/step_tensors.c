#include "engine/shape/step_tensors.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/shape/graph_bucket.h"
#include "engine/shape/kernel_tiles.h"

#include <assert.h>

enum { BF16 = 2, FLOAT32 = 4, UINT32 = 4 }; /* bytes */

enum { SPLITS_MAX = 1 << 15 }; /* more splits need several launches */

struct model_step_limits model_step_limits(
	uint64_t max_num_batched_tokens, uint64_t max_num_seqs, uint64_t max_model_len)
{
	uint64_t splits = max_num_seqs * u64_divide_up(max_model_len, (uint64_t)DECODE_SPLIT);
	/* graphs with prompts are padded */
	uint64_t decodes = u64_min(max_num_seqs, GRAPH_PROMPT_DECODES);
	uint64_t prompt = u64_min(graph_bucket(max_num_batched_tokens), GRAPH_PROMPT_TOKENS);

	return (struct model_step_limits){
		.tokens = u64_max(u64_max(max_num_batched_tokens, max_num_seqs), decodes + prompt),
		.samples = u64_max(max_num_seqs, decodes + u64_min(prompt, GRAPH_PROMPTS)),
		.splits = u64_min(splits, SPLITS_MAX),
		.positions = max_model_len,
	};
}

/* Rows of split-K sums per sampled row that the linear kernels leave for the norm to add. */
static uint32_t sums_of_row(const struct model_config *config)
{
	uint32_t o = linear_split_k(model_config_query_size(config), config->hidden_size);
	uint32_t down = linear_split_k(config->intermediate_size, config->hidden_size);
	uint32_t most = u32_max(o, down);

	return most == 1 ? 0 : most;
}

struct step_tensor_size step_tensor_size(enum step_tensor tensor, const struct model_config *config,
	const struct model_step_limits *limits)
{
	uint64_t hidden = config->hidden_size;
	uint64_t intermediate = config->intermediate_size;
	uint64_t query = model_config_query_size(config);
	uint64_t key_value = model_config_kv_size(config);
	uint64_t tiles = u64_divide_up(config->vocab_size, (uint64_t)SAMPLER_TILE);
	uint64_t heads = config->num_attention_heads;
	uint64_t tokens = limits->tokens, samples = limits->samples, splits = limits->splits;
	const struct step_tensor_size sizes[] = {
		[STEP_TENSOR_SAMPLED_HIDDEN] = {samples * hidden, BF16},
		[STEP_TENSOR_LOGITS] = {samples * config->vocab_size, FLOAT32},
		[STEP_TENSOR_SAMPLER_TILES] = {samples * tiles, SAMPLER_TILE_BYTES},
		[STEP_TENSOR_ARRIVALS] = {decode_counters(samples, config->num_key_value_heads),
			UINT32},
		[STEP_TENSOR_SPLIT_K_SUMS] = {samples * sums_of_row(config) * hidden, FLOAT32},
		[STEP_TENSOR_RESIDUAL] = {tokens * hidden, BF16},
		[STEP_TENSOR_HIDDEN] = {tokens * hidden, BF16},
		[STEP_TENSOR_QKV] = {tokens * (query + 2 * key_value), BF16},
		[STEP_TENSOR_QUERY] = {tokens * query, BF16},
		[STEP_TENSOR_ATTENDED] = {tokens * query, BF16},
		[STEP_TENSOR_GATE_UP] = {tokens * 2 * intermediate, BF16},
		[STEP_TENSOR_ACTIVATED] = {tokens * intermediate, BF16},
		[STEP_TENSOR_PARTIAL_OUT] = {splits * query, FLOAT32},
		[STEP_TENSOR_PARTIAL_STATE] = {splits * heads * 2, FLOAT32},
	};

	static_assert(
		sizeof(sizes) / sizeof(sizes[0]) == STEP_TENSOR_COUNT, "a size for each tensor");
	check((uint32_t)tensor < STEP_TENSOR_COUNT);
	return sizes[tensor];
}

uint64_t step_tensors_bytes(
	const struct model_config *config, const struct model_step_limits *limits)
{
	uint64_t bytes = limits->positions * config->head_dim * FLOAT32; /* the rope table */

	for (uint32_t i = 0; i < STEP_TENSOR_COUNT; i++) {
		struct step_tensor_size size =
			step_tensor_size((enum step_tensor)i, config, limits);
		bytes += size.count * size.element_bytes;
	}
	return bytes;
}
