#ifndef WORKLOADS_GENERATOR_H
#define WORKLOADS_GENERATOR_H

#include <stdint.h>

#include "workloads/trace.h"

/* Makes traces out of a seed. Every draw is an integer or fixed-point one (workloads/random.h), so
   the same options give the same rows on every machine. Rows come in order of arrival. */

struct length_range {
	uint32_t low, high; /* tokens, uniform in [low, high], both in [1, 2^28] */
};

struct generator_options {
	uint64_t request_count;
	uint64_t seed;
	struct length_range input; /* without the shared prefix */
	struct length_range output;
	uint64_t
		rate_millionths; /* requests a second * 10^6, a Poisson process; 0: all at time 0 */
	uint32_t prefix_tokens;	 /* a prefix in front of every prompt; 0: none */
	uint32_t prefix_count;	 /* different prefixes, drawn uniformly; >= 1 */
	uint32_t trace_block_size; /* tokens a hash id stands for; only whole blocks are shared */
};

struct generator;

struct generator *generator_open(const struct generator_options *options);
void generator_close(struct generator *generator);

/* False after the last row. Pointers of the row die with the next call. */
bool generator_next(struct generator *generator, struct trace_row *row);

#endif
