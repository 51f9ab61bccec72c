#include "kernels/sampler.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { PURPOSE_SAMPLER = 200 };

uint64_t sampler_row_key(uint64_t seed, uint64_t request, uint32_t position)
{
	return counter_hash(counter_hash(counter_key(seed, PURPOSE_SAMPLER), request), position);
}

/* log(1 + f) + exponent * log(2) for f in [sqrt(1/2) - 1, sqrt(2) - 1]. The polynomial stands for
   (log(1 + f) - f + f^2 / 2) / f^3, fitted by Chebyshev interpolation; its coefficients are rounded
   to float32 and the result is within 3 * 10^-8 before rounding. */
static float log_of_parts(float f, int exponent)
{
	float p = -0x1.43b246p-4f;
	p = p * f + 0x1.02814ep-3f;
	p = p * f - 0x1.0a33eap-3f;
	p = p * f + 0x1.231ce6p-3f;
	p = p * f - 0x1.54d03ep-3f;
	p = p * f + 0x1.999f14p-3f;
	p = p * f - 0x1.0000cep-2f;
	p = p * f + 0x1.555554p-2f;
	float square = f * f;
	float tail = square * f * p - 0.5f * square;
	/* log(2) in two parts, the first of 16 bits */
	return (float)exponent * 0x1.62e4p-1f + (f + (tail + (float)exponent * 0x1.7f7d1cp-20f));
}

/* Natural logarithm of a positive normal float32. */
static float log_float(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	int exponent = (int)(bits >> 23) - 127;
	bits = (bits & 0x7fffff) | 0x3f800000;
	memcpy(&x, &bits, sizeof(x));
	if (x > 0x1.6a09e6p+0f) {
		x *= 0.5f;
		exponent++;
	}
	return log_of_parts(x - 1, exponent);
}

/* -log(1 - u) for u = (bits + 0.5) / 2^32, in [2^-33, 22.9]. */
static float exponential(uint32_t bits)
{
	/* 1 - u has the form of u with its bits turned over, so either is known without a
	   difference. */
	if (bits < 0x40000000) {
		return -log_of_parts(-((float)(2 * (uint64_t)bits + 1) * 0x1p-33f), 0);
	}
	return -log_float((float)(2 * (uint64_t)~bits + 1) * 0x1p-33f);
}

float sampler_noise_of_bits(uint32_t bits)
{
	return -log_float(exponential(bits));
}

float sampler_noise(uint64_t row_key, uint32_t id)
{
	uint64_t hash = counter_hash(row_key, id >> 1);

	return sampler_noise_of_bits((uint32_t)((id & 1) == 0 ? hash : hash >> 32));
}

static int32_t sample_row(
	const float *logits, uint64_t row_key, float temperature, uint32_t vocabulary_size)
{
	int32_t best = 0;
	float best_score = -INFINITY;

	for (uint32_t id = 0; id < vocabulary_size; id++) {
		float score = logits[id];
		if (temperature > 0) {
			score += temperature * sampler_noise(row_key, id);
		}
		/* False for a NaN, which so is never chosen. */
		if (score > best_score) {
			best_score = score;
			best = (int32_t)id;
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
		token_ids[r] = sample_row(logits + (size_t)r * vocabulary_size, row_keys[r],
			temperatures[r], vocabulary_size);
	}
}
