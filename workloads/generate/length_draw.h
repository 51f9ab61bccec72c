#ifndef WORKLOADS_GENERATE_LENGTH_DRAW_H
#define WORKLOADS_GENERATE_LENGTH_DRAW_H

#include <stdint.h>

#include "workloads/generate/random.h"

/* Distribution of a length in tokens: uniform in [low, high], or log-normal with a median and
   clamped to [low, high]. */

enum length_kind { LENGTH_UNIFORM, LENGTH_LOG_NORMAL };

struct length_draw {
	enum length_kind kind;
	uint32_t low, high;	   /* 1 <= low <= high <= 2^28 */
	uint32_t median;	   /* log-normal */
	uint64_t sigma_millionths; /* of the natural logarithm, in [0, 10^7] */
};

uint32_t length_draw(const struct length_draw *draw, struct random *random);

#endif
