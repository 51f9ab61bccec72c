#ifndef KERNELS_DEVICE_WGMMA_CUH
#define KERNELS_DEVICE_WGMMA_CUH

#include "kernels/device/barrier.cuh"

/* Tensor cores by warpgroup, four consecutive warps (wgmma, sm_90a). Operands in shared memory
   are tiles of rows of 64 bf16 (128 bytes) in the 128-byte swizzle of the TMA. A tile begins at
   a multiple of 1,024 bytes. */

#ifdef QUIRE_SM90A

/* ---- shared memory descriptors ---- */

/* Descriptor of a K-major tile: the inner dimension of the GEMM runs along a row. The next 16
   elements of a row are 32 bytes further on, which adds 2 to the descriptor. bytes_of_8_rows: from
   8 rows to the next 8, a multiple of 1,024. */
__device__ inline uint64_t tile_descriptor(uint32_t address, uint32_t bytes_of_8_rows = 1024)
{
	const uint64_t swizzle_128 = 1;

	return swizzle_128 << 62 | (uint64_t)(bytes_of_8_rows >> 4) << 32 | (uint64_t)1 << 16 |
	       (address & 0x3ffff) >> 4;
}

/* Descriptor of an MN-major (transposed) tile: the inner dimension of the GEMM runs from row to
   row. The next 64 columns are in another tile, `across` bytes further on. */
__device__ inline uint64_t transposed_descriptor(
	uint32_t address, uint32_t across, uint32_t bytes_of_8_rows = 1024)
{
	return (tile_descriptor(address, bytes_of_8_rows) & ~((uint64_t)0x3fff << 16)) |
	       (uint64_t)(across >> 4) << 16;
}

/* ---- ordering ---- */

/* Needed before the first wgmma, and after writing registers that a wgmma uses. */
__device__ inline void wgmma_fence()
{
	asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

/* Closes a group of wgmma instructions. */
__device__ inline void wgmma_commit()
{
	asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/* Waits until at most PENDING groups are in flight. */
template <int PENDING> __device__ inline void wgmma_wait()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
}

/* Makes the compiler keep this value in a register instead of computing it again. */
__device__ inline void hold(uint32_t &value)
{
	asm volatile("" : "+r"(value));
}

/* Keeps the compiler from moving uses of these registers across. */
template <int COUNT> __device__ inline void hold(float (&values)[COUNT])
{
#pragma unroll
	for (int i = 0; i < COUNT; i++) {
		asm volatile("" : "+f"(values[i])::"memory");
	}
}

/* ---- matrix instructions ---- */

/* sum (64 x N, float32) = a (64 x 16, bf16) * b (N x 16, bf16)^T, plus sum where is_sum is not 0.
   Two forms: wgmma<N>::issue() has both operands as descriptors; wgmma_transposed() has a in
   registers, in the layout of multiply_add() (kernels/device/mma.cuh), and an MN-major b.

   Warp w of the warpgroup holds rows 16 * w to 16 * w + 15 of sum. In lane l

       sum[4 * j], sum[4 * j + 1]       are in row 16 * w + l / 4
       sum[4 * j + 2], sum[4 * j + 3]   are in row 16 * w + l / 4 + 8

   both at columns 8 * j + 2 * (l % 4) and the next. sum may be read only after wgmma_wait(). */
template <int N> struct wgmma;

/* clang-format off */
#define SUMS_4(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 4)
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)

/* Operands 0 to n - 1 of the assembly, one for each element of sum. */
#define NAMES_4 "%0, %1, %2, %3"
#define NAMES_8 NAMES_4 ", %4, %5, %6, %7"
#define NAMES_12 NAMES_8 ", %8, %9, %10, %11"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_20 NAMES_16 ", %16, %17, %18, %19"
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_32 NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_44 NAMES_40 ", %40, %41, %42, %43"
#define NAMES_48 NAMES_44 ", %44, %45, %46, %47"
#define NAMES_64 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, " \
	"%56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"

/* a, b, adds: the numbers of the operands that follow those of sum. */
#define WGMMA(n, names, a, b, adds, ...)                                                           \
	template <> struct wgmma<n> {                                                              \
		static __device__ void issue(float *sum, uint64_t of_a, uint64_t of_b, int is_sum) \
		{                                                                                  \
			asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"             \
				"wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names \
				"}, " a ", " b ", p, 1, 1, 0, 0;\n}\n"                             \
				: __VA_ARGS__                                                      \
				: "l"(of_a), "l"(of_b), "r"(is_sum));                              \
		}                                                                                  \
	};

WGMMA(8, NAMES_4, "%4", "%5", "%6", SUMS_4(0))
WGMMA(16, NAMES_8, "%8", "%9", "%10", SUMS_8(0))
WGMMA(24, NAMES_12, "%12", "%13", "%14", SUMS_8(0), SUMS_4(8))
WGMMA(32, NAMES_16, "%16", "%17", "%18", SUMS_16(0))
WGMMA(40, NAMES_20, "%20", "%21", "%22", SUMS_16(0), SUMS_4(16))
WGMMA(48, NAMES_24, "%24", "%25", "%26", SUMS_16(0), SUMS_8(16))
WGMMA(64, NAMES_32, "%32", "%33", "%34", SUMS_32(0))
WGMMA(80, NAMES_40, "%40", "%41", "%42", SUMS_32(0), SUMS_8(32))
WGMMA(88, NAMES_44, "%44", "%45", "%46", SUMS_32(0), SUMS_8(32), SUMS_4(40))
WGMMA(96, NAMES_48, "%48", "%49", "%50", SUMS_32(0), SUMS_16(32))
WGMMA(112, NAMES_56, "%56", "%57", "%58", SUMS_32(0), SUMS_16(32), SUMS_8(48))
WGMMA(128, NAMES_64, "%64", "%65", "%66", SUMS_32(0), SUMS_32(32))

#define WGMMA_TRANSPOSED(n, names, a, b, adds, ...)                                                \
	__device__ inline void wgmma_transposed(                                                   \
		float (&sum)[n / 2], const uint32_t (&of_a)[4], uint64_t of_b, int is_sum)         \
	{                                                                                          \
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                     \
			"wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names         \
			"}, {" a "}, " b ", p, 1, 1, 1;\n}\n"                                      \
			: __VA_ARGS__                                                              \
			: "r"(of_a[0]), "r"(of_a[1]), "r"(of_a[2]), "r"(of_a[3]), "l"(of_b),       \
			"r"(is_sum));                                                              \
	}

WGMMA_TRANSPOSED(64, NAMES_32, "%32, %33, %34, %35", "%36", "%37", SUMS_32(0))
WGMMA_TRANSPOSED(128, NAMES_64, "%64, %65, %66, %67", "%68", "%69", SUMS_32(0), SUMS_32(32))
/* clang-format on */

#undef WGMMA
#undef WGMMA_TRANSPOSED
#undef SUMS_4
#undef SUMS_8
#undef SUMS_16
#undef SUMS_32
#undef NAMES_4
#undef NAMES_8
#undef NAMES_12
#undef NAMES_16
#undef NAMES_24
#undef NAMES_32
#undef NAMES_40
#undef NAMES_44
#undef NAMES_48
#undef NAMES_56
#undef NAMES_64

/* ---- registers ---- */

/* All four warps of a warpgroup change their number of registers to COUNT a thread: fewer, or
   more. */
template <int COUNT> __device__ inline void registers_release()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

template <int COUNT> __device__ inline void registers_acquire()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

#endif

#endif
