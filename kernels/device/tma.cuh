#ifndef KERNELS_DEVICE_TMA_CUH
#define KERNELS_DEVICE_TMA_CUH

#include "kernels/device/barrier.cuh"

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* The tensor memory accelerator (TMA, sm_90a): one thread starts an asynchronous copy from
   global to shared memory, either of a box of a tensor or of contiguous bytes. An mbarrier
   counts the bytes that have arrived. */

#ifdef QUIRE_SM90A

/* ---- fences ---- */

/* Orders this thread's earlier writes to shared memory before its later asynchronous copies and
   wgmma (async proxy). */
__device__ inline void fence_shared_writes()
{
	asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/* Makes the writes of earlier kernels to global memory visible to this thread's tensor copies
   (async proxy). */
__device__ inline void fence_global_writes()
{
	asm volatile("fence.proxy.async.global;\n" ::: "memory");
}

/* ---- copies ---- */

__device__ inline void prefetch_map(const CUtensorMap *map)
{
	asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

/* Copies the box at column x and row y of a 2D tensor. */
__device__ inline void copy_box(
	uint32_t shared, const CUtensorMap *map, uint32_t x, uint32_t y, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(shared),
		     "l"(map), "r"(x), "r"(y), "r"(barrier)
		     : "memory");
}

/* Copies the box that begins at index `last` of the last dimension of a 4D tensor, and at 0 of the
   others. */
__device__ inline void copy_box4(
	uint32_t shared, const CUtensorMap *map, uint32_t last, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %2, %2, %3}], [%4];\n" ::"r"(shared),
		     "l"(map), "r"(0), "r"(last), "r"(barrier)
		     : "memory");
}

/* Copies contiguous bytes. The size and both addresses are multiples of 16. */
__device__ inline void copy_bytes(
	uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1], %2, [%3];\n" ::"r"(shared),
		     "l"(global), "r"(bytes), "r"(barrier)
		     : "memory");
}

/* copy_bytes() with an L2 cache policy. */
__device__ inline void copy_bytes(
	uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier, uint64_t policy)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
		     ".L2::cache_hint [%0], [%1], %2, [%3], %4;\n" ::"r"(shared),
		     "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
		     : "memory");
}

/* The L2 policy for data that is read once a step: evict first. */
__device__ inline uint64_t evict_first_policy()
{
	uint64_t policy;

	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
	return policy;
}

#endif

/* cuTensorMapEncodeTiled(), or NULL. It is looked up at run time, because a simulation also runs on
   machines without a driver. */
static inline void *find_tensor_map_encoder()
{
	void *function = NULL;
	cudaDriverEntryPointQueryResult found;

	cudaError_t error = cudaGetDriverEntryPointByVersion(
		"cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
	return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : NULL;
}

/* Makes the TMA descriptor (tensor map) of a bf16 tensor, for boxes of one size.

       sizes     (rank) elements, the innermost dimension first
       strides   (rank - 1) bytes between neighbours of dimension 1 and up; dimension 0 is dense
       box       (rank) elements
       promotion what the L2 cache reads from memory for a part of a box that it lacks

   Returns a cudaError_t. */
static inline int tensor_map_make(CUtensorMap *map, const uint16_t *tensor, uint32_t rank,
	const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
	CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
{
	const cuuint32_t ones[] = {1, 1, 1, 1, 1};
	static void *const encode = find_tensor_map_encoder();

	if (encode == NULL) {
		return (int)cudaErrorSymbolNotFound;
	}
	CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(map,
		CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<uint16_t *>(tensor), sizes,
		strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
		CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
	return result == CUDA_SUCCESS ? 0 : (int)cudaErrorInvalidValue;
}

#endif
