#ifndef BENCH_RECORD_KERNEL_TIMES_H
#define BENCH_RECORD_KERNEL_TIMES_H

#include <stdint.h>

#include "bench/record/table_writer.h"
#include "engine/batch.h"
#include "engine/shape/model_config.h"
#include "engine/profiling/kernel_source.h"

/* Adds up the GPU time of a run by what the GPU was told to do: for each kind of step, range and
   layer one row of kernels.tsv, for each kind of step and operation one of kernel_phases.tsv, and
   each operation over the run's time in kernel_timeline.tsv.

   Records arrive later than the steps they belong to. The last 16,384 steps are remembered for
   them; records of older steps, or of more than 4,096 ranges, are counted as lost. A record is
   dated by the end of its step, at which the source's clock is read, so its place on the run's
   clock is right to some microseconds; its length is the source's own. */

enum kernel_phase { PHASE_DECODE, PHASE_PREFILL, PHASE_MIXED, PHASE_COUNT };

const char *kernel_phase_name(enum kernel_phase phase);

/* Of a step: decode rows only, prefill rows only, or both. */
enum kernel_phase kernel_phase_of(const struct step_counts *counts);

struct perfetto;
struct kernel_times;

/* source: borrowed, taken over from here until it is closed by the caller. timeline: NULL, or where
   every record is shown too; borrowed. */
struct kernel_times *kernel_times_open(const struct kernel_source *source,
	const struct model_config *model, struct perfetto *timeline);
void kernel_times_close(struct kernel_times *times); /* accepts NULL */

/* After each step, as soon as it is over: when it ran on the run's clock. */
void kernel_times_step(struct kernel_times *times, uint64_t step, const struct step_counts *counts,
	uint64_t start_ns, uint64_t end_ns);

/* After the last step: takes what is still under way. */
void kernel_times_finish(struct kernel_times *times);

/* After the end. */
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

enum { KERNEL_NAME_BYTES = 64 };

/* A kernel's name without the parameters that the compiler has mangled into it; short:
   (KERNEL_NAME_BYTES). */
void kernel_name_short(const char *name, char *short_name);

#endif
