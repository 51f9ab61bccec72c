#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>

#include "kernels/exchange/exchange.h"
#include "kernels/op/operands.h"
#include "tests/harness/require.h"
#include "tests/harness/twin.h"

/* The order of the sum, on the CPU. */

static float sum_of(const float *values, uint32_t ranks, enum rounding rounding)
{
	const float *parts[EXCHANGE_RANKS_MAX];
	float sum;

	for (uint32_t r = 0; r < ranks; r++) {
		parts[r] = values + r;
	}
	exchange_sum_cpu(&sum, parts, ranks, 1, rounding);
	return sum;
}

/* 2^24 + 1 + 1: from the left each 1 is lost, from the right both count. */
Test(exchange, ranks_are_added_in_ascending_order)
{
	const float ascending[3] = {0x1p24f, 1, 1}, descending[3] = {1, 1, 0x1p24f};
	const float cancels[4] = {1, 0x1p30f, -0x1p30f, 1};

	require(sum_of(ascending, 3, ROUNDING_NONE) == 0x1p24f, "1s behind 2^24 are lost");
	require(sum_of(descending, 3, ROUNDING_NONE) == 0x1p24f + 2, "1s before 2^24 count");
	require(sum_of(cancels, 4, ROUNDING_NONE) == 1, "the first 1 is lost");
}

/* In bf16 256 + 1 is a tie, which goes to 256. One rounding behind the sum sees 258. */
Test(exchange, the_sum_is_rounded_once)
{
	const float values[3] = {256, 1, 1};

	require(sum_of(values, 2, ROUNDING_BF16) == 256, "256 + 1");
	require(sum_of(values, 3, ROUNDING_BF16) == 258, "256 + 1 + 1");
	require(sum_of(values, 2, ROUNDING_NONE) == 257, "256 + 1 without rounding");
}

Test(exchange, zeros_infinities_and_nan)
{
	const float zeros[2] = {-0.0f, -0.0f}, infinities[2] = {INFINITY, -INFINITY};
	const float nan[3] = {1, NAN, 1};

	require(!signbit(sum_of(zeros, 2, ROUNDING_BF16)), "0 + -0 + -0 is 0");
	require(!signbit(sum_of(zeros, 1, ROUNDING_BF16)), "0 + -0 is 0");
	require(isnan(sum_of(infinities, 2, ROUNDING_BF16)), "infinities cancel to NaN");
	require(isnan(sum_of(nan, 3, ROUNDING_BF16)), "NaN stays");
}

/* Integers are exact, so every number of ranks has the sum of one. */
Test(exchange, exact_sums_do_not_depend_on_the_number_of_ranks)
{
	enum { COUNT = 1000 };
	float *values = filled(EXCHANGE_RANKS_MAX * COUNT, 3, CASE_INTEGERS);
	float *out = nans(COUNT);

	for (uint32_t ranks = 1; ranks <= EXCHANGE_RANKS_MAX; ranks++) {
		const float *parts[EXCHANGE_RANKS_MAX];
		for (uint32_t r = 0; r < ranks; r++) {
			parts[r] = values + r * COUNT;
		}
		exchange_sum_cpu(out, parts, ranks, COUNT, ROUNDING_BF16);
		for (uint32_t i = 0; i < COUNT; i++) {
			int sum = 0;
			for (uint32_t r = 0; r < ranks; r++) {
				sum += (int)values[r * COUNT + i];
			}
			require(out[i] == (float)sum, "element %u of %u ranks", i, ranks);
		}
	}
	free(values);
	free(out);
}
