#ifndef BENCH_KERNELS_CUDA_KERNEL_BENCH_H
#define BENCH_KERNELS_CUDA_KERNEL_BENCH_H

#include "engine/base/status.h"
#include "kernels/op/launch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Times the cases of model size of kernels/op_table.h on the current GPU, and the limits of the GPU
   (kernels/device/limits.h). Only in builds with CUDA.

   A case is launched many times in one CUDA graph, each launch on the next of several sets of
   tensors. Before each graph the L2 cache is overwritten with other data. The time of a launch is
   the duration of a graph divided by its launches, the median over several graphs. With PDL the
   prologue of a kernel overlaps the kernel before it, as in a step.

   bench/kernels/cuda_kernel_table.h has the columns of the table. */

enum { KERNEL_BENCH_NAMES_MAX = 16 };

struct kernel_bench_options {
	enum kernel_path path;
	const char *names[KERNEL_BENCH_NAMES_MAX]; /* substrings of operations' names */
	uint32_t name_count;			   /* 0: all */
	uint32_t repeats;
	bool is_warm; /* one set of tensors, which stays in the cache where it fits */
};

/* Writes the table; progress goes to stderr if shows_progress. */
enum status kernel_bench(const struct kernel_bench_options *options, bool shows_progress,
	FILE *table, struct error *error);

#endif
