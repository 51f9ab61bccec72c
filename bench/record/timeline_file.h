#ifndef BENCH_RECORD_TIMELINE_FILE_H
#define BENCH_RECORD_TIMELINE_FILE_H

#include <stdint.h>

#include "bench/record/metrics.h"
#include "engine/base/status.h"

/* A run as a file that Perfetto (ui.perfetto.dev) and chrome://tracing show: JSON in the Trace
   Event Format, written as the run goes on, so that it needs no memory for what it has told.

       process "engine"     steps, named for what they compute, with their counts; running, waiting
			    and KV blocks as counters
       process "requests"   each request from arrival to end, and in it the times in which it was
			    queued, in prefill, decoding, preempted
       process "GPU"        kernels by operation, when their times are collected

   Times count from the first arrival, in microseconds with three places. A step is some 600 bytes,
   a request some 900, a kernel some 180; kernels beyond TIMELINE_KERNELS_MAX are counted but not
   shown. */

enum { TIMELINE_KERNELS_MAX = 4000000 };

struct timeline_file;

/* slot_count: of the engine's pool. path is borrowed until the end. */
enum status timeline_file_open(
	struct timeline_file **out, const char *path, uint32_t slot_count, struct error *error);

/* As metrics_arrive(), metrics_reject() and metrics_step_decided(). */
void timeline_file_arrive(
	struct timeline_file *file, uint32_t slot, const struct metrics_arrival *arrival);
void timeline_file_reject(
	struct timeline_file *file, enum fit fit, const struct metrics_arrival *arrival);
void timeline_file_step(struct timeline_file *file, const struct step_decisions *decisions,
	uint64_t start_ns, uint64_t end_ns, uint64_t waiting);

void timeline_file_kernel(struct timeline_file *file, const char *operation, const char *kernel,
	uint64_t start_ns, uint64_t length_ns, uint64_t step, uint32_t layer);

/* Ends requests that are under way, and the file. */
enum status timeline_file_commit(struct timeline_file *file, uint64_t end_ns, struct error *error);

/* Removes what was written, if it was not committed. Accepts NULL. */
void timeline_file_close(struct timeline_file *file);

#endif
