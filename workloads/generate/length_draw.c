#include "workloads/generate/length_draw.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "workloads/generate/fixed.h"

uint32_t length_draw(const struct length_draw *draw, struct random *random)
{
	if (draw->kind == LENGTH_UNIFORM) {
		return random_range(random, draw->low, draw->high);
	}
	check(draw->sigma_millionths <= 10000000 && draw->median >= 1);
	/* Logarithms to base 2: log2(median) + sigma * z * log2(e). */
	int64_t sigma = fixed_ratio((uint32_t)draw->sigma_millionths, 1000000);
	int64_t spread = fixed_multiply(fixed_multiply(sigma, random_normal(random)), FIXED_LOG2_E);
	int64_t power = u64_log2(draw->median) + spread;
	if (power >= 29 * FIXED_ONE) {
		return draw->high;
	}
	uint32_t length = (uint32_t)((fixed_exp2(power) + FIXED_ONE / 2) >> 32);
	return u32_max(u32_min(length, draw->high), draw->low);
}
