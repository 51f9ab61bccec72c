#ifndef BENCH_RECORD_KERNEL_TIMES_H
#define BENCH_RECORD_KERNEL_TIMES_H

#include <stdint.h>

#include "engine/step_record.h"
#include "engine/base/table.h"
#include "engine/shape/model_config.h"
#include "engine/profiling/kernel_source.h"

/* Adds up the GPU time of a run by operation:

       kernels.tsv           a row for each kind of step, range and layer
       kernel_phases.tsv     a row for each kind of step and operation
       kernel_timeline.tsv   each operation over the time of the run

   Records arrive later than their steps, so the latest 16,384 steps are kept. Records of older
   steps, and of ranges beyond 4,096, are counted as lost. The source has its own clock, which is
   read at the end of each step. So the start of a record on the run's clock is accurate to some
   microseconds; its duration is exact. */

struct perfetto;
struct kernel_times;

/* source: borrowed; nothing else may read it until kernel_times_close(). timeline: borrowed;
   receives every record too, or NULL. */
struct kernel_times *kernel_times_open(const struct kernel_source *source,
	const struct model_config *model, uint32_t ranks, struct perfetto *timeline);
void kernel_times_close(struct kernel_times *times); /* accepts NULL */

/* To be called as soon as a step is over; its times are on the run's clock. */
void kernel_times_step(struct kernel_times *times, uint64_t step, const struct step_counts *counts,
	uint64_t start_ns, uint64_t end_ns);

/* To be called after the last step: waits for the remaining records. */
void kernel_times_finish(struct kernel_times *times);

/* To be called after kernel_times_finish(). */
void kernel_times_write(const struct kernel_times *times, struct table_writer *table);
void kernel_times_write_phases(const struct kernel_times *times, struct table_writer *table);
void kernel_times_write_timeline(const struct kernel_times *times, struct table_writer *table);

struct kernel_totals {
	uint64_t records; /* records added up */
	uint64_t lost;
	uint64_t step_ns; /* sum of the steps' times */
	uint64_t busy_ns; /* part of step_ns in which a kernel, copy or fill was running */
	uint64_t sum_ns;  /* sum of all durations: more than busy_ns where they overlap */
};

struct kernel_totals kernel_times_totals(const struct kernel_times *times);

/* Prints the operations that took the most time. */
void kernel_times_print(const struct kernel_times *times);

#endif
