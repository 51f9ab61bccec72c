#ifndef BENCH_RECORD_TIMELINE_H
#define BENCH_RECORD_TIMELINE_H

#include <stdint.h>

#include "reports/results/results.h"
#include "engine/base/integer.h"
#include "engine/base/table.h"
#include "engine/wait_cause.h"

/* The run over time, in bins of equal width. The length of a run is not known in advance, so bins
   start one microsecond wide and are merged in pairs whenever the run outgrows them. */

struct timeline_bin {
	u128 running_ns; /* integrals over the bin's time */
	u128 waiting_ns;
	u128 used_blocks_ns;
	u128 wait_ns[WAIT_CAUSE_COUNT]; /* of requests that were never admitted, by cause */
	uint64_t busy_ns;
	uint64_t hit_tokens, query_tokens;
	uint64_t output_tokens, prefill_tokens;
	uint64_t preemptions, steps;
};

struct timeline {
	uint64_t origin_ns; /* start of the first bin; 0 unless set before the first step */
	uint64_t bin_ns;
	uint32_t bin_count; /* bins up to the latest time seen */
	struct timeline_bin bins[TIMELINE_BINS_MAX];
};

/* A step's contribution. */
struct timeline_step {
	uint64_t start_ns, end_ns;
	uint64_t running, waiting, used_blocks;
	uint64_t hit_tokens, query_tokens;
	uint64_t output_tokens, prefill_tokens;
	uint64_t preemptions;
};

void timeline_init(struct timeline *timeline);

/* start_ns <= end_ns <= CLOCK_NS_MAX. */
void timeline_add(struct timeline *timeline, const struct timeline_step *step);

/* Adds `count` requests that waited for one cause over [start_ns, end_ns). */
void timeline_wait(struct timeline *timeline, enum wait_cause cause, uint64_t count,
	uint64_t start_ns, uint64_t end_ns);

void timeline_write(const struct timeline *timeline, struct table_writer *table);

/* Average number of waiting requests over [start_ns, end_ns), and of waiting and running ones, in
   thousandths. Bins that overlap the range partly count in full. */
uint64_t timeline_mean_waiting(const struct timeline *timeline, uint64_t start_ns, uint64_t end_ns);
uint64_t timeline_mean_present(const struct timeline *timeline, uint64_t start_ns, uint64_t end_ns);

#endif
