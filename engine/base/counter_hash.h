#ifndef ENGINE_BASE_COUNTER_HASH_H
#define ENGINE_BASE_COUNTER_HASH_H

#include <stdint.h>

#include "engine/base/both_sides.h"

/* Counter-based numbers: a value is a pure function of (key, counter), so it can be computed
   anywhere, in any order and repeatedly, and is the same on every machine. The mixer is the output
   function of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
   2014), a bijection of 64 bits. */

BOTH_SIDES static inline uint64_t counter_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A key for one purpose of a seed; different purposes give unrelated streams. */
BOTH_SIDES static inline uint64_t counter_key(uint64_t seed, uint64_t purpose)
{
	return counter_mix(counter_mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^
			   (purpose * UINT64_C(0xd1342543de82ef95)));
}

BOTH_SIDES static inline uint64_t counter_hash(uint64_t key, uint64_t counter)
{
	return counter_mix(key + counter * UINT64_C(0x9e3779b97f4a7c15));
}

/* Maps 32 uniform bits to [0, bound) by multiplication (Lemire 2019, without its rejection step:
   a value's probability is off by less than bound / 2^32). */
BOTH_SIDES static inline uint32_t counter_below(uint32_t bits, uint32_t bound)
{
	return (uint32_t)(((uint64_t)bits * bound) >> 32);
}

#endif
