#ifndef KERNELS_SAMPLING_SAMPLER_NOISE_H
#define KERNELS_SAMPLING_SAMPLER_NOISE_H

#include "engine/base/counter_hash.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The sampler's noise, one source for host and GPU: + - * on float32 in a fixed order, each
   rounded separately, so both get the same bits. It must be compiled without contraction to
   fused multiply-add. */

/* log(1 + f) + exponent * log(2) for f in [sqrt(1/2) - 1, sqrt(2) - 1]. The polynomial
   approximates (log(1 + f) - f + f^2 / 2) / f^3 by Chebyshev interpolation, with coefficients
   rounded to float32. The error is below 3 * 10^-8 before the final rounding. */
BOTH_SIDES static inline float log_of_parts(float f, int exponent)
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
	/* log(2) as a sum of two constants, the first with 16 bits */
	return (float)exponent * 0x1.62e4p-1f + (f + (tail + (float)exponent * 0x1.7f7d1cp-20f));
}

/* Natural logarithm of a positive normal float32. */
BOTH_SIDES static inline float log_float(float x)
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
BOTH_SIDES static inline float exponential(uint32_t bits)
{
	/* 1 - u has the form of u with inverted bits, so both are exact without a subtraction. */
	if (bits < 0x40000000) {
		return -log_of_parts(-((float)(2 * (uint64_t)bits + 1) * 0x1p-33f), 0);
	}
	return -log_float((float)(2 * (uint64_t)~bits + 1) * 0x1p-33f);
}

/* The noise of 32 bits of the hash. */
BOTH_SIDES static inline float sampler_noise_of_bits(uint32_t bits)
{
	return -log_float(exponential(bits));
}

/* An upper bound of the noise of these bits, tight where the noise is large. It rests on two
   inequalities: -log(-log(1 - u)) <= -log(u), and log2(x) >= the bits of the float x read as a
   fixed-point number, less its bias (the mantissa m in [0, 1) is at most log2(1 + m)). The
   constants are 159 log(2) with a margin for all roundings, and log(2) / 2^23. */
BOTH_SIDES static inline float sampler_noise_bound(uint32_t bits)
{
	float x = (float)bits;
	int32_t fixed;

	memcpy(&fixed, &x, sizeof(fixed));
	return 0x1.b8d89p+6f - (float)fixed * 0x1.62e43p-24f;
}

/* Whether sampler_noise_floor() holds for these bits: u < 1/4, where -log(1 - u) is not far above
   u, and not the largest noise of all. */
BOTH_SIDES static inline bool sampler_noise_has_floor(uint32_t bits)
{
	return bits > 0 && bits < 0x40000000;
}

/* A lower bound of the noise. */
BOTH_SIDES static inline float sampler_noise_floor(uint32_t bits)
{
	return sampler_noise_bound(bits) - 0.4375f;
}

/* The noise of one id, see kernels/sampling/sampler.h. */
BOTH_SIDES static inline float sampler_noise(uint64_t row_key, uint32_t id)
{
	uint64_t hash = counter_hash(row_key, id >> 1);

	return sampler_noise_of_bits((uint32_t)((id & 1) == 0 ? hash : hash >> 32));
}

#endif
