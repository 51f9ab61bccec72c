#ifndef BENCH_RECORD_KERNEL_TIMES_H
#define BENCH_RECORD_KERNEL_TIMES_H

#include <stdint.h>

#include "engine/step_record.h"
#include "engine/base/table.h"
#include "engine/shape/model_config.h"
#include "engine/profiling/kernel_source.h"

/* Adds up the GPU time of a run by what the GPU was told to do:

       kernels.tsv           a row for each kind of step, range and layer
       kernel_phases.tsv     a row for each kind of step and operation
       kernel_timeline.tsv   each operation over the time of the run

   Records arrive later than the steps they belong to. The last 16,384 steps are remembered for
   them; records of older steps, or of more than 4,096 ranges, are counted as lost. The
   source has a clock of its own, which is read at the end of each step. That dates a record on the
   run's clock to some microseconds; its duration is exact. */

struct perfetto;
struct kernel_times;

/* source: borrowed; only kernel_times reads it until kernel_times_close(). timeline: borrowed;
   NULL, or where every record is shown too. */
struct kernel_times *kernel_times_open(const struct kernel_source *source,
	const struct model_config *model, struct perfetto *timeline);
void kernel_times_close(struct kernel_times *times); /* accepts NULL */

/* After each step, as soon as it is over: when it ran on the run's clock. */
void kernel_times_step(struct kernel_times *times, uint64_t step, const struct step_counts *counts,
	uint64_t start_ns, uint64_t end_ns);

/* After the last step: waits for the records that are still to come. */
void kernel_times_finish(struct kernel_times *times);

/* After kernel_times_finish(). */
void kernel_times_write(const struct kernel_times *times, struct table_writer *table);
void kernel_times_write_phases(const struct kernel_times *times, struct table_writer *table);
void kernel_times_write_timeline(const struct kernel_times *times, struct table_writer *table);

struct kernel_totals {
	uint64_t records; /* that were added up */
	uint64_t lost;
	uint64_t step_ns; /* the steps' own time */
	uint64_t busy_ns; /* of it with at least one kernel, copy or fill under way */
	uint64_t sum_ns;  /* of all of them: more than busy_ns where they overlap */
};

struct kernel_totals kernel_times_totals(const struct kernel_times *times);

/* Prints the operations that took most. */
void kernel_times_print(const struct kernel_times *times);

#endif
