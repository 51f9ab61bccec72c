#ifndef KERNELS_DEVICE_SM90_H
#define KERNELS_DEVICE_SM90_H

/* Hardware limits for which the sm_90 kernels are sized: shared memory from the CUDA C++
   Programming Guide (compute capability 9.0), the others of the H200. */

enum {
	/* A multiprocessor has 228 KiB of shared memory. The driver reserves 1 KiB of it for
	   each block. */
	SM90_SHARED_BYTES = 227 * 1024,	    /* for one block a multiprocessor */
	SM90_SHARED_BYTES_TWO = 226 * 1024, /* for two blocks together */

	H200_PROCESSORS = 132,
	/* Clusters of 4 blocks, one block a multiprocessor, that are resident at a time. A
	   cluster must lie within one GPC, and the numbers of multiprocessors of the GPCs are
	   not multiples of 4, so this is less than 132 / 4. */
	H200_CLUSTERS_OF_4 = 30,
};

#endif
