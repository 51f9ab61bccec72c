#ifndef TESTS_HARNESS_CUDA_DEVICE_H
#define TESTS_HARNESS_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* What every test on a GPU begins with. The files cuda_*.c are compiled twice: for Criterion, and
   for the plain programs of harness/plain/. */

/* The .init of a suite. Without a device its cases are skipped, and say so. With one, the process
   shares it with those of other tests until it ends. */
void skip_without_device(void);

/* The same for cases that need two GPUs. It calls nothing of CUDA in this process, since ranks are
   forked from it. */
void skip_without_two_devices(void);

/* Whether CUDA_TESTS_FEW is set: for compute-sanitizer, which makes kernels a hundred times slower,
   cases run every kernel on few and small inputs. */
bool takes_few(void);

/* Runs a function in a process of its own, and ends the case if it fails there. It leaves results
   in memory of shared_take(). */
void run_apart(void (*run)(void *argument), void *argument);

/* Zeroed memory that this process shares with those it forks; shared_free() it. */
void *shared_take(size_t bytes);
void shared_free(void *memory, size_t bytes);

/* For a case that looks at the memory of the whole device, or takes it all: waits until no other
   test is using a device and lets none begin until the process ends, or until the next case. */
void have_device_alone(void);

/* Ends the case unless code is 0. call: what is printed with the text of the error. */
void must(int code, const char *call);

/* Device memory whose bytes are 0xff, which is NaN in bf16 and float32. cudaFree() it. */
void *device_take(size_t bytes);

/* Device memory with these bytes. cudaFree() it. */
void *device_copy(const void *host, size_t bytes);

#endif
