#ifndef KERNELS_DEVICE_SM90_H
#define KERNELS_DEVICE_SM90_H

/* Facts of the device that the sm_90 kernels are sized for, each in one place. */

enum {
	/* Shared memory of a multiprocessor is 228 KiB, of which the driver takes 1 KiB a block. */
	SM90_SHARED_BYTES = 227 * 1024,	    /* for one block that has the multiprocessor alone */
	SM90_SHARED_BYTES_TWO = 226 * 1024, /* for two blocks that share it */

	H200_PROCESSORS = 132,
	/* Clusters of 4 blocks, one block a multiprocessor, that run at a time: a cluster stays
	   within one processing cluster of the chip, and these do not hold multiples of 4. */
	H200_CLUSTERS_OF_4 = 30,
};

#endif
