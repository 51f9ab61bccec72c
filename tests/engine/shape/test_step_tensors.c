#include "engine/shape/step_tensors.h"

#include <criterion/criterion.h>

#include "engine/shape/kernel_tiles.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Sizes of the tensors of a step, by the words of engine/shape/step_tensors.h. */

Test(step_tensors, limits_are_those_of_a_launch)
{
	static const struct {
		uint64_t batched, seqs, length, tokens, samples, splits;
	} cases[] = {
		/* padded: the prompt tokens and the rows beside them, and prompts with samples */
		{16, 64, 1000, 80, 67, 256},
		{60, 16, 1000, 80, 19, 64},
		{64, 64, 256, 128, 67, 64},
		{64, 64, 257, 128, 67, 128},
		{64, 1, 1, 65, 4, 1},
		{1, 1, 1, 2, 2, 1},
		{2, 1, 1, 3, 3, 1},
		{2, 2, 1, 4, 4, 2},
		{300, 130, 1, 384, 131, 130},
		{512, 132, 1, 512, 132, 132},
		{64, 512, 64 * 256, 512, 512, 32768},
		/* more splits take several launches */
		{64, 512, 64 * 256 + 1, 512, 512, 32768},
		{1 << 28, 65536, 1 << 28, 1 << 28, 65536, 32768},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model_step_limits limits =
			model_step_limits(cases[i].batched, cases[i].seqs, cases[i].length);
		require_equal(limits.tokens, cases[i].tokens);
		cr_assert(limits.samples <= limits.tokens);
		require_equal(limits.samples, cases[i].samples);
		require_equal(limits.splits, cases[i].splits);
		require_equal(limits.positions, cases[i].length);
	}
}

/* Split-K: inputs of 2,048 to 4,096 in four multiples of 128, at most 2,048 outputs in multiples
   of 64. */
static uint64_t naive_split(uint64_t inputs, uint64_t outputs)
{
	return inputs >= 2048 && inputs <= 6144 && inputs % 512 == 0 && outputs > 0 &&
			       outputs <= 2048 && outputs % 64 == 0
		       ? 4
		       : 1;
}

static void body_sizes(struct prop *prop, const void *context)
{
	static const uint32_t widths[] = {64, 100, 1024, 2048, 2560, 3000, 6144, 6656};
	const uint64_t t = prop_range(prop, 1, 5000), s = prop_range(prop, 1, 600);
	const uint64_t p = prop_range(prop, 1, 900), length = prop_range(prop, 1, 9000);
	const struct model_step_limits limits = {t, s, p, length};
	struct model_config model = {.hidden_size = widths[prop_below(prop, 8)],
		.num_key_value_heads = prop_range(prop, 1, 8),
		.head_dim = prop_chance(prop, 1, 2) ? 128 : 2 * prop_range(prop, 1, 64),
		.intermediate_size = widths[prop_below(prop, 8)],
		.vocab_size = prop_range(prop, 1, 5000)};
	(void)context;

	model.num_attention_heads = model.num_key_value_heads * prop_range(prop, 1, 4);
	const uint64_t h = model.num_attention_heads, k = model.num_key_value_heads;
	const uint64_t d = model.head_dim, i = model.intermediate_size, v = model.vocab_size;
	const uint64_t hidden = model.hidden_size;
	uint64_t o = naive_split(h * d, hidden), down = naive_split(i, hidden);
	uint64_t sums = o > 1 || down > 1 ? 4 : 0;
	require_equal(linear_split_k((uint32_t)(h * d), (uint32_t)hidden), o);
	require_equal(linear_split_k((uint32_t)i, (uint32_t)hidden), down);
	const uint64_t expected[STEP_TENSOR_COUNT] = {
		[STEP_TENSOR_RESIDUAL] = t * hidden * 2,
		[STEP_TENSOR_HIDDEN] = t * hidden * 2,
		[STEP_TENSOR_QKV] = t * (h + 2 * k) * d * 2,
		[STEP_TENSOR_QUERY] = t * h * d * 2,
		[STEP_TENSOR_ATTENDED] = t * h * d * 2,
		[STEP_TENSOR_GATE_UP] = t * 2 * i * 2,
		[STEP_TENSOR_ACTIVATED] = t * i * 2,
		[STEP_TENSOR_SAMPLED_HIDDEN] = s * hidden * 2,
		[STEP_TENSOR_LOGITS] = s * v * 4,
		[STEP_TENSOR_SAMPLER_TILES] = s * ((v + 1023) / 1024) * 8,
		[STEP_TENSOR_PARTIAL_OUT] = p * h * d * 4,
		[STEP_TENSOR_PARTIAL_STATE] = p * h * 2 * 4,
		[STEP_TENSOR_ARRIVALS] = (1 + 4 * s * k) * 4,
		[STEP_TENSOR_SPLIT_K_SUMS] = sums * s * hidden * 4,
	};
	uint64_t all = length * d * 4; /* cosines and sines of every position */
	for (uint32_t tensor = 0; tensor < STEP_TENSOR_COUNT; tensor++) {
		struct step_tensor_size size =
			step_tensor_size((enum step_tensor)tensor, &model, &limits);
		require(size.count * size.element_bytes == expected[tensor],
			"tensor %u: %llu bytes, expected %llu", tensor,
			(unsigned long long)(size.count * size.element_bytes),
			(unsigned long long)expected[tensor]);
		all += expected[tensor];
	}
	require_equal(step_tensors_bytes(&model, &limits), all);
}

Test(step_tensors, sizes_are_those_of_their_shapes)
{
	const struct prop_options options = {
		.name = "step tensors", .body = body_sizes, .trials = 1000};

	cr_assert(prop_holds(&options));
}
