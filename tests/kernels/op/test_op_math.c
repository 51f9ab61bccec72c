#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/op/dot.h"
#include "kernels/op/elementary.h"
#include "kernels/op/number.h"
#include "tests/harness/require.h"
#include "tests/harness/twin.h"

/* What the CPU twins compute with: bf16, elementary functions, and sums in a fixed order. */

Test(op_math, bf16_rounds_to_nearest_even)
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

Test(op_math, elementary_functions_are_right)
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

Test(op_math, dot_sums_in_its_order)
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
