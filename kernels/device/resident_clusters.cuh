#ifndef KERNELS_DEVICE_RESIDENT_CLUSTERS_CUH
#define KERNELS_DEVICE_RESIDENT_CLUSTERS_CUH

#include <cuda_runtime.h>
#include <atomic>
#include <stdint.h>

/* How many clusters of `blocks` blocks of a kernel the current device can hold at once; 0: none, or
   it has no clusters of that size. The kernel must already be allowed its shared memory
   (allow_shared()). The driver is asked once for each kernel and device, so a caller always gives
   the same sizes. */
template <auto KERNEL>
static uint32_t resident_clusters(uint32_t blocks, uint32_t threads, uint32_t shared)
{
	enum { DEVICES = 16, PORTABLE_BLOCKS = 8 };
	static std::atomic<uint32_t> known[DEVICES]; /* one more than the number; 0: not asked */
	cudaLaunchAttribute cluster = {};
	cudaLaunchConfig_t config = {};
	int device = 0, count = 0;

	if (cudaGetDevice(&device) != cudaSuccess) {
		return 0;
	}
	if (device < DEVICES && known[device] > 0) {
		return known[device] - 1;
	}
	cluster.id = cudaLaunchAttributeClusterDimension;
	cluster.val.clusterDim.x = blocks;
	cluster.val.clusterDim.y = 1;
	cluster.val.clusterDim.z = 1;
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(threads);
	config.dynamicSmemBytes = shared;
	config.attrs = &cluster;
	config.numAttrs = 1;
	if ((blocks > PORTABLE_BLOCKS &&
		    cudaFuncSetAttribute(KERNEL, cudaFuncAttributeNonPortableClusterSizeAllowed,
			    1) != cudaSuccess) ||
		cudaOccupancyMaxActiveClusters(&count, KERNEL, &config) != cudaSuccess ||
		count < 0) {
		(void)cudaGetLastError(); /* "no" is an answer, not a failure of the stream */
		count = 0;
	}
	if (device < DEVICES) {
		known[device] = (uint32_t)count + 1;
	}
	return (uint32_t)count;
}

#endif
