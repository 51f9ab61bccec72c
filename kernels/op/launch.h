#ifndef KERNELS_OP_LAUNCH_H
#define KERNELS_OP_LAUNCH_H

#include <stdint.h>

/* What all launchers share. A launcher puts its kernels on a stream and returns at once; pointers
   are to device memory, bf16 is uint16_t, and 16 bytes divide every row of a bf16 tensor. The
   result is a cudaError_t as an int, 0 for success, so that headers need no CUDA. A launcher
   allocates nothing and can be captured into a graph. Sizes of 0 launch nothing. */

struct CUstream_st; /* cudaStream_t is a pointer to it */

/* Which kernels compute. Both give results of the same accuracy, each its own bits. */
enum kernel_path {
	KERNEL_PATH_GENERAL, /* sm_80 and later */
	KERNEL_PATH_SM90,    /* Hopper's bulk copies and matrix instructions */
};

#ifdef __cplusplus
extern "C" {
#endif

/* The best path that this build holds and the current device runs. */
enum kernel_path kernel_path_of_device(void);

#ifdef __cplusplus
}
#endif

#endif
