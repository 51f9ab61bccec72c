#ifndef KERNELS_DEVICE_CLUSTER_CUH
#define KERNELS_DEVICE_CLUSTER_CUH

#include "kernels/device/barrier.cuh"

/* Thread block clusters and distributed shared memory (sm_90a). */

#ifdef QUIRE_SM90A

__device__ inline uint32_t cluster_rank()
{
	uint32_t rank;

	asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
	return rank;
}

/* Arrives at the cluster barrier with release semantics: earlier writes of this thread are
   visible to the whole cluster after its cluster_wait(). */
__device__ inline void cluster_arrive()
{
	asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}

/* Arrives without release semantics. Enough where the only writes to publish are initialised
   mbarriers, which barrier_init_done() has published. */
__device__ inline void cluster_arrive_relaxed()
{
	asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}

__device__ inline void cluster_wait()
{
	asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

/* The shared::cluster address, in block `rank`, of the variable that this block has at
   `address`. */
__device__ inline uint32_t cluster_address(uint32_t address, uint32_t rank)
{
	uint32_t remote;

	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
		     : "=r"(remote)
		     : "r"(address), "r"(rank));
	return remote;
}

/* barrier_arrive() at the same mbarrier of block `rank`. */
__device__ inline void barrier_arrive_remote(uint32_t barrier, uint32_t rank)
{
	asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(
		cluster_address(barrier, rank))
		     : "memory");
}

/* Stores four float32 into the shared memory of another block, asynchronously. The mbarrier
   counts the 16 bytes. `to` and `barrier` are cluster addresses in the same block. */
__device__ inline void store_remote(uint32_t to, uint32_t barrier, const float *value)
{
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
		     "[%0], {%1, %2, %3, %4}, [%5];\n" ::"r"(to),
		     "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3]), "r"(barrier)
		     : "memory");
}

#endif

#endif
