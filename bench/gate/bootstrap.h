#ifndef BENCH_GATE_BOOTSTRAP_H
#define BENCH_GATE_BOOTSTRAP_H

#include <stdint.h>

#include "bench/gate/ratio.h"
#include "bench/gate/request_latencies.h"

/* How far a figure of new runs is from that of base runs, by a bootstrap over runs and, for
   latencies, over requests.

   The base and the new runs served the same trace. It is cut into BOOTSTRAP_BLOCKS parts of
   neighbouring requests. BOOTSTRAP_DRAWS times as many runs of each side, and as many blocks of the
   trace, are drawn as there are, with replacement. A draw's ratio is that of the geometric means of
   the drawn runs' figures, each taken over the drawn blocks' requests. The interval goes from the
   0.5th to the 99.5th percentile of these ratios.

   Both sides get the same blocks: a request that is long is so for both. Assumed is that runs are
   independent, and that blocks are: requests that wait for one another are mostly of one block.
   Blocks are what is drawn, and not requests, since those of a busy time are slow together.

   With few runs such an interval is too narrow, for the runs that are there differ less than those
   that might be. That of the runs alone (bench/gate/ratio.h) has its width right, and knows nothing
   of requests. A gate takes the wider end of both. */

enum {
	BOOTSTRAP_BLOCKS = 32,
	BOOTSTRAP_BLOCKS_MIN = 8, /* of two requests or more; fewer requests are not drawn */
	BOOTSTRAP_DRAWS = 2000
};

struct bootstrap_side {
	const double *figures;			  /* (run_count) over whole runs */
	const struct request_latencies *requests; /* (run_count); NULL: not known */
	uint32_t run_count;
};

/* The interval of a latency's statistic; that of the figures alone where the requests are not
   known, are too few or differ in number, or the statistic is none of mean and percentiles.
   latency: LATENCY_COUNT for a figure that is no latency. The draws follow from the arguments. */
struct ratio bootstrap_ratio(const struct bootstrap_side *base, const struct bootstrap_side *value,
	enum latency_metric latency, enum latency_statistic statistic);

#endif
