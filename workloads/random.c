#include "workloads/random.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "workloads/fixed.h"

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
	/* floor(bits * bound / 2^64) in two halves. */
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
	return fixed_multiply(64 * FIXED_ONE - log2, INT64_C(0xb17217f8));
}
