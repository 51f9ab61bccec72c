#ifndef KERNELS_DEVICE_CLUSTER_CUH
#define KERNELS_DEVICE_CLUSTER_CUH

#include "kernels/device/barrier.cuh"

/* Blocks of a cluster and their distributed shared memory (sm_90a). */

#ifdef QUIRE_SM90A

__device__ inline uint32_t cluster_rank()
{
	uint32_t rank;

	asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
	return rank;
}

/* Writes before it are visible to the whole cluster behind cluster_wait(). */
__device__ inline void cluster_arrive()
{
	asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}

/* The same for blocks that wrote nothing but barriers, see barrier_init_done(). */
__device__ inline void cluster_arrive_relaxed()
{
	asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}

__device__ inline void cluster_wait()
{
	asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

/* The cluster address of what block `rank` has at this shared address. */
__device__ inline uint32_t address_in(uint32_t address, uint32_t rank)
{
	uint32_t there;

	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
		     : "=r"(there)
		     : "r"(address), "r"(rank));
	return there;
}

/* barrier_arrive() at that barrier of block `rank`. */
__device__ inline void barrier_arrive_in(uint32_t barrier, uint32_t rank)
{
	asm volatile(
		"mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(address_in(barrier, rank))
		: "memory");
}

/* Stores four float32 in another block; its barrier counts their 16 bytes. Both are cluster
   addresses in the same block. */
__device__ inline void store_remote(uint32_t to, uint32_t barrier, const float *value)
{
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
		     "[%0], {%1, %2, %3, %4}, [%5];\n" ::"r"(to),
		     "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3]), "r"(barrier)
		     : "memory");
}

#endif

#endif
