#ifndef BENCH_KERNELS_CUDA_KERNEL_TABLE_H
#define BENCH_KERNELS_CUDA_KERNEL_TABLE_H

#include <stdint.h>
#include <stdio.h>

/* What the tables of `quire kernels` have in common. Their columns, tab-separated:

       kernel       the operation, or limit_read, limit_copy, limit_product, limit_launch
       case         its sizes
       rows         tokens or sequences
       bytes        the least that it moves (engine/shape/work.h)
       flops        the least that it computes; 0: bandwidth-bound, not counted
       launches     in a graph
       us           a launch, median; us_min, us_max: the fastest and the slowest graph
       gb_per_s     bytes over time; tflop_per_s: flops over time
       floor_us     the largest of bytes / rate of limit_read, flops / rate of limit_product, and
                    limit_launch
       bound        which of these it is: memory, arithmetic or launch
       share        floor_us / us, in percent

   An exchange between GPUs has no floor, bound or share. */

enum { KERNEL_REPEATS_MAX = 101 };

/* A line that names GPU 0 and the date, since figures of two GPUs, or of two drivers, do not
   compare; then the header. */
void kernel_table_begin(FILE *table);

/* Sorts a case's times (repeats), the shortest first. */
void kernel_table_sort(double *times_us, uint32_t repeats);

/* ---- exchanges ---- */

struct exchange_case {
	uint32_t rows, width;
};

/* Cases by width, then by rows; NULL past the end. */
const struct exchange_case *exchange_case_at(uint32_t index);

/* Launches of a case in a graph. */
uint32_t exchange_case_launches(const struct exchange_case *c);

/* times_us: (repeats) of a launch, which are sorted. bytes: that a launch moves. */
void kernel_table_add_exchange(FILE *table, const char *kernel, const struct exchange_case *c,
	uint32_t ranks, uint64_t bytes, double *times_us, uint32_t repeats);

#endif
