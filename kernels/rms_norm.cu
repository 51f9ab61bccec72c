#include "kernels/add_rms_norm.h"
#include "kernels/device.cuh"
#include "kernels/rms_norm.h"

/* One row a block. With HAS_SUM the row is first added to the residual stream, and what is
   normalised is the rounded sum; a thread reads back only what it wrote itself. */

enum { NORM_THREADS = 256 };

/* ---- kernels ---- */

template <bool HAS_SUM>
static __global__ void rms_norm_kernel(uint16_t *out, uint16_t *residual, const uint16_t *in,
	const uint16_t *weight, uint32_t width, float epsilon)
{
	__shared__ float sums[NORM_THREADS / WARP];
	size_t row = (size_t)blockIdx.x * width;
	const uint16_t *source = HAS_SUM ? residual + row : in + row;
	float square = 0;

	for (uint32_t i = threadIdx.x * 8; i < width; i += NORM_THREADS * 8) {
		float x[8];
		unpack8(load8(source + i), x);
		if (HAS_SUM) {
			float added[8];
			unpack8(load8(in + row + i), added);
#pragma unroll
			for (int j = 0; j < 8; j++) {
				x[j] += added[j];
			}
			bf16x8 sum = pack8(x);
			store8(residual + row + i, sum);
			unpack8(sum, x);
		}
#pragma unroll
		for (int j = 0; j < 8; j++) {
			square += x[j] * x[j];
		}
	}
	float mean = block_sum(square, sums, NORM_THREADS / WARP) / (float)width;
	float scale = 1.0f / sqrtf(mean + epsilon);
	for (uint32_t i = threadIdx.x * 8; i < width; i += NORM_THREADS * 8) {
		float x[8], w[8];
		unpack8(load8(source + i), x);
		unpack8(load8(weight + i), w);
#pragma unroll
		for (int j = 0; j < 8; j++) {
			x[j] = x[j] * scale * w[j];
		}
		store8(out + row + i, pack8(x));
	}
}

/* ---- launchers ---- */

int rms_norm(uint16_t *out, const uint16_t *in, const uint16_t *weight, uint32_t row_count,
	uint32_t width, float epsilon, struct CUstream_st *stream)
{
	if (row_count > 0) {
		rms_norm_kernel<false><<<row_count, NORM_THREADS, 0, stream>>>(
			out, nullptr, in, weight, width, epsilon);
	}
	return cudaGetLastError();
}

int add_rms_norm(uint16_t *out, uint16_t *residual, const uint16_t *in, const uint16_t *weight,
	uint32_t row_count, uint32_t width, float epsilon, struct CUstream_st *stream)
{
	if (row_count > 0) {
		rms_norm_kernel<true><<<row_count, NORM_THREADS, 0, stream>>>(
			out, residual, in, weight, width, epsilon);
	}
	return cudaGetLastError();
}
