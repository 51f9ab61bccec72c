#ifndef BENCH_KERNELS_CUDA_NCCL_BENCH_H
#define BENCH_KERNELS_CUDA_NCCL_BENCH_H

#include "engine/base/status.h"
#include "engine/ranks/ranks.h"

#include <stdint.h>
#include <stdio.h>

/* Times the exchange between ranks where NCCL moves the bytes (engine/runners/cuda_nccl.h): one
   process a GPU, forked or started by mpirun. Cases, launches and columns are those of
   exchange_bench(); a time is that of the rank on which a graph was shortest. Its rows:

       exchange_nccl      NCCL's all-gather of the partial sums, then the sum over the ranks, the
                          residual stream and the norm, as a step does it
       nccl_all_gather    the all-gather alone */

/* Starts the ranks, of which only rank 0 returns; no CUDA call may precede it. The others end with
   the benchmark. repeats must live until then. */
enum status nccl_bench_start(
	struct ranks **ranks, uint32_t count, uint32_t *repeats, struct error *error);

/* Writes the table, and ends the ranks. error: what this process has found wrong so far, which ends
   the benchmark. */
enum status nccl_bench(struct ranks *ranks, uint32_t repeats, FILE *table, struct error *error);

#endif
