#ifndef KERNELS_ROWS_RMS_NORM_CUH
#define KERNELS_ROWS_RMS_NORM_CUH

#include "kernels/device/reduce.cuh"

/* What kernels share that normalise rows. A row's bits are the same in all of them: each rounding
   is written down, and the order of its sum of squares is that of 8 elements, in turn, then of 256
   in warp_sum()'s tree, then of these in turn. */

/* Adds 8 elements of the residual stream to 8 others; what is normalised is the rounded sum. */
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
