#ifndef BENCH_SWEEP_SWEEP_PROGRESS_H
#define BENCH_SWEEP_SWEEP_PROGRESS_H

#include "bench/options/progress.h"

/* How far a sweep is, on stderr, as bench/options/progress.h shows a run. */

struct sweep_progress {
	struct progress progress;
	uint32_t total; /* runs of the sweep */
	uint32_t to_do; /* of them: not whole before */
	uint32_t done, failed;
};

void sweep_progress_begin(
	struct sweep_progress *progress, bool is_shown, uint32_t total, uint32_t to_do);
void sweep_progress_add(struct sweep_progress *progress, bool has_failed);
void sweep_progress_end(struct sweep_progress *progress);

#endif
