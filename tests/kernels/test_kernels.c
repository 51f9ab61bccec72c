#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/attention/decode.h"
#include "kernels/linear/linear.h"
#include "kernels/op/dot.h"
#include "kernels/op/elementary.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/attention/prefill.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/attention/rope_table.h"
#include "kernels/op_table.h"
#include "kernels/rows/silu_mul.h"
#include "tests/harness/require.h"

/* The CPU twins against their formulas, computed here in double by the plainest loops; and batch
   invariance: a row gets the same bits in any batch. Memory that an operation must not touch holds
   NaN, so that a read shows in the result and a write in the memory. */

/* ---- tensors and comparisons ---- */

static float *filled(uint64_t count, uint64_t key, enum case_values values)
{
	float *out = memory_take(count, sizeof(*out));
	case_fill(out, count, key, values);
	return out;
}

static float *nans(uint64_t count)
{
	float *out = memory_take(count, sizeof(*out));
	for (uint64_t i = 0; i < count; i++) {
		out[i] = NAN;
	}
	return out;
}

static uint16_t *as_bf16(const float *values, uint64_t count)
{
	uint16_t *out = memory_take(count, sizeof(*out));
	for (uint64_t i = 0; i < count; i++) {
		out[i] = bf16_from_float(values[i]);
	}
	return out;
}

static const char *describe(const struct op_case *c, char *text, size_t size)
{
	snprintf(text, size, "%u rows, %u to %u, heads %u/%u of %u, blocks of %u, context %u",
		c->rows, c->width, c->outputs, c->heads, c->kv_heads, c->head_dim, c->block_size,
		c->context);
	return text;
}

/* The error is at most 3 * 10^-6 of the values, both in the Euclidean norm. */
static void require_near(
	const struct op_case *c, const float *found, const double *expected, uint64_t count)
{
	char text[256];
	double noise = 0, signal = 0;
	for (uint64_t i = 0; i < count; i++) {
		noise += (found[i] - expected[i]) * (found[i] - expected[i]);
		signal += expected[i] * expected[i];
	}
	require(noise <= 1e-11 * signal, "%s: an error of %g in %g", describe(c, text, 256), noise,
		signal);
}

static void require_same_bits(const struct op_case *c, const float *found, const float *expected,
	uint64_t count, const char *what)
{
	char text[256];
	for (uint64_t i = 0; i < count; i++) {
		require(memcmp(&found[i], &expected[i], sizeof(*found)) == 0,
			"%s: %s: element %lu is %.9g, expected %.9g", describe(c, text, 256), what,
			(unsigned long)i, (double)found[i], (double)expected[i]);
	}
}

/* With rounding to bf16 the results are the exact ones, rounded. */
static void require_rounded(
	const struct op_case *c, const float *found, const float *exact, uint64_t count)
{
	char text[256];
	for (uint64_t i = 0; i < count; i++) {
		require(found[i] == rounded(exact[i], ROUNDING_BF16),
			"%s: element %lu is %.9g, expected %.9g rounded to bf16",
			describe(c, text, 256), (unsigned long)i, (double)found[i],
			(double)exact[i]);
	}
}

/* Calls a test with every tiny case of an operation. */
static void for_tiny_cases(const char *name, void (*test)(const struct op_case *))
{
	const struct op *op = op_find(name);
	uint32_t count = 0;

	require(op != NULL, "no operation %s", name);
	for (uint32_t i = 0; i < op->case_count; i++) {
		if (op->cases[i].size == CASE_TINY) {
			test(&op->cases[i]);
			count++;
		}
	}
	require(count >= 2, "%s: %u tiny cases", name, count);
}

/* ---- numbers ---- */

Test(kernels, bf16_rounds_to_nearest_even)
{
	static const uint16_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

	for (uint32_t high = 0; high < 65536; high++) {
		for (uint32_t l = 0; l < 6; l++) {
			uint32_t bits = high << 16 | lows[l];
			float value;
			memcpy(&value, &bits, sizeof(value));
			uint16_t found = bf16_from_float(value);
			if (isnan(value)) {
				cr_assert(isnan(bf16_to_float(found)));
				continue;
			}
			bool is_up = lows[l] > 0x8000 || (lows[l] == 0x8000 && high % 2 == 1);
			cr_assert_eq(found, high + is_up, "%08x", bits);
		}
	}
	for (uint32_t bits = 0; bits < 65536; bits++) {
		float value = bf16_to_float((uint16_t)bits);
		cr_assert(isnan(value) || bf16_from_float(value) == bits);
	}
}

static void require_relative(
	double found, double expected, double limit, const char *what, double x)
{
	require(fabs(found - expected) <= limit * fabs(expected), "%s(%.17g) is %.17g, not %.17g",
		what, x, found, expected);
}

Test(kernels, elementary_functions_are_right)
{
	for (int i = -20000; i <= 20000; i++) {
		double x = i * 0.03125 + 1e-3 * (i % 7);
		require_relative(elementary_exp(x), exp(x), 1e-14, "exp", x);
		double y = exp(x / 2);
		require_relative(elementary_log(y), log(y), 1e-14, "log", y);
	}
	for (int i = 0; i < 200000; i++) {
		double x = i < 100000 ? i * 1e-3 : (i - 100000) * 2684.35;
		double sine, cosine;
		elementary_sine_cosine(x, &sine, &cosine);
		require(fabs(sine - sin(x)) < 1e-15, "sin(%.17g) is %.17g", x, sine);
		require(fabs(cosine - cos(x)) < 1e-15, "cos(%.17g) is %.17g", x, cosine);
	}
	for (int i = 0; i < 128; i++) {
		require_relative(
			elementary_pow(1e6, i / 128.0), pow(1e6, i / 128.0), 1e-14, "pow", i);
	}
	cr_assert(isnan(elementary_exp(NAN)));
	cr_assert_eq(elementary_exp(INFINITY), INFINITY);
	cr_assert_eq(elementary_exp(-INFINITY), 0);
	cr_assert_eq(elementary_exp(0), 1);
	cr_assert_eq(elementary_log(1), 0);
	require_relative(elementary_log(5e-324), log(5e-324), 1e-14, "log", 5e-324);
}

/* The order of kernels/op/dot.h, word by word. */
static float dot_by_definition(const float *a, const float *b, uint32_t count)
{
	float lanes[16] = {0};
	for (uint32_t i = 0; i < count; i++) {
		float product = a[i] * b[i];
		lanes[i % 16] = lanes[i % 16] + product;
	}
	for (uint32_t half = 8; half >= 1; half /= 2) {
		for (uint32_t lane = 0; lane < half; lane++) {
			lanes[lane] = lanes[lane] + lanes[lane + half];
		}
	}
	return lanes[0];
}

Test(kernels, dot_sums_in_its_order)
{
	float *a = filled(300, 1, CASE_UNIFORM);
	float *b = filled(300, 2, CASE_UNIFORM);
	uint16_t *short_b = as_bf16(b, 300);

	for (uint32_t count = 0; count <= 300; count++) {
		float expected = dot_by_definition(a, b, count);
		require(dot_f32(a, b, count) == expected, "%u elements", count);
		require(dot_bf16(a, short_b, count) == expected, "%u elements of bf16", count);
	}
	free(a);
	free(b);
	free(short_b);
}

/* ---- operations on rows ---- */

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

static void norm_by_formula(double *out, const float *in, const float *weight, uint32_t rows,
	uint32_t width, double epsilon)
{
	for (uint32_t r = 0; r < rows; r++) {
		double squares = 0;
		for (uint32_t i = 0; i < width; i++) {
			squares += (double)in[i] * (double)in[i];
		}
		for (uint32_t i = 0; i < width; i++) {
			out[i] = in[i] / sqrt(squares / width + epsilon) * weight[i];
		}
		in += width;
		out += width;
	}
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

static void test_matmul(const struct op_case *c)
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
static void test_decode_matmul_silu(const struct op_case *c)
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

Test(kernels, operations_on_rows_follow_their_formulas, .timeout = 60)
{
	for_tiny_cases("embedding", test_embedding);
	for_tiny_cases("gather_rows", test_gather_rows);
	for_tiny_cases("rms_norm", test_rms_norm);
	for_tiny_cases("add_rms_norm", test_add_rms_norm);
	for_tiny_cases("silu_mul", test_silu_mul);
	for_tiny_cases("matmul", test_matmul);
	for_tiny_cases("decode_matmul", test_matmul);
	for_tiny_cases("decode_matmul_silu", test_decode_matmul_silu);
}

/* The rule decides bits, so that it is pinned: weights of layers and what lies beside them. */
Test(kernels, inputs_of_a_product_are_cut_by_the_weight_alone)
{
	static const uint32_t in_parts[][2] = {
		{2048, 1024}, {3072, 1024}, {2048, 2048}, {4096, 64}, {2560, 128}};
	static const uint32_t whole[][2] = {{1024, 4096}, {1024, 6144}, {1536, 1024}, {2048, 2112},
		{2048, 4096}, {6144, 2048}, {4096, 6144}, {4096, 4096}, {4096, 24576},
		{12288, 4096}, {896, 1152}, {2048, 32}, {2048, 96}, {2176, 64}, {4608, 64},
		{1024, 151936}, {0, 64}, {2048, 0}};

	for (uint32_t i = 0; i < sizeof(in_parts) / sizeof(in_parts[0]); i++) {
		cr_expect(linear_split_k(in_parts[i][0], in_parts[i][1]) == 4, "%u to %u",
			in_parts[i][0], in_parts[i][1]);
	}
	for (uint32_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		cr_expect(linear_split_k(whole[i][0], whole[i][1]) == 1, "%u to %u", whole[i][0],
			whole[i][1]);
	}
}

Test(kernels, silu_has_limits)
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

/* ---- rotary embedding and the store ---- */

/* The library's power and cosine are not exactly rounded: its frequency may be one float off, and
   so may the cosine. */
static void compare_rope(
	const struct json_object *root, const char *field, const float *table, uint32_t offset)
{
	const cJSON *rows = json_find(root, field);
	const cJSON *position, *value;
	int row = 0;

	cJSON_ArrayForEach(position, json_find(root, "positions"))
	{
		const float *entry = table + (size_t)position->valueint * 128 + offset;
		int index = 0;
		cJSON_ArrayForEach(value, cJSON_GetArrayItem(rows, row))
		{
			double angle = position->valueint * pow(1e6, -index++ / 64.0);
			require(fabs(*entry - value->valuedouble) < 1.3e-7 + angle * 0x1p-23,
				"%s at position %d: %.9g, expected %.9g", field, position->valueint,
				(double)*entry, value->valuedouble);
			entry += 2;
		}
		require_equal(index, 64);
		row++;
	}
	require_equal(row, 8);
}

/* tests/fixtures/models/rope.json: the cosines and sines of transformers, up to the last position.
 */
Test(kernels, rope_table_is_that_of_transformers, .timeout = 60)
{
	struct json_document document;
	struct json_object root;
	struct error error = {0};
	float *table = memory_take((size_t)40960 * 128, sizeof(*table));

	rope_table_fill(table, 40960, 128, 1e6);
	require(json_document_open(&document, QUIRE_SOURCE_DIR "/tests/fixtures/models/rope.json",
			&error) == STATUS_OK,
		"%s", error.text);
	require(json_root(&root, &document, &error) == STATUS_OK, "%s", error.text);
	compare_rope(&root, "cosines", table, 0);
	compare_rope(&root, "sines", table, 1);
	json_document_close(&document);
	free(table);
}

enum { POSITION_LIMIT = 1000 };

static void rotate_by_formula(double *out, const float *in, const float *weight, uint32_t position,
	uint32_t dim, double theta)
{
	double *normal = memory_take(dim, sizeof(*normal));
	norm_by_formula(normal, in, weight, 1, dim, 1e-6);
	for (uint32_t i = 0; i < dim / 2; i++) {
		double angle = position * pow(theta, -2.0 * i / dim);
		out[i] = normal[i] * cos(angle) - normal[i + dim / 2] * sin(angle);
		out[i + dim / 2] = normal[i + dim / 2] * cos(angle) + normal[i] * sin(angle);
	}
	free(normal);
}

/* Everything that the store reads and writes. Every third token has no slot. */
struct store {
	struct attention_shape shape;
	struct qk_norm_rope norm;
	float *q_weight, *k_weight, *rope, *qkv, *query, *keys, *values;
	uint64_t query_count, pool_count, token_width;
	uint32_t *positions;
	int64_t *slots;
};

static void store_open(struct store *s, const struct op_case *c)
{
	s->shape = (struct attention_shape){.head_count = c->heads,
		.kv_head_count = c->kv_heads,
		.head_dim = c->head_dim,
		.block_size = c->block_size};
	uint64_t blocks = 2 + 2 * c->rows / c->block_size;
	s->token_width = (uint64_t)(c->heads + 2 * c->kv_heads) * c->head_dim;
	s->query_count = (uint64_t)c->rows * c->heads * c->head_dim;
	s->pool_count = blocks * c->block_size * c->kv_heads * c->head_dim;
	s->q_weight = filled(c->head_dim, 1, CASE_UNIFORM);
	s->k_weight = filled(c->head_dim, 2, CASE_UNIFORM);
	s->qkv = filled(c->rows * s->token_width, 3, CASE_UNIFORM);
	for (uint64_t i = 0; i < c->rows * s->token_width; i++) {
		s->qkv[i] *= 1.1f; /* so that bf16 does not hold them */
	}
	s->rope = memory_take((size_t)POSITION_LIMIT * c->head_dim, sizeof(float));
	s->query = nans(s->query_count);
	s->keys = nans(s->pool_count);
	s->values = nans(s->pool_count);
	s->positions = memory_take(c->rows, sizeof(*s->positions));
	s->slots = memory_take(c->rows, sizeof(*s->slots));
	rope_table_fill(s->rope, POSITION_LIMIT, c->head_dim, 1e6);
	for (uint32_t t = 0; t < c->rows; t++) {
		s->positions[t] = (t * 37) % POSITION_LIMIT;
		s->slots[t] = t % 3 == 2 ? -1 : (int64_t)(2 * t + 1);
	}
	s->norm = (struct qk_norm_rope){s->q_weight, s->k_weight, s->rope, 1e-6f};
}

static void store_close(struct store *s)
{
	free(s->q_weight);
	free(s->k_weight);
	free(s->qkv);
	free(s->rope);
	free(s->query);
	free(s->keys);
	free(s->values);
	free(s->positions);
	free(s->slots);
}

static void store_run(struct store *s, uint32_t rows, enum rounding rounding)
{
	qk_norm_rope_store_cpu(s->query, s->keys, s->values, s->qkv, s->positions, s->slots, rows,
		&s->norm, &s->shape, rounding);
}

/* Where a token's head must lie, by the drawing in paged_kv.h and without paged_kv_offset(). */
static uint64_t pool_offset(const struct attention_shape *shape, int64_t slot, uint32_t head)
{
	uint64_t block = (uint64_t)slot / shape->block_size;
	uint64_t token = (uint64_t)slot % shape->block_size;
	uint64_t head_size = (uint64_t)shape->block_size * shape->head_dim;
	return block * shape->kv_head_count * head_size + head * head_size +
	       token * shape->head_dim;
}

static void compare_token(const struct op_case *c, const struct store *s, uint32_t t)
{
	double *expected = memory_take(c->head_dim, sizeof(*expected));
	const float *in = s->qkv + t * s->token_width;

	for (uint32_t h = 0; h < c->heads; h++) {
		rotate_by_formula(expected, in + (uint64_t)h * c->head_dim, s->q_weight,
			s->positions[t], c->head_dim, 1e6);
		/* The angle is rounded to float32 at position 1,000: 3 * 10^-5 of error at most. */
		for (uint32_t i = 0; i < c->head_dim; i++) {
			float found = s->query[((uint64_t)t * c->heads + h) * c->head_dim + i];
			require(fabs(found - expected[i]) < 2e-4,
				"query %u of token %u: %g, not %g", h, t, (double)found,
				expected[i]);
		}
	}
	in += (uint64_t)c->heads * c->head_dim;
	for (uint32_t h = 0; s->slots[t] >= 0 && h < c->kv_heads; h++) {
		uint64_t at = pool_offset(&s->shape, s->slots[t], h);
		const float *value = in + (uint64_t)(c->kv_heads + h) * c->head_dim;
		rotate_by_formula(expected, in + (uint64_t)h * c->head_dim, s->k_weight,
			s->positions[t], c->head_dim, 1e6);
		for (uint32_t i = 0; i < c->head_dim; i++) {
			require(fabs(s->keys[at + i] - expected[i]) < 2e-4,
				"key %u of token %u: %g, not %g", h, t, (double)s->keys[at + i],
				expected[i]);
		}
		require_same_bits(c, s->values + at, value, c->head_dim, "a value");
	}
	free(expected);
}

static void test_store(const struct op_case *c)
{
	struct store s, other;
	uint64_t written = 0;

	store_open(&s, c);
	store_run(&s, c->rows, ROUNDING_NONE);
	for (uint32_t t = 0; t < c->rows; t++) {
		compare_token(c, &s, t);
		written += s.slots[t] >= 0;
	}
	/* Nothing else was written. */
	for (uint64_t i = 0; i < s.pool_count; i++) {
		require(isnan(s.keys[i]) == isnan(s.values[i]), "a key without its value");
		written -= i % c->head_dim == 0 &&
			   i / c->head_dim / c->block_size % c->kv_heads == 0 && !isnan(s.keys[i]);
	}
	require_equal(written, 0);
	store_open(&other, c);
	store_run(&other, c->rows, ROUNDING_BF16);
	require_rounded(c, other.query, s.query, s.query_count);
	for (uint64_t i = 0; i < s.pool_count; i++) {
		require(isnan(s.keys[i]) || other.keys[i] == rounded(s.keys[i], ROUNDING_BF16),
			"a key is not rounded");
		require(isnan(s.values[i]) ||
				other.values[i] == rounded(s.values[i], ROUNDING_BF16),
			"a value is not rounded");
	}
	store_close(&s);
	store_close(&other);
}

Test(kernels, queries_and_keys_are_rotated_and_stored, .timeout = 60)
{
	for_tiny_cases("qk_norm_rope_store", test_store);
}

/* ---- attention ---- */

/* A pool in which a case's sequences lie in blocks that are out of order. */
struct paged {
	struct attention_shape shape;
	float *keys, *values;  /* of a layer */
	uint32_t *tables;      /* (rows in reverse order, table_width) */
	uint32_t *rows;	       /* (rows) index into tables */
	uint32_t *contexts;    /* (rows) */
	uint32_t *query_start; /* (rows + 1) */
	uint32_t token_count;
	float *query; /* (token_count, heads, head_dim) */
	bool is_decode;
};

/* The key (which 0) or value (1) of a position, the same in any block. */
static void token_values(const struct op_case *c, uint32_t which, uint32_t row, uint32_t position,
	uint32_t head, float *out)
{
	uint64_t key = (((uint64_t)which * 1000 + row) * 100000 + position) * 100 + head + 1;
	case_fill(out, c->head_dim, key, CASE_UNIFORM);
	for (uint32_t i = 0; i < c->head_dim; i++) {
		out[i] *= 2; /* so that the scores differ */
	}
}

static void paged_open(
	struct paged *p, const struct op_case *c, uint32_t block_size, bool is_decode)
{
	uint32_t width = (c->context + block_size - 1) / block_size + 1;
	uint32_t blocks = c->rows * width;
	blocks += blocks % 7 == 0; /* so that i * 7 visits each of them */
	uint64_t count = (uint64_t)blocks * c->kv_heads * block_size * c->head_dim;

	p->shape = (struct attention_shape){c->heads, c->kv_heads, c->head_dim, block_size, width};
	p->is_decode = is_decode;
	p->keys = nans(count);
	p->values = nans(count);
	p->tables = memory_take((size_t)c->rows * width, sizeof(*p->tables));
	p->rows = memory_take(c->rows, sizeof(*p->rows));
	p->contexts = memory_take(c->rows, sizeof(*p->contexts));
	p->query_start = memory_take(c->rows + 1, sizeof(*p->query_start));
	for (uint32_t i = 0; i < c->rows * width; i++) {
		p->tables[i] = (i * 7 + 3) % blocks;
	}
	for (uint32_t r = 0; r < c->rows; r++) {
		p->rows[r] = c->rows - 1 - r;
		p->contexts[r] = op_case_context(c, r);
		p->query_start[r + 1] = p->query_start[r] + op_case_chunk(c, r);
		for (uint32_t t = 0; t < p->contexts[r]; t++) {
			uint32_t block = p->tables[p->rows[r] * width + t / block_size];
			for (uint32_t h = 0; h < c->kv_heads; h++) {
				int64_t slot = (int64_t)block * block_size + t % block_size;
				uint64_t at = pool_offset(&p->shape, slot, h);
				token_values(c, 0, r, t, h, p->keys + at);
				token_values(c, 1, r, t, h, p->values + at);
			}
		}
	}
	p->token_count = p->query_start[c->rows];
	p->query = filled((uint64_t)p->token_count * c->heads * c->head_dim, 7, CASE_UNIFORM);
}

static void paged_close(struct paged *p)
{
	free(p->keys);
	free(p->values);
	free(p->tables);
	free(p->rows);
	free(p->contexts);
	free(p->query_start);
	free(p->query);
}

static void attend_by_formula(double *out, const struct op_case *c, const float *query,
	uint32_t row, uint32_t context, uint32_t head)
{
	float *vector = memory_take(c->head_dim, sizeof(*vector));
	double *scores = memory_take(context, sizeof(*scores));
	double largest = -INFINITY, sum = 0;
	/* Neighbouring query heads share a key/value head. */
	uint32_t kv_head = head * c->kv_heads / c->heads;

	for (uint32_t t = 0; t < context; t++) {
		token_values(c, 0, row, t, kv_head, vector);
		for (uint32_t i = 0; i < c->head_dim; i++) {
			scores[t] += (double)query[i] * (double)vector[i];
		}
		scores[t] /= sqrt(c->head_dim);
		largest = fmax(largest, scores[t]);
	}
	memset(out, 0, c->head_dim * sizeof(*out));
	for (uint32_t t = 0; t < context; t++) {
		double weight = exp(scores[t] - largest);
		token_values(c, 1, row, t, kv_head, vector);
		sum += weight;
		for (uint32_t i = 0; i < c->head_dim; i++) {
			out[i] += weight * (double)vector[i];
		}
	}
	for (uint32_t i = 0; i < c->head_dim; i++) {
		out[i] /= sum;
	}
	free(vector);
	free(scores);
}

static void attend(
	float *out, const struct paged *p, const struct op_case *c, enum rounding rounding)
{
	if (p->is_decode) {
		decode_attention_cpu(out, p->query, p->keys, p->values, p->tables, p->rows,
			p->contexts, c->rows, &p->shape, rounding);
	} else {
		prefill_attention_cpu(out, p->query, p->keys, p->values, p->tables, p->rows,
			p->query_start, p->contexts, c->rows, &p->shape, rounding);
	}
}

/* Each token by itself through the decode operation gets the same bits. */
static void check_single_tokens(const struct paged *p, const struct op_case *c, const float *out)
{
	uint64_t width = (uint64_t)c->heads * c->head_dim;
	float *alone = nans(width);

	for (uint32_t r = 0; r < c->rows; r++) {
		for (uint32_t t = p->query_start[r]; t < p->query_start[r + 1]; t++) {
			uint32_t context = p->contexts[r] - (p->query_start[r + 1] - 1 - t);
			decode_attention_cpu(alone, p->query + t * width, p->keys, p->values,
				p->tables, &p->rows[r], &context, 1, &p->shape, ROUNDING_NONE);
			require_same_bits(c, alone, out + t * width, width, "decoded one by one");
		}
	}
	free(alone);
}

static void test_attention(const struct op_case *c, bool is_decode)
{
	static const uint32_t block_sizes[] = {1, 3, 64, 1024};
	struct paged p;

	paged_open(&p, c, c->block_size, is_decode);
	uint64_t width = (uint64_t)c->heads * c->head_dim;
	uint64_t count = p.token_count * width;
	float *out = nans(count), *other = nans(count);
	double *expected = memory_take(count, sizeof(*expected));
	attend(out, &p, c, ROUNDING_NONE);
	for (uint32_t r = 0; r < c->rows; r++) {
		for (uint32_t t = p.query_start[r]; t < p.query_start[r + 1]; t++) {
			uint32_t context = p.contexts[r] - (p.query_start[r + 1] - 1 - t);
			for (uint32_t h = 0; h < c->heads; h++) {
				uint64_t at = t * width + (uint64_t)h * c->head_dim;
				attend_by_formula(expected + at, c, p.query + at, r, context, h);
			}
		}
	}
	require_near(c, out, expected, count);
	check_single_tokens(&p, c, out);
	attend(other, &p, c, ROUNDING_BF16);
	require_rounded(c, other, out, count);
	paged_close(&p);
	for (uint32_t i = 0; i < 4; i++) {
		paged_open(&p, c, block_sizes[i], is_decode);
		attend(other, &p, c, ROUNDING_NONE);
		require_same_bits(c, other, out, count, "blocks of another size");
		paged_close(&p);
	}
	free(out);
	free(other);
	free(expected);
}

static void test_decode(const struct op_case *c)
{
	test_attention(c, true);
}

static void test_prefill(const struct op_case *c)
{
	test_attention(c, false);
}

Test(kernels, attention_follows_its_formula, .timeout = 240)
{
	for_tiny_cases("decode_attention", test_decode);
	for_tiny_cases("prefill_attention", test_prefill);
}

/* Every query of the rows lies in one tile, and no tile needs fewer keys than the one before. */
Test(kernels, prefill_tiles)
{
	enum { FIRST = 2, ROWS = 6, TOKENS = 1031 };
	static const uint32_t start[ROWS + 1] = {0, 1, 2, 502, 630, 631, TOKENS};
	static const uint32_t contexts[ROWS] = {40, 9, 500, 130, 1, 7000};
	struct prefill_tile tiles[TOKENS / PREFILL_QUERY_TILE + ROWS];
	uint32_t seen[TOKENS] = {0}, before = 0;
	uint32_t count = prefill_tiles_fill(tiles, start, contexts, FIRST, ROWS);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t r = tiles[i].row, tokens = start[r + 1] - start[r], end = 0;
		for (uint32_t q = 0; q < PREFILL_QUERY_TILE; q++) {
			uint32_t query = tiles[i].index * PREFILL_QUERY_TILE + q;
			if (query < tokens) {
				seen[start[r] + query]++;
				end = contexts[r] - tokens + query + 1;
			}
		}
		cr_expect(end > 0 && end >= before, "tile %u needs %u keys", i, end);
		before = end;
	}
	for (uint32_t t = 0; t < TOKENS; t++) {
		cr_expect(seen[t] == (t >= start[FIRST]), "token %u lies in %u tiles", t, seen[t]);
	}
	cr_expect(prefill_tiles_fill(tiles, start, contexts, ROWS, ROWS) == 0);
}
