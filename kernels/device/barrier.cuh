#ifndef KERNELS_DEVICE_BARRIER_CUH
#define KERNELS_DEVICE_BARRIER_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Barriers between the warps of a block (sm_90a):

       mbarrier        64 bits in shared memory; counts arrivals and bytes of asynchronous copies
       named barrier   one of the 16 barriers of the hardware, for some of the warps of a block

   Addresses are 32-bit shared memory addresses (kernels/device/shared.cuh). Device code that
   needs sm_90a is compiled only where QUIRE_SM90A is defined. */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define QUIRE_SM90A 1
#endif

#ifdef QUIRE_SM90A

/* True in one lane of a whole warp. The compiler then knows that one lane starts a bulk copy, and
   makes no loop over the active lanes. */
__device__ inline bool elect_lane()
{
	uint32_t is_elected;

	asm volatile("{\n.reg .pred elected;\n"
		     "elect.sync _|elected, 0xffffffff;\n"
		     "selp.u32 %0, 1, 0, elected;\n}\n"
		     : "=r"(is_elected));
	return is_elected != 0;
}

/* ---- mbarriers ---- */

/* Initialises an mbarrier. Each of its phases completes after this number of arrivals. */
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
		     : "memory");
}

/* Makes initialised mbarriers visible to asynchronous copies and to the other blocks of the
   cluster. */
__device__ inline void barrier_init_done()
{
	asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* Arrives `count` times. */
__device__ inline void barrier_arrive_times(uint32_t barrier, uint32_t count)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(count)
		     : "memory");
}

/* Arrives, and adds `bytes` to the bytes that must be copied before the phase completes. */
__device__ inline void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
}

/* Waits until the phase with this parity has completed. Parities alternate 0, 1, 0, ... The
   phase before the first counts as completed and has parity 1. */
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n.reg .pred over;\n"
		     "again:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
		     "@over bra done;\n"
		     "bra again;\n"
		     "done:\n}\n" ::"r"(barrier),
		     "r"(parity)
		     : "memory");
}

/* ---- ring of stages ---- */

/* A position in a ring of stages: the index of a stage, and the parity of the current phase of
   its mbarriers. */
struct ring_cursor {
	uint32_t stage, parity;
};

__device__ inline void advance(struct ring_cursor *cursor, uint32_t stage_count)
{
	cursor->stage++;
	if (cursor->stage == stage_count) {
		cursor->stage = 0;
		cursor->parity ^= 1;
	}
}

/* ---- named barriers ---- */

/* bar.sync: waits until `threads` threads, in whole warps, have arrived at named barrier
   `index`. index is 1 to 15, since __syncthreads() uses barrier 0. */
__device__ inline void named_barrier_wait(uint32_t index, uint32_t threads)
{
	asm volatile("bar.sync %0, %1;\n" ::"r"(index), "r"(threads) : "memory");
}

/* bar.arrive: arrives at the same barrier without waiting. */
__device__ inline void named_barrier_arrive(uint32_t index, uint32_t threads)
{
	asm volatile("bar.arrive %0, %1;\n" ::"r"(index), "r"(threads) : "memory");
}

#endif

#endif
