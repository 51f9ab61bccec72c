#ifndef BENCH_KERNELS_CUDA_EXCHANGE_BENCH_H
#define BENCH_KERNELS_CUDA_EXCHANGE_BENCH_H

#include "engine/base/status.h"

#include <stdint.h>
#include <stdio.h>

/* Times the exchange between ranks (kernels/exchange/exchange.h), one rank on each of the first
   `ranks` GPUs of this machine, in one process. Every GPU must have access to the memory of the
   others.

   A case is launched many times in one CUDA graph on each GPU. The time of a launch is the duration
   of a graph divided by its launches, on the GPU on which it is shortest: that one started last, so
   it did not wait for the others to start. It is the median over several graphs. Tensors are in the
   cache where they fit, as they are in a step, where other kernels have just written them.

   The table has the columns of bench/kernels/cuda_kernel_table.h. Its rows:

       exchange_push, exchange_pull   exchange_add_rms_norm() in each of the two ways
       add_rms_norm                   the norm of one rank without an exchange
       limit_peer                     reads of a peer's memory */
enum status exchange_bench(uint32_t ranks, uint32_t repeats, FILE *table, struct error *error);

#endif
