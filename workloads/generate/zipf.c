#include "workloads/generate/zipf.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/generate/fixed.h"

#include <stdlib.h>

void zipf_init(struct zipf *zipf, uint32_t count, uint64_t skew_millionths)
{
	check(count >= 1 && count <= ZIPF_COUNT_MAX && skew_millionths <= 10000000);
	*zipf = (struct zipf){.count = count};
	if (skew_millionths == 0 || count == 1) {
		return;
	}
	int64_t skew = fixed_ratio((uint32_t)skew_millionths, 1000000);
	uint64_t sum = 0;
	zipf->sums = memory_take(count, sizeof(*zipf->sums));
	for (uint32_t i = 0; i < count; i++) {
		/* At least 1, so that every item can be drawn. */
		int64_t weight = fixed_exp2(-fixed_multiply(skew, u64_log2((uint64_t)i + 1)));
		sum += u64_max((uint64_t)weight, 1);
		zipf->sums[i] = sum;
	}
}

void zipf_deinit(struct zipf *zipf)
{
	free(zipf->sums);
	*zipf = (struct zipf){0};
}

uint32_t zipf_draw(const struct zipf *zipf, struct random *random)
{
	if (zipf->sums == NULL) {
		return random_below(random, zipf->count);
	}
	uint64_t drawn = random_bits(random) % zipf->sums[zipf->count - 1];
	uint32_t low = 0;
	uint32_t high = zipf->count - 1;

	while (low < high) { /* finds the first item whose sum exceeds the draw */
		uint32_t middle = low + (high - low) / 2;
		if (zipf->sums[middle] > drawn) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low;
}
