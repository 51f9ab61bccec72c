#ifndef TESTS_HARNESS_CUDA_ACCOUNT_H
#define TESTS_HARNESS_CUDA_ACCOUNT_H

#include <stdint.h>

/* What this process has taken of CUDA and not given back, whatever else uses the device. The linker
   hands the calls of the program to cuda_account.c (--wrap, in tests/CMakeLists.txt). */
struct cuda_account {
	int64_t device, pinned; /* pieces of memory */
	int64_t streams, events, graphs;
};

struct cuda_account cuda_account(void);

#endif
