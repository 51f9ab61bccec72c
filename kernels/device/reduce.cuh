#ifndef KERNELS_DEVICE_REDUCE_CUH
#define KERNELS_DEVICE_REDUCE_CUH

#include "kernels/device/vector.cuh"

/* Reductions over a warp or a thread block. The order of the additions is fixed, so a sum has
   the same bits in every run. */

/* Sum over the 32 lanes by warp shuffles; every lane gets it. */
__device__ inline float warp_sum(float value)
{
#pragma unroll
	for (int distance = WARP / 2; distance > 0; distance /= 2) {
		value += __shfl_xor_sync(0xffffffffu, value, distance);
	}
	return value;
}

/* Sum over a block of `warps` warps; every thread gets it. shared: (warps) float32 in shared
   memory, not used for anything else until the next block barrier. */
__device__ inline float block_sum(float value, float *shared, int warps)
{
	value = warp_sum(value);
	if (threadIdx.x % WARP == 0) {
		shared[threadIdx.x / WARP] = value;
	}
	__syncthreads();
	float sum = 0;
	for (int i = 0; i < warps; i++) {
		sum += shared[i];
	}
	return sum;
}

#endif
