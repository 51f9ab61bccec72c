#ifndef KERNELS_DEVICE_LIMITS_H
#define KERNELS_DEVICE_LIMITS_H

#include "kernels/op/launch.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What measurements of the other operations are held against: how fast a device reads and copies
   at all, and what a launch costs. And the data that they are made on: equal numbers would save a
   device power and make it faster than it is. */

/* Reads from (bytes, a multiple of 16) and keeps nothing but a word at sink that nobody can
   foresee. */
int limit_read(uint32_t *sink, const void *from, size_t bytes, struct CUstream_st *stream);

/* bytes: a multiple of 16; to and from apart. */
int limit_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream);

/* A kernel that does nothing, launched early where the device can. */
int limit_launch(struct CUstream_st *stream);

/* Uniform in [-1, 1), a function of key and index. */
int fill_bf16(uint16_t *out, size_t count, uint64_t key, struct CUstream_st *stream);
int fill_float(float *out, size_t count, uint64_t key, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
