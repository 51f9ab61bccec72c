#ifndef BENCH_RECORD_PERFETTO_H
#define BENCH_RECORD_PERFETTO_H

#include <stdint.h>
#include <stdio.h>

#include "bench/record/metrics.h"

/* A run as a file for Perfetto (ui.perfetto.dev) and chrome://tracing: JSON in the Trace Event
   Format. It is written during the run, so memory does not grow with it.

       process "engine"     steps, named by what they compute, with their counts; running, waiting
                            and KV blocks as counters
       process "requests"   each request from arrival to end, and inside it when it was queued, in
                            prefill, decoding, preempted
       process "GPU"        kernels by operation, when their times are collected

   Times count from the first arrival, in microseconds with three decimals. A step takes about 600
   bytes, a request 900, a kernel 180. Kernels beyond PERFETTO_KERNELS_MAX are counted but not
   written. */

enum { PERFETTO_KERNELS_MAX = 4000000 };

struct perfetto;

/* The part of a run that is written, in ns from the first arrival. What is going on at its borders
   begins or ends there; of the steps it has those that start in it. */
struct perfetto_window {
	uint64_t from_ns, to_ns; /* to_ns is not in it; 0: to the end of the run */
};

/* slot_count: engine_slot_count(). out: borrowed; a failed write is reported when it is closed. */
struct perfetto *perfetto_open(
	FILE *out, uint32_t slot_count, const struct perfetto_window *window);

/* To be called with metrics_arrive(), metrics_reject() and metrics_step(). */
void perfetto_arrive(struct perfetto *file, uint32_t slot, const struct metrics_arrival *arrival);
void perfetto_reject(struct perfetto *file, enum fit fit, const struct metrics_arrival *arrival);
void perfetto_step(struct perfetto *file, const struct step_decisions *decisions, uint64_t start_ns,
	uint64_t end_ns, uint64_t waiting);

void perfetto_kernel(struct perfetto *file, const char *operation, const char *kernel,
	uint64_t start_ns, uint64_t length_ns, uint64_t step, uint32_t layer);

/* Ends the requests that are still in the engine, and completes the file. */
void perfetto_end(struct perfetto *file, uint64_t end_ns);

/* Accepts NULL. */
void perfetto_close(struct perfetto *file);

#endif
