#ifndef KERNELS_ROWS_RMS_NORM_CUH
#define KERNELS_ROWS_RMS_NORM_CUH

#include "kernels/device/reduce.cuh"

/* The arithmetic of all kernels that normalise rows, so that a row has the same bits in each.
   Every rounding is explicit. The order of the sum of squares is fixed: 8 elements in ascending
   order, then 256 elements in the tree of warp_sum(), then these sums in ascending order. */

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
