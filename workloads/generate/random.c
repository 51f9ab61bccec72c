#include "workloads/generate/random.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "workloads/generate/fixed.h"

struct random random_stream(uint64_t seed, uint64_t purpose)
{
	return (struct random){counter_key(seed, purpose), 0};
}

uint64_t random_bits(struct random *random)
{
	return counter_hash(random->key, random->counter++);
}

uint32_t random_below(struct random *random, uint64_t bound)
{
	uint64_t bits = random_bits(random);

	check(bound >= 1 && bound <= UINT64_C(1) << 32);
	/* floor(bits * bound / 2^64), computed in two halves. */
	uint64_t high = (bits >> 32) * bound + (((bits & UINT32_MAX) * bound) >> 32);
	return (uint32_t)(high >> 32);
}

uint32_t random_range(struct random *random, uint32_t low, uint32_t high)
{
	check(low <= high);
	return low + random_below(random, (uint64_t)high - low + 1);
}

int64_t random_exponential(struct random *random)
{
	/* -ln(u) for u = (bits | 1) / 2^64, which is never 0. */
	int64_t log2 = u64_log2(random_bits(random) | 1);
	return fixed_multiply(64 * FIXED_ONE - log2, FIXED_LN_2);
}

int64_t random_normal(struct random *random)
{
	/* Marsaglia's polar method: a point (u, v) of the unit disc, uniform, in steps of 2^-31. */
	int64_t u, v;
	uint64_t square;

	do {
		uint64_t bits = random_bits(random);
		u = (int64_t)(bits >> 32) - INT64_C(0x80000000);
		v = (int64_t)(bits & UINT32_MAX) - INT64_C(0x80000000);
		square = (uint64_t)(u * u) + (uint64_t)(v * v); /* times 2^62 */
	} while (square == 0 || square >= UINT64_C(1) << 62);
	/* u / sqrt(square) * sqrt(-2 ln square) */
	int64_t minus_2_ln = fixed_multiply(62 * FIXED_ONE - u64_log2(square), 2 * FIXED_LN_2);
	int64_t direction = (u * (INT64_C(1) << 30)) / u64_root(square);
	return fixed_multiply(direction * 4, fixed_root(minus_2_ln));
}

/* For shapes of at least 1; mean `shape`. Marsaglia and Tsang, "A simple method for generating
   gamma variables", 2000. */
static int64_t gamma_of_one_and_more(struct random *random, int64_t shape)
{
	int64_t d = shape - FIXED_ONE / 3;
	int64_t c = fixed_divide(FIXED_ONE, fixed_root(9 * d));

	for (;;) {
		int64_t x = random_normal(random);
		int64_t root = FIXED_ONE + fixed_multiply(c, x);
		if (root <= 0) {
			continue;
		}
		int64_t cube = fixed_multiply(root, fixed_multiply(root, root));
		if (cube == 0) {
			continue;
		}
		int64_t bound = fixed_multiply(x, x) / 2 +
				fixed_multiply(d, FIXED_ONE - cube + fixed_ln(cube));
		if (-random_exponential(random) < bound) {
			return fixed_multiply(d, cube);
		}
	}
}

int64_t random_gamma(struct random *random, int64_t shape)
{
	check(shape >= FIXED_ONE / 100 && shape <= 1000 * FIXED_ONE);
	if (shape >= FIXED_ONE) {
		return fixed_divide(gamma_of_one_and_more(random, shape), shape);
	}
	/* A gamma draw of shape + 1, times u^(1 / shape). */
	int64_t more = gamma_of_one_and_more(random, shape + FIXED_ONE);
	int64_t power = fixed_divide(-random_exponential(random), shape);
	return fixed_divide(fixed_multiply(more, fixed_exp(power)), shape);
}
