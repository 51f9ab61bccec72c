#include "workloads/generate/fixed.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"

#include <stdbool.h>

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static int64_t with_sign(uint64_t value, bool is_negative)
{
	check(value <= INT64_MAX);
	return is_negative ? -(int64_t)value : (int64_t)value;
}

int64_t fixed_multiply(int64_t a, int64_t b)
{
	uint64_t x = magnitude(a);
	uint64_t y = magnitude(b);
	uint64_t x_high = x >> 32, x_low = x & UINT32_MAX;
	uint64_t y_high = y >> 32, y_low = y & UINT32_MAX;

	check(x_high == 0 || y_high <= INT32_MAX / x_high);
	uint64_t product = (x_high * y_high) << 32;
	uint64_t cross = x_high * y_low + ((x_low * y_low) >> 32);
	check(cross <= UINT64_MAX - x_low * y_high &&
		product <= UINT64_MAX - cross - x_low * y_high);
	return with_sign(product + cross + x_low * y_high, (a < 0) != (b < 0));
}

int64_t fixed_divide(int64_t a, int64_t b)
{
	uint64_t x = magnitude(a);
	uint64_t y = magnitude(b);

	check(y > 0);
	uint64_t quotient = x / y;
	uint64_t rest = x % y;
	check(quotient <= INT32_MAX);
	for (uint32_t i = 0; i < 32; i++) { /* one binary digit per round; rest < y < 2^63 */
		rest *= 2;
		quotient = quotient * 2 + (rest >= y);
		rest -= rest >= y ? y : 0;
	}
	return with_sign(quotient, (a < 0) != (b < 0));
}

uint32_t u64_root(uint64_t value)
{
	uint64_t root = 0;

	for (uint32_t bit = 32; bit-- > 0;) {
		uint64_t tried = root | UINT64_C(1) << bit;
		if (tried * tried <= value) {
			root = tried;
		}
	}
	return u32_from(root);
}

int64_t fixed_root(int64_t value)
{
	check(value >= 0);
	/* The root of v * 2^32 is sqrt(v) * 2^16; shift the argument up as far as it goes first. */
	uint32_t shift = 0;
	while (shift < 16 && (uint64_t)value >> (64 - 2 * (shift + 1)) == 0) {
		shift++;
	}
	return (int64_t)u64_root((uint64_t)value << (2 * shift)) << (16 - shift);
}

int64_t u64_log2(uint64_t value)
{
	check(value > 0);
	uint32_t zeroes = (uint32_t)__builtin_clzll(value);
	uint64_t result = 63 - zeroes;
	uint64_t mantissa = (value << zeroes) >> 32; /* in [1, 2), times 2^31 */

	/* Squaring doubles the logarithm, which moves its next binary digit before the point. */
	for (uint32_t i = 0; i < 32; i++) {
		mantissa = (mantissa * mantissa) >> 31;
		uint64_t bit = mantissa >> 32;
		mantissa >>= bit;
		result = result * 2 + bit;
	}
	return (int64_t)result;
}

int64_t fixed_ln(int64_t value)
{
	check(value > 0);
	return fixed_multiply(u64_log2((uint64_t)value) - 32 * FIXED_ONE, FIXED_LN_2);
}

int64_t fixed_exp2(int64_t value)
{
	/* 2^(2^-i) - 1 for i = 1, 2, ..., times 2^32. */
	static const uint32_t steps[32] = {0x6a09e668, 0x306fe0a3, 0x172b83c8, 0x0b5586d0,
		0x059b0d31, 0x02c9a3e7, 0x0163daa0, 0x00b1afa6, 0x0058c86e, 0x002c605e, 0x00162f39,
		0x000b175f, 0x00058ba0, 0x0002c5cc, 0x000162e5, 0x0000b172, 0x000058b9, 0x00002c5d,
		0x0000162e, 0x00000b17, 0x0000058c, 0x000002c6, 0x00000163, 0x000000b1, 0x00000059,
		0x0000002c, 0x00000016, 0x0000000b, 0x00000006, 0x00000003, 0x00000001, 0x00000001};
	check(value < 31 * FIXED_ONE);
	if (value < -33 * FIXED_ONE) {
		return 0;
	}
	uint64_t biased = (uint64_t)(value + 64 * FIXED_ONE);
	uint32_t whole = (uint32_t)(biased >> 32); /* 64 + floor(value) */
	uint64_t power = UINT64_C(1) << 31;	   /* 2^fraction, times 2^31 */

	for (uint32_t i = 0; i < 32; i++) {
		if (biased >> (31 - i) & 1) {
			power += (power * steps[i]) >> 32;
		}
	}
	power = u64_min(power, UINT32_MAX);
	return (int64_t)(whole >= 63 ? power << (whole - 63) : power >> (63 - whole));
}

int64_t fixed_exp(int64_t value)
{
	/* Below this the result is 0 in any case, and the product could overflow. */
	return value < -64 * FIXED_ONE ? 0 : fixed_exp2(fixed_multiply(value, FIXED_LOG2_E));
}
