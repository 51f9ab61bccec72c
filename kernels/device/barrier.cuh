#ifndef KERNELS_DEVICE_BARRIER_CUH
#define KERNELS_DEVICE_BARRIER_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Barriers between warps of a block (sm_90a): mbarriers in shared memory, which count arrivals and
   bytes of asynchronous copies, and the 16 named barriers of the hardware.

   Code that needs sm_90a is compiled where QUIRE_SM90A is defined. */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define QUIRE_SM90A 1
#endif

#ifdef QUIRE_SM90A

/* ---- mbarriers ---- */

/* A phase ends after so many arrivals. */
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
		     : "memory");
}

/* Makes initialised barriers visible to asynchronous copies and to the cluster. */
__device__ inline void barrier_init_done()
{
	asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* Arrives, and extends the phase until so many bytes have been copied, too. */
__device__ inline void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
}

/* Until the phase of this parity has ended. Phases have parity 0, 1, 0, ...; the phase before the
   first counts as ended, with parity 1. */
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

/* ---- a ring of stages ---- */

/* A cursor into a ring of stages: a stage and the parity of its barriers' phase. */
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

/* Waits until `threads` threads of whole warps have come to named barrier `index`, 1 to 15 (0 is
   that of __syncthreads()). */
__device__ inline void warps_wait(uint32_t index, uint32_t threads)
{
	asm volatile("bar.sync %0, %1;\n" ::"r"(index), "r"(threads) : "memory");
}

/* Arrives there without waiting. */
__device__ inline void warps_arrive(uint32_t index, uint32_t threads)
{
	asm volatile("bar.arrive %0, %1;\n" ::"r"(index), "r"(threads) : "memory");
}

#endif

#endif
