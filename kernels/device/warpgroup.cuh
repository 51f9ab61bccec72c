#ifndef KERNELS_DEVICE_WARPGROUP_CUH
#define KERNELS_DEVICE_WARPGROUP_CUH

#include "kernels/device/device.cuh"

/* Matrix products of a warpgroup, four warps in step, from tiles in shared memory (sm_90a). A tile
   is a number of rows of 64 bf16 (128 bytes), as the copy engine writes it with its 128-byte
   swizzle; it begins at a multiple of 1,024 bytes. */

__device__ inline uint64_t tile_descriptor(uint32_t address)
{
	const uint64_t swizzle_128 = 1, bytes_of_8_rows = 1024;

	return swizzle_128 << 62 | bytes_of_8_rows >> 4 << 32 | (uint64_t)1 << 16 |
	       (address & 0x3ffff) >> 4;
}

__device__ inline void warpgroup_begin()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

__device__ inline void warpgroup_commit()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

/* Until at most PENDING of the products that were committed are under way. */
template <int PENDING> __device__ inline void warpgroup_wait_for_all_but()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
#endif
}

/* sum (64 x N, float32) = a (64 x 16, bf16) * b (N x 16, bf16)^T, plus sum when `adds`. Warp w
   holds rows 16 * w and on; of them lane l holds rows l / 4 and l / 4 + 8, of columns 8 * j + 2 *
   (l % 4) and the next: sum[4 * j] and [4 * j + 1] of the first row, [4 * j + 2] and [4 * j + 3] of
   the second. What has begun is not to be read before it was waited for. */
template <int N> struct warpgroup_product;

#define SUMS_8(from)                                                                               \
	"+f"(sum[from]), "+f"(sum[from + 1]), "+f"(sum[from + 2]), "+f"(sum[from + 3]),            \
		"+f"(sum[from + 4]), "+f"(sum[from + 5]), "+f"(sum[from + 6]), "+f"(sum[from + 7])

template <> struct warpgroup_product<8> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
			     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
			     "{%0, %1, %2, %3}, "
			     "%4, %5, p, 1, 1, 0, 0;\n}\n"
			     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
			     : "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<16> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
			     "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
			     "{%0, %1, %2, %3, %4, %5, %6, %7}, "
			     "%8, %9, p, 1, 1, 0, 0;\n}\n"
			     : SUMS_8(0)
			     : "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<32> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
			"%16, %17, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8)
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<48> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
			"%16, %17, %18, %19, %20, %21, %22, %23}, "
			"%24, %25, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8), SUMS_8(16)
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<64> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
			"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
			"%30, %31}, "
			"%32, %33, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24)
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<80> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
			"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
			"%30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, "
			"%40, %41, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32)
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<88> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %46, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n88k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
			"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
			"%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
			"%43}, "
			"%44, %45, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32), "+f"(sum[40]),
			"+f"(sum[41]), "+f"(sum[42]), "+f"(sum[43])
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<96> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
			"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
			"%30, %31, "
			"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
			"%46, %47}, "
			"%48, %49, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32), SUMS_8(40)
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

template <> struct warpgroup_product<128> {
	static __device__ void begin(float *sum, uint64_t a, uint64_t b, int adds)
	{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
		asm volatile(
			"{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
			"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
			"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
			"%30, %31, "
			"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
			"%46, %47, "
			"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
			"%62, %63}, "
			"%64, %65, p, 1, 1, 0, 0;\n}\n"
			: SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32), SUMS_8(40),
			SUMS_8(48), SUMS_8(56)
			: "l"(a), "l"(b), "r"(adds));
#endif
	}
};

#undef SUMS_8

#endif
