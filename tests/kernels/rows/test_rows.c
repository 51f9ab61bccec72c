#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/silu_mul.h"
#include "tests/harness/require.h"
#include "tests/harness/twin.h"

static void test_embedding(const struct op_case *c)
{
	uint64_t count = (uint64_t)c->rows * c->width;
	float *table = filled((uint64_t)c->outputs * c->width, 1, CASE_UNIFORM);
	uint16_t *short_table = as_bf16(table, (uint64_t)c->outputs * c->width);
	float *out = nans(count);
	float *expected = nans(count);
	int32_t *ids = memory_take(c->rows, sizeof(*ids));

	for (uint32_t r = 0; r < c->rows; r++) {
		ids[r] = (int32_t)((r * 7 + c->outputs - 1) % c->outputs);
		memcpy(expected + (uint64_t)r * c->width, table + (uint64_t)ids[r] * c->width,
			c->width * sizeof(*out));
	}
	const struct matrix matrices[] = {{.f32 = table}, {.bf16 = short_table}};
	for (uint32_t i = 0; i < 4; i++) {
		embedding_cpu(out, matrices[i / 2], ids, c->rows, c->outputs, c->width,
			i % 2 == 0 ? ROUNDING_NONE : ROUNDING_BF16);
		require_same_bits(c, out, expected, count, "a copy");
	}
	free(table);
	free(short_table);
	free(out);
	free(expected);
	free(ids);
}

static void test_gather_rows(const struct op_case *c)
{
	uint64_t count = (uint64_t)c->rows * c->width;
	float *in = filled(3 * count, 1, CASE_UNIFORM);
	float *out = nans(count);
	uint32_t *indices = memory_take(c->rows, sizeof(*indices));

	for (uint32_t r = 0; r < c->rows; r++) {
		indices[r] = 3 * r + 2;
	}
	gather_rows_cpu(out, in, indices, c->rows, c->width);
	for (uint32_t r = 0; r < c->rows; r++) {
		require_same_bits(c, out + (uint64_t)r * c->width,
			in + (uint64_t)indices[r] * c->width, c->width, "a copy");
	}
	free(in);
	free(out);
	free(indices);
}

static void test_rms_norm(const struct op_case *c)
{
	uint64_t count = (uint64_t)c->rows * c->width;
	float *in = filled(count, 1, CASE_UNIFORM);
	float *weight = filled(c->width, 2, CASE_UNIFORM);
	float *out = nans(count), *other = nans(count);
	double *expected = memory_take(count, sizeof(*expected));

	/* An epsilon as large as the mean square shows if it is added in the wrong step. */
	for (uint32_t i = 0; i < 2; i++) {
		float epsilon = i == 0 ? 1e-6f : 0.3f;
		norm_by_formula(expected, in, weight, c->rows, c->width, (double)epsilon);
		rms_norm_cpu(out, in, weight, c->rows, c->width, epsilon, ROUNDING_NONE);
		require_near(c, out, expected, count);
		rms_norm_cpu(other, in, weight, c->rows, c->width, epsilon, ROUNDING_BF16);
		require_rounded(c, other, out, count);
		for (uint32_t r = 0; r < c->rows; r++) {
			rms_norm_cpu(other, in + (uint64_t)r * c->width, weight, 1, c->width,
				epsilon, ROUNDING_NONE);
			require_same_bits(c, other, out + (uint64_t)r * c->width, c->width,
				"a batch of one row");
		}
	}
	rms_norm_cpu(in, in, weight, c->rows, c->width, 0.3f, ROUNDING_NONE);
	require_same_bits(c, in, out, count, "in place");
	free(in);
	free(weight);
	free(out);
	free(other);
	free(expected);
}

static void test_add_rms_norm(const struct op_case *c)
{
	uint64_t count = (uint64_t)c->rows * c->width;
	float *in = filled(count, 1, CASE_UNIFORM);
	float *before = filled(count, 2, CASE_UNIFORM);
	float *weight = filled(c->width, 3, CASE_UNIFORM);
	float *residual = nans(count), *out = nans(count), *expected = nans(count);

	for (uint32_t i = 0; i < 2; i++) {
		enum rounding rounding = i == 0 ? ROUNDING_NONE : ROUNDING_BF16;
		memcpy(residual, before, count * sizeof(*residual));
		add_rms_norm_cpu(out, residual, in, weight, c->rows, c->width, 1e-6f, rounding);
		for (uint64_t e = 0; e < count; e++) {
			require(residual[e] == rounded(before[e] + in[e], rounding),
				"element %lu of the sum", (unsigned long)e);
		}
		rms_norm_cpu(expected, residual, weight, c->rows, c->width, 1e-6f, rounding);
		require_same_bits(c, out, expected, count, "the norm of the stored sum");
	}
	memcpy(residual, before, count * sizeof(*residual));
	add_rms_norm_cpu(in, residual, in, weight, c->rows, c->width, 1e-6f, ROUNDING_BF16);
	require_same_bits(c, in, expected, count, "in place");
	free(in);
	free(before);
	free(weight);
	free(residual);
	free(out);
	free(expected);
}

static void test_silu_mul(const struct op_case *c)
{
	uint64_t count = (uint64_t)c->rows * c->width;
	float *in = filled(2 * count, 1, CASE_UNIFORM);
	float *out = nans(count), *other = nans(count);
	double *expected = memory_take(count, sizeof(*expected));

	for (uint64_t i = 0; i < 2 * count; i++) {
		in[i] *= 8;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t at = i / c->width * 2 * c->width + i % c->width;
		double gate = (double)in[at];
		expected[i] = gate / (1 + exp(-gate)) * (double)in[at + c->width];
	}
	silu_mul_cpu(out, in, c->rows, c->width, ROUNDING_NONE);
	require_near(c, out, expected, count);
	silu_mul_cpu(other, in, c->rows, c->width, ROUNDING_BF16);
	require_rounded(c, other, out, count);
	free(in);
	free(out);
	free(other);
	free(expected);
}

Test(rows, operations_follow_their_formulas, .timeout = 60)
{
	for_tiny_cases("embedding", test_embedding);
	for_tiny_cases("gather_rows", test_gather_rows);
	for_tiny_cases("rms_norm", test_rms_norm);
	for_tiny_cases("add_rms_norm", test_add_rms_norm);
	for_tiny_cases("silu_mul", test_silu_mul);
}

Test(rows, silu_has_limits)
{
	const float gates[] = {-INFINITY, -200, -104, -88, 0, 88, 200, INFINITY, NAN};
	float in[18], out[9];

	for (uint32_t i = 0; i < 9; i++) {
		in[i] = gates[i];
		in[9 + i] = 2;
	}
	silu_mul_cpu(out, in, 1, 9, ROUNDING_NONE);
	cr_assert_eq(out[0], 0);
	cr_assert_eq(out[1], 0);
	cr_assert_lt(out[2], 0);
	cr_assert_lt(out[3], 0);
	cr_assert_eq(out[4], 0);
	cr_assert_eq(out[5], 176);
	cr_assert_eq(out[6], 400);
	cr_assert_eq(out[7], INFINITY);
	cr_assert(isnan(out[8]));
}
