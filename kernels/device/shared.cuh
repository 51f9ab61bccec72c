#ifndef KERNELS_DEVICE_SHARED_CUH
#define KERNELS_DEVICE_SHARED_CUH

#include "kernels/device/vector.cuh"

/* Shared memory by its 32-bit address: loads and stores, cp.async copies from global memory
   (sm_80), and a swizzled tile layout without bank conflicts. */

__device__ inline uint32_t shared_address(const void *pointer)
{
	return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* ---- loads and stores ---- */

__device__ inline void store_shared(uint32_t to, uint32_t value)
{
	asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(to), "r"(value) : "memory");
}

__device__ inline void store_shared(uint32_t to, float value)
{
	asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(to), "f"(value) : "memory");
}

__device__ inline void store_shared(uint32_t to, float4 value)
{
	asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "f"(value.x),
		     "f"(value.y), "f"(value.z), "f"(value.w)
		     : "memory");
}

__device__ inline void store_shared(uint32_t to, const bf16x8 &value)
{
	const uint4 *bits = reinterpret_cast<const uint4 *>(&value);

	asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(bits->x),
		     "r"(bits->y), "r"(bits->z), "r"(bits->w)
		     : "memory");
}

__device__ inline float load_shared_float(uint32_t from)
{
	float value;

	asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(value) : "r"(from) : "memory");
	return value;
}

__device__ inline float2 load_shared_float2(uint32_t from)
{
	float2 two;

	asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
		     : "=f"(two.x), "=f"(two.y)
		     : "r"(from)
		     : "memory");
	return two;
}

__device__ inline float4 load_shared_float4(uint32_t from)
{
	float4 four;

	asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
		     : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
		     : "r"(from)
		     : "memory");
	return four;
}

__device__ inline uint4 load_shared_uint4(uint32_t from)
{
	uint4 four;

	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
		     : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
		     : "r"(from)
		     : "memory");
	return four;
}

/* ---- cp.async (sm_80) ---- */

/* Copies 16 bytes from global to shared memory, or writes 16 zero bytes where not `is_valid`. */
__device__ inline void copy16(uint32_t shared, const void *global, bool is_valid)
{
	int bytes = is_valid ? 16 : 0;
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global),
		"r"(bytes));
}

/* Closes a group of copies. */
__device__ inline void copy_commit()
{
	asm volatile("cp.async.commit_group;\n" ::);
}

/* Waits until at most PENDING groups of this thread are in flight. */
template <int PENDING> __device__ inline void copy_wait()
{
	asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING));
}

/* ---- layout ---- */

/* Byte offset of 16-byte chunk `chunk` (8 elements) of row `token` in a tile of rows of D bf16.
   Chunks are permuted within a row by an XOR with the row index (swizzle), so that the same
   chunk of successive rows lies in different banks. */
template <int D> __device__ inline uint32_t tile_offset(uint32_t token, uint32_t chunk)
{
	const uint32_t chunks = D / 8;
	const uint32_t mask = (chunks < 8 ? chunks : 8) - 1;

	return (token * chunks + (chunk ^ (token & mask))) * 16;
}

#endif
