#ifndef WORKLOADS_GENERATE_ZIPF_H
#define WORKLOADS_GENERATE_ZIPF_H

#include <stdint.h>

#include "workloads/generate/random.h"

/* Popularity: item i of `count` is drawn with a weight of 1 / (i + 1)^skew. */

struct zipf {
	uint32_t count;
	uint64_t *sums; /* (count) cumulative weights; NULL: uniform */
};

enum { ZIPF_COUNT_MAX = 1 << 24 };

/* count in [1, ZIPF_COUNT_MAX], skew * 10^6 in [0, 10^7]; 0 is uniform. */
void zipf_init(struct zipf *zipf, uint32_t count, uint64_t skew_millionths);
void zipf_deinit(struct zipf *zipf);

uint32_t zipf_draw(const struct zipf *zipf, struct random *random);

#endif
