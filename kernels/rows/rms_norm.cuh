#ifndef KERNELS_ROWS_RMS_NORM_CUH
#define KERNELS_ROWS_RMS_NORM_CUH

#include "engine/shape/kernel_tiles.h"
#include "kernels/device/reduce.cuh"

/* The arithmetic of all kernels that normalise rows, so that a row has the same bits in each.
   Every rounding is explicit. The order of the sum of squares is fixed: 8 elements in ascending
   order, then 256 elements in the tree of warp_sum(), then these sums in ascending order. */

/* ---- one thread block a row ----

   Each thread holds norm_vectors() times 8 elements of the row, norm_threads() * 8 apart. The order
   of the sum of squares follows from both. */

enum { NORM_THREADS_MAX = 1024, NORM_VECTORS_MAX = 2 };

inline bool norm_fits(uint32_t width)
{
	return width >= 8 && width <= NORM_THREADS_MAX * NORM_VECTORS_MAX * 8;
}

inline uint32_t norm_vectors(uint32_t width)
{
	return width <= 256 * 8 ? 1 : NORM_VECTORS_MAX;
}

inline uint32_t norm_threads(uint32_t width)
{
	uint32_t warp_width = norm_vectors(width) * WARP * 8;

	return (width + warp_width - 1) / warp_width * WARP;
}

/* ---- 8 elements of a row ---- */

/* Adds 8 elements of all split-K slices in ascending order, and rounds. */
__device__ inline bf16x8 sum_slices8(const float *first, size_t slice_size)
{
	float sum[8];

#pragma unroll
	for (int j = 0; j < 8; j += 4) {
		float4 slice[SPLIT_K];
#pragma unroll
		for (int i = 0; i < SPLIT_K; i++) {
			slice[i] = *reinterpret_cast<const float4 *>(first + i * slice_size + j);
		}
		sum[j] = slice[0].x;
		sum[j + 1] = slice[0].y;
		sum[j + 2] = slice[0].z;
		sum[j + 3] = slice[0].w;
#pragma unroll
		for (int i = 1; i < SPLIT_K; i++) {
			sum[j] += slice[i].x;
			sum[j + 1] += slice[i].y;
			sum[j + 2] += slice[i].z;
			sum[j + 3] += slice[i].w;
		}
	}
	return pack8(sum);
}

/* Adds 8 elements to the residual stream; the norm reads the rounded sum. */
__device__ inline bf16x8 sum8(const bf16x8 &row, const bf16x8 &added)
{
	float x[8], y[8];

	unpack8(row, x);
	unpack8(added, y);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		x[j] += y[j];
	}
	return pack8(x);
}

__device__ inline float add_squares8(float sum, const bf16x8 &row)
{
	float x[8];

	unpack8(row, x);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		sum = __fmaf_rn(x[j], x[j], sum);
	}
	return sum;
}

__device__ inline float norm_scale(float square, uint32_t width, float epsilon)
{
	return rsqrtf(__fadd_rn(__fdiv_rn(square, (float)width), epsilon));
}

__device__ inline bf16x8 scale8(const bf16x8 &row, float scale, const bf16x8 &weight)
{
	float x[8], w[8];

	unpack8(row, x);
	unpack8(weight, w);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		x[j] = __fmul_rn(__fmul_rn(x[j], scale), w[j]);
	}
	return pack8(x);
}

#endif
