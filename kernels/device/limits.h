#ifndef KERNELS_DEVICE_LIMITS_H
#define KERNELS_DEVICE_LIMITS_H

#include "kernels/op/launch.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The limits of a device that the other operations are compared with: how fast it reads and copies,
   and what a launch costs. And random data to measure on: equal numbers would save the device power
   and so make it faster than it is. */

/* Reads from (bytes, a multiple of 16). It writes at most a word at sink, which keeps the compiler
   from dropping the reads. */
int limit_read(uint32_t *sink, const void *from, size_t bytes, struct CUstream_st *stream);

/* bytes: a multiple of 16; to and from may not overlap. */
int limit_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream);

/* An empty kernel, launched early (PDL) where the device can. */
int limit_launch(struct CUstream_st *stream);

/* out: (count) bf16 or float32, uniform in [-1, 1), a function of key and index. */
int fill_bf16(uint16_t *out, size_t count, uint64_t key, struct CUstream_st *stream);
int fill_float(float *out, size_t count, uint64_t key, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
