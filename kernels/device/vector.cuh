#ifndef KERNELS_DEVICE_VECTOR_CUH
#define KERNELS_DEVICE_VECTOR_CUH

#include <cuda_bf16.h>
#include <stdint.h>
#include <string.h>

/* bf16 in registers: loads, stores and conversions of one, two or eight elements. */

enum { WARP = 32 };

/* Eight bf16 in 16 bytes, the widest load or store of a thread. */
struct alignas(16) bf16x8 {
	__nv_bfloat162 pair[4];
};

/* One access each: the compiler copies a bf16x8 in four parts. */
__device__ inline bf16x8 load8(const uint16_t *from)
{
	const uint4 bits = *reinterpret_cast<const uint4 *>(from);
	bf16x8 value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

__device__ inline void store8(uint16_t *to, const bf16x8 &value)
{
	uint4 bits;

	memcpy(&bits, &value, sizeof(bits));
	*reinterpret_cast<uint4 *>(to) = bits;
}

__device__ inline void unpack8(const bf16x8 &packed, float *out)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float2 two = __bfloat1622float2(packed.pair[i]);
		out[2 * i] = two.x;
		out[2 * i + 1] = two.y;
	}
}

__device__ inline bf16x8 pack8(const float *in)
{
	bf16x8 packed;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		packed.pair[i] = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
	}
	return packed;
}

__device__ inline uint32_t pack2(float low, float high)
{
	__nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
	return *reinterpret_cast<uint32_t *>(&pair);
}

__device__ inline float bf16_load(const uint16_t *from)
{
	return __bfloat162float(*reinterpret_cast<const __nv_bfloat16 *>(from));
}

__device__ inline void bf16_store(uint16_t *to, float value)
{
	*reinterpret_cast<__nv_bfloat16 *>(to) = __float2bfloat16_rn(value);
}

#endif
