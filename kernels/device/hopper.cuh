#ifndef KERNELS_DEVICE_HOPPER_CUH
#define KERNELS_DEVICE_HOPPER_CUH

#include "kernels/device/warpgroup.cuh"

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* Instructions that sm_90a has and nothing before it: barriers in shared memory that count bytes,
   clusters of blocks, copies of tensor boxes, products with one factor in registers, and registers
   that move between groups. Device code that uses them is compiled where QUIRE_SM90A is defined. */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define QUIRE_SM90A 1
#endif

#ifdef QUIRE_SM90A

/* ---- barriers in shared memory ---- */

__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
		     : "memory");
}

/* Makes barriers that were set up known to copies. */
__device__ inline void barrier_init_done()
{
	asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* Arrives, and has the phase last until so many bytes have been copied, too. */
__device__ inline void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
}

/* Until the phase of this parity is over; the one before the first counts as over, of parity 1. */
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

/* Of the threads of some warps: waits for `threads` of them at barrier `index`, 1 to 15. */
__device__ inline void warps_wait(uint32_t index, uint32_t threads)
{
	asm volatile("bar.sync %0, %1;\n" ::"r"(index), "r"(threads) : "memory");
}

/* Counts as one that waits there, and goes on. */
__device__ inline void warps_arrive(uint32_t index, uint32_t threads)
{
	asm volatile("bar.arrive %0, %1;\n" ::"r"(index), "r"(threads) : "memory");
}

/* ---- floats in shared memory ---- */

__device__ inline void store8_shared(uint32_t shared, const bf16x8 &value)
{
	const uint4 *bits = reinterpret_cast<const uint4 *>(&value);

	asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(bits->x),
		     "r"(bits->y), "r"(bits->z), "r"(bits->w)
		     : "memory");
}

__device__ inline void store_shared(uint32_t shared, float value)
{
	asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(shared), "f"(value) : "memory");
}

__device__ inline float2 load_shared(uint32_t shared)
{
	float2 pair;

	asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
		     : "=f"(pair.x), "=f"(pair.y)
		     : "r"(shared)
		     : "memory");
	return pair;
}

/* ---- blocks of a cluster ---- */

__device__ inline uint32_t cluster_rank()
{
	uint32_t rank;

	asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
	return rank;
}

/* What was written before it is seen by all of the cluster behind cluster_wait(). */
__device__ inline void cluster_arrive()
{
	asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}

/* The same for those who wrote nothing but barriers, see barrier_init_done(). */
__device__ inline void cluster_arrive_relaxed()
{
	asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}

__device__ inline void cluster_wait()
{
	asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

/* Where the block of that rank has what is at `address` here. */
__device__ inline uint32_t address_in(uint32_t address, uint32_t rank)
{
	uint32_t there;

	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
		     : "=r"(there)
		     : "r"(address), "r"(rank));
	return there;
}

/* Four floats into the memory of the block that has this barrier, which counts their 16 bytes. */
__device__ inline void store_remote(uint32_t to, uint32_t barrier, const float *value)
{
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
		     "[%0], {%1, %2, %3, %4}, [%5];\n" ::"r"(to),
		     "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3]), "r"(barrier)
		     : "memory");
}

/* ---- copies ---- */

/* What this thread wrote to shared memory is seen by copies and group products that follow. */
__device__ inline void fence_shared_writes()
{
	asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/* What earlier kernels wrote to global memory is seen by this thread's tensor copies. */
__device__ inline void fence_global_writes()
{
	asm volatile("fence.proxy.async.global;\n" ::: "memory");
}

__device__ inline void prefetch_map(const CUtensorMap *map)
{
	asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

/* A box at (x, y) of the tensor; its bytes count at the barrier. */
__device__ inline void copy_box(
	uint32_t shared, const CUtensorMap *map, uint32_t x, uint32_t y, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(shared),
		     "l"(map), "r"(x), "r"(y), "r"(barrier)
		     : "memory");
}

/* Bytes from global memory, a multiple of 16 as both addresses. */
__device__ inline void copy_bytes(
	uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1], %2, [%3];\n" ::"r"(shared),
		     "l"(global), "r"(bytes), "r"(barrier)
		     : "memory");
}

/* ---- registers ---- */

template <int COUNT> __device__ inline void registers_release()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

template <int COUNT> __device__ inline void registers_take()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

/* ---- products of a warpgroup, beside those of kernels/device/warpgroup.cuh ---- */

/* What is in this register is not computed again. */
__device__ inline void hold(uint32_t &value)
{
	asm volatile("" : "+r"(value));
}

/* No use of these registers moves across. */
template <int COUNT> __device__ inline void hold(float (&values)[COUNT])
{
#pragma unroll
	for (int i = 0; i < COUNT; i++) {
		asm volatile("" : "+f"(values[i])::"memory");
	}
}

/* Tiles as tile_descriptor() has them, but a row is one of those that are summed over. The next 64
   columns are in another tile, `across` bytes further on. */
__device__ inline uint64_t turned_descriptor(uint32_t address, uint32_t across)
{
	return (tile_descriptor(address) & ~((uint64_t)0x3fff << 16)) | (uint64_t)(across >> 4)
										<< 16;
}

/* sum (64 x N, float32) = a (64 x 16, bf16, in registers) * b (16 x N, bf16), plus sum when `adds`;
   sums lie as in warpgroup_product. Lane l holds of a what multiply_add() wants of it. */
/* clang-format off */
#define OPERANDS_8(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), \
	"+f"(x[i + 4]), "+f"(x[i + 5]), "+f"(x[i + 6]), "+f"(x[i + 7])
#define OPERANDS_32(x, i) OPERANDS_8(x, i), OPERANDS_8(x, i + 8), OPERANDS_8(x, i + 16), \
	OPERANDS_8(x, i + 24)
#define OPERANDS_64(x, i) OPERANDS_32(x, i), OPERANDS_32(x, i + 32)

__device__ inline void warpgroup_multiply_turned(
	float (&sum)[32], const uint32_t (&a)[4], uint64_t b, int adds)
{
	asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
		"{%0, %1, %2, %3, %4, %5, %6, %7, "
		"%8, %9, %10, %11, %12, %13, %14, %15, "
		"%16, %17, %18, %19, %20, %21, %22, %23, "
		"%24, %25, %26, %27, %28, %29, %30, %31}, "
		"{%32, %33, %34, %35}, %36, adds, 1, 1, 1;\n}\n"
		: OPERANDS_32(sum, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

__device__ inline void warpgroup_multiply_turned(
	float (&sum)[64], const uint32_t (&a)[4], uint64_t b, int adds)
{
	asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
		"{%0, %1, %2, %3, %4, %5, %6, %7, "
		"%8, %9, %10, %11, %12, %13, %14, %15, "
		"%16, %17, %18, %19, %20, %21, %22, %23, "
		"%24, %25, %26, %27, %28, %29, %30, %31, "
		"%32, %33, %34, %35, %36, %37, %38, %39, "
		"%40, %41, %42, %43, %44, %45, %46, %47, "
		"%48, %49, %50, %51, %52, %53, %54, %55, "
		"%56, %57, %58, %59, %60, %61, %62, %63}, "
		"{%64, %65, %66, %67}, %68, adds, 1, 1, 1;\n}\n"
		: OPERANDS_64(sum, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

#undef OPERANDS_8
#undef OPERANDS_32
#undef OPERANDS_64
/* clang-format on */

#endif

#endif
