#ifndef BENCH_RECORD_LEVELS_H
#define BENCH_RECORD_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/histogram.h"
#include "bench/record/window.h"

/* The levels of a ramp: equal parts of its time, each with a rate of its own.

   A request belongs to the level in which it arrives, behind the last one to that. Only measured
   requests count. What the engine does belongs to the level in whose time it does it, for
   whomever: a step counts in the level in which it ends, and its time is divided at the edge. */

struct level {
	uint64_t submitted, finished, attained; /* measured requests */
	struct histogram ttft, tpot;
	struct run_sums work; /* of all replicas, in its time */
};

/* What is told of a level at the end of a run. */
struct level_figures {
	uint64_t rate_millionths; /* requests a second, times 10^6 */
	uint64_t submitted, finished, attained;
	bool has_ttft, has_tpot;
	uint64_t ttft_p50_ns, ttft_p99_ns, tpot_p99_ns;
	double waiting; /* requests that waited, mean */
	bool has_utilisation;
	double utilisation;
};

/* Of all replicas. count 0: the run is no ramp. */
struct levels {
	uint32_t count;
	uint64_t width_ns;
	struct level *levels;	       /* (count) */
	struct level_figures *figures; /* (count), filled by levels_figures() */
};

/* What a replica has added to the levels. */
struct level_progress {
	uint32_t index;	       /* of the level in which the latest step ended */
	uint64_t end_ns;       /* of it; UINT64_MAX: no level is left */
	struct run_sums start; /* at its start */
};

void levels_init(struct levels *levels, uint32_t count, uint64_t width_ns);
void levels_deinit(struct levels *levels);

/* To be called before the first step of a replica. */
void level_progress_init(struct level_progress *progress, const struct levels *levels);

/* The level of a request; NULL: there are none. */
struct level *levels_find(struct levels *levels, uint64_t arrival_ns);

/* To be called before a step is added to the sums that ends behind progress->end_ns. */
void levels_pass(struct levels *levels, struct level_progress *progress,
	const struct run_sums *sums, const struct timeline_step *step);

/* The end of the run: adds what was done since the latest edge. */
void levels_end(
	struct levels *levels, struct level_progress *progress, const struct run_sums *sums);

/* Fills in all figures but rates and utilisation. */
void levels_figures(const struct levels *levels);

#endif
