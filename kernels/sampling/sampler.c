#include "kernels/sampling/sampler.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"

#include <stdbool.h>
#include <stddef.h>

enum { PURPOSE_SAMPLER = 200 };

uint64_t sampler_row_key(uint64_t seed, uint64_t request, uint32_t position)
{
	return counter_hash(counter_hash(counter_key(seed, PURPOSE_SAMPLER), request), position);
}

struct candidate sampler_candidate_cpu(
	const float *logits, uint64_t row_key, float temperature, uint32_t first_id, uint32_t count)
{
	struct candidate best = candidate_none();

	for (uint32_t i = 0; i < count; i++) {
		float score = logits[i];
		if (temperature > 0) {
			score += temperature * sampler_noise(row_key, first_id + i);
		}
		/* False for a NaN, so that one is never chosen. */
		if (score > best.score) {
			best = (struct candidate){score, (int32_t)(first_id + i)};
		}
	}
	return best;
}

void sampler_cpu(int32_t *token_ids, const float *logits, const uint64_t *row_keys,
	const float *temperatures, uint32_t row_count, uint32_t vocabulary_size)
{
	check(vocabulary_size >= 1);
	check(vocabulary_size <= INT32_MAX);
	for (uint32_t r = 0; r < row_count; r++) {
		check(temperatures[r] >= 0);
		check(temperatures[r] <= SAMPLER_TEMPERATURE_MAX);
		token_ids[r] =
			candidate_token(sampler_candidate_cpu(logits + (size_t)r * vocabulary_size,
				row_keys[r], temperatures[r], 0, vocabulary_size));
	}
}
