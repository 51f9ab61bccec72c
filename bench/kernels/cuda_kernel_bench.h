#ifndef BENCH_KERNELS_CUDA_KERNEL_BENCH_H
#define BENCH_KERNELS_CUDA_KERNEL_BENCH_H

#include "engine/base/status.h"
#include "kernels/op/launch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Times the cases of kernels/op_table.h that are sizes of models on the current GPU, and what the
   GPU can do at best. Only in builds with CUDA.

   A case is launched many times in one CUDA graph, each time on the next of several sets of
   tensors. Before each graph the L2 cache is filled with other data. The time of a launch is the
   median over several graphs, divided by the launches. With PDL a kernel's prologue overlaps the
   kernel before it, here as in a step.

   Columns of the table (tab-separated, one header line):

       kernel       the operation, or limit_read, limit_copy, limit_product, limit_launch
       case         its sizes
       rows         tokens or sequences
       bytes        that it has to move at least (engine/shape/work.h)
       flops        that it has to compute; 0: memory bounds the operation
       launches     in a graph
       us           a launch, median; us_min, us_max: the fastest and slowest graph
       gb_per_s     bytes over time; tflop_per_s: flops over time
       floor_us     the longest of bytes at the rate of limit_read, flops at that of limit_product,
		    and limit_launch
       bound        which one: memory, arithmetic or launch
       share        floor_us over us, in percent */

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
