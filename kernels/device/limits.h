#ifndef KERNELS_DEVICE_LIMITS_H
#define KERNELS_DEVICE_LIMITS_H

#include "kernels/op/launch.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Microbenchmarks of the device, with which the kernel benchmark compares the operations: read
   bandwidth, copy bandwidth and the cost of a launch. And random data to measure on. Constant
   data would draw less power, so the GPU would run at a higher clock than with real data. */

/* Reads `bytes` bytes, a multiple of 16. sink: a uint32_t on the device. It is hardly ever
   written; it keeps the compiler from removing the reads. */
int limit_read(uint32_t *sink, const void *from, size_t bytes, struct CUstream_st *stream);

/* Copies `bytes` bytes, a multiple of 16. The buffers must not overlap. */
int limit_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream);

/* An empty kernel, launched with PDL where the device has it. */
int limit_launch(struct CUstream_st *stream);

/* out: (count) bf16 or float32, uniform in [-1, 1). Element i is a function of key and i alone. */
int fill_bf16(uint16_t *out, size_t count, uint64_t key, struct CUstream_st *stream);
int fill_float(float *out, size_t count, uint64_t key, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
