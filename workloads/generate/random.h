#ifndef WORKLOADS_GENERATE_RANDOM_H
#define WORKLOADS_GENERATE_RANDOM_H

#include <stdint.h>

/* Random draws of the generators: a counter-based stream of 64-bit numbers (engine/base/
   counter_hash.h) and distributions over it in integers and fixed point
   (workloads/generate/fixed.h), so that a seed gives the same bytes on every machine. */

struct random {
	uint64_t key;
	uint64_t counter;
};

/* Streams of one seed with different purposes are unrelated. */
struct random random_stream(uint64_t seed, uint64_t purpose);

uint64_t random_bits(struct random *random);

/* Uniform in [0, bound), bound in [1, 2^32]; each probability is off by less than bound / 2^64. */
uint32_t random_below(struct random *random, uint64_t bound);

/* Uniform in [low, high]. */
uint32_t random_range(struct random *random, uint32_t low, uint32_t high);

/* Fixed point, mean 1: the gaps of a Poisson process of rate 1. At most 64 ln 2. */
int64_t random_exponential(struct random *random);

/* Fixed point, normal with mean 0 and standard deviation 1. */
int64_t random_normal(struct random *random);

/* Fixed point, gamma with this shape and mean 1, so its variance is 1 / shape; shape in [0.01,
   1000].
 */
int64_t random_gamma(struct random *random, int64_t shape);

#endif
