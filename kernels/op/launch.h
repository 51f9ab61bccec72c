#ifndef KERNELS_OP_LAUNCH_H
#define KERNELS_OP_LAUNCH_H

#include <stdint.h>

/* The conventions of all launchers. A launcher enqueues its kernels on a stream and returns at
   once. It allocates nothing and can be captured into a CUDA graph.

       pointers   device memory; bf16 is uint16_t; a row of a bf16 tensor is a multiple of 16 bytes
       result     a cudaError_t as an int, 0 for success, so that headers need no CUDA
       sizes      a size of 0 launches nothing */

struct CUstream_st; /* cudaStream_t is a pointer to it */

/* Which kernels compute. Both have the same accuracy, but not the same bits. */
enum kernel_path {
	KERNEL_PATH_GENERAL, /* sm_80 and later */
	KERNEL_PATH_SM90,    /* Hopper: TMA, wgmma and clusters */
};

#ifdef __cplusplus
extern "C" {
#endif

/* The best path that this build contains and the current device supports. */
enum kernel_path kernel_path_of_device(void);

#ifdef __cplusplus
}
#endif

#endif
