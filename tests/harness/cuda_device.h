#ifndef TESTS_HARNESS_CUDA_DEVICE_H
#define TESTS_HARNESS_CUDA_DEVICE_H

#include <stddef.h>

/* What every test on a GPU begins with. The files cuda_*.c are compiled twice: for Criterion, and
   for the plain programs of harness/plain/. */

/* The .init of a suite. Without a device its cases are skipped, and say so. */
void skip_without_device(void);

/* Ends the case unless code is 0. call: what is printed with the text of the error. */
void must(int code, const char *call);

/* Device memory whose bytes are 0xff, which is NaN in bf16 and float32. cudaFree() it. */
void *device_take(size_t bytes);

/* Device memory with these bytes. cudaFree() it. */
void *device_copy(const void *host, size_t bytes);

#endif
