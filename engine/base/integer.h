#ifndef ENGINE_BASE_INTEGER_H
#define ENGINE_BASE_INTEGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/check.h"

/* For sums of products of times and counts, which exceed 64 bits. */
__extension__ typedef unsigned __int128 u128;

/* Checked narrowing, and common integer functions. */

static inline uint32_t u32_from(uint64_t value)
{
	check(value <= UINT32_MAX);
	return (uint32_t)value;
}

static inline int32_t i32_from(int64_t value)
{
	check(value >= INT32_MIN && value <= INT32_MAX);
	return (int32_t)value;
}

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint32_t u32_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t u32_max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ceil(value / divisor) without overflow; divisor > 0. */
static inline uint64_t u64_divide_up(uint64_t value, uint64_t divisor)
{
	return value / divisor + (value % divisor != 0);
}

/* The smallest power of two >= value; value in [1, 2^63]. */
static inline uint64_t u64_power_of_two_at_least(uint64_t value)
{
	check(value >= 1 && value <= UINT64_C(1) << 63);
	return value == 1 ? 1 : UINT64_C(1) << (64 - __builtin_clzll(value - 1));
}

#endif
