#include <criterion/criterion.h>

#include <stdlib.h>

#include "engine/base/memory.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/silu_mul.h"
#include "tests/harness/require.h"
#include "tests/harness/twin.h"

static void check_single_rows(const struct op_case *c, const float *out, const float *in,
	struct matrix weight, const float *bias)
{
	float *row = nans(c->outputs);
	for (uint32_t r = 0; r < c->rows; r++) {
		linear_cpu(row, in + (uint64_t)r * c->width, weight, bias, 1, c->width, c->outputs,
			ROUNDING_NONE);
		require_same_bits(
			c, row, out + (uint64_t)r * c->outputs, c->outputs, "a batch of one row");
	}
	free(row);
}

static void test_linear(const struct op_case *c)
{
	uint64_t count = (uint64_t)c->rows * c->outputs;
	double *expected = memory_take(count, sizeof(*expected));

	for (uint32_t v = 0; v < 2; v++) {
		enum case_values values = v == 0 ? CASE_INTEGERS : CASE_UNIFORM;
		float *in = filled((uint64_t)c->rows * c->width, 1, values);
		float *weight = filled((uint64_t)c->outputs * c->width, 2, values);
		uint16_t *short_weight = as_bf16(weight, (uint64_t)c->outputs * c->width);
		float *bias = c->has_bias ? filled(c->outputs, 3, values) : NULL;
		float *out = nans(count), *other = nans(count);
		for (uint64_t i = 0; i < count; i++) {
			uint64_t r = i / c->outputs, n = i % c->outputs;
			expected[i] = c->has_bias ? (double)bias[n] : 0;
			for (uint32_t k = 0; k < c->width; k++) {
				expected[i] += (double)in[r * c->width + k] *
					       (double)weight[n * c->width + k];
			}
		}
		const struct matrix matrices[] = {{.f32 = weight}, {.bf16 = short_weight}};
		for (uint32_t m = 0; m < 2; m++) {
			linear_cpu(out, in, matrices[m], bias, c->rows, c->width, c->outputs,
				ROUNDING_NONE);
			require_near(c, out, expected, count);
			for (uint64_t i = 0; values == CASE_INTEGERS && i < count; i++) {
				require((double)out[i] == expected[i], "a sum of integers is off");
			}
			check_single_rows(c, out, in, matrices[m], bias);
			linear_cpu(other, in, matrices[m], bias, c->rows, c->width, c->outputs,
				ROUNDING_BF16);
			require_rounded(c, other, out, count);
		}
		free(in);
		free(weight);
		free(short_weight);
		free(bias);
		free(out);
		free(other);
	}
	free(expected);
}

/* The fused activation has the bits of the two operations that it is made of. */
static void test_linear_silu(const struct op_case *c)
{
	uint32_t width = c->outputs / 2;
	uint64_t count = (uint64_t)c->rows * width;
	float *in = filled((uint64_t)c->rows * c->width, 1, CASE_UNIFORM);
	float *weight = filled((uint64_t)c->outputs * c->width, 2, CASE_UNIFORM);
	uint16_t *short_weight = as_bf16(weight, (uint64_t)c->outputs * c->width);
	float *between = nans(2 * count), *expected = nans(count), *out = nans(count);
	const struct matrix matrices[] = {{.f32 = weight}, {.bf16 = short_weight}};

	for (uint32_t i = 0; i < 4; i++) {
		enum rounding rounding = i < 2 ? ROUNDING_NONE : ROUNDING_BF16;
		linear_cpu(between, in, matrices[i % 2], NULL, c->rows, c->width, c->outputs,
			rounding);
		silu_mul_cpu(expected, between, c->rows, width, rounding);
		linear_silu_cpu(out, in, matrices[i % 2], c->rows, c->width, width, rounding);
		require_same_bits(c, out, expected, count, "the two operations");
	}
	free(in);
	free(weight);
	free(short_weight);
	free(between);
	free(expected);
	free(out);
}

Test(linear, layers_follow_their_formulas, .timeout = 60)
{
	for_tiny_cases("matmul", test_linear);
	for_tiny_cases("decode_matmul", test_linear);
	for_tiny_cases("decode_matmul_silu", test_linear_silu);
}

/* The rule decides bits, so its results are written down: for weights of layers, and for shapes
   just outside the rule. */
Test(linear, split_k_follows_from_the_shape_of_the_weight)
{
	static const uint32_t split[][2] = {
		{2048, 1024}, {3072, 1024}, {2048, 2048}, {6144, 2048}, {4096, 64}, {2560, 128}};
	static const uint32_t whole[][2] = {{1024, 4096}, {1024, 6144}, {1536, 1024}, {2048, 2112},
		{2048, 4096}, {6656, 2048}, {4096, 6144}, {4096, 4096}, {4096, 24576},
		{12288, 4096}, {896, 1152}, {2048, 32}, {2048, 96}, {2176, 64}, {6656, 64},
		{1024, 151936}, {0, 64}, {2048, 0}};

	for (uint32_t i = 0; i < sizeof(split) / sizeof(split[0]); i++) {
		cr_expect(linear_split_k(split[i][0], split[i][1]) == 4, "%u to %u", split[i][0],
			split[i][1]);
	}
	for (uint32_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		cr_expect(linear_split_k(whole[i][0], whole[i][1]) == 1, "%u to %u", whole[i][0],
			whole[i][1]);
	}
}
