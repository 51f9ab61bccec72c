#include "kernels/device/early_launch.cuh"
#include "engine/shape/kernel_tiles.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/rows/rms_norm.cuh"
#include "kernels/rows/rms_norm.h"

/* rms_norm and add_rms_norm, with and without gathering and split-K slices; formulas and shapes are
   in their headers.

   One thread block a row. The row stays in registers, VECTORS times 8 elements a thread, so it
   is read from memory once. The order of the sum of squares depends on width only: the elements
   of a thread, the lanes of a warp in a tree, the warps in ascending order. */

enum norm_kind {
	NORM_OF_ROW,   /* in[r] */
	NORM_OF_SUM,   /* residual[r] + in[r], also stored to residual[r] */
	NORM_GATHERED, /* residual[index[r]] + in[index[r]], not stored */
};

struct norm_arguments {
	uint16_t *out;		/* (row_count, width) bf16 */
	uint16_t *residual;	/* (any, width) bf16 */
	const uint16_t *in;	/* (any, width) bf16 */
	const uint16_t *weight; /* (width) bf16 */
	const uint32_t *index;	/* (row_count) for NORM_GATHERED */
	uint32_t width;
	float epsilon;
	const float *slices; /* (SPLIT_K, slice_rows, width) float32 that replace in; or null */
	uint32_t slice_rows;
};

/* ---- kernels ---- */

template <norm_kind KIND, bool IS_SPLIT_K, int VECTORS>
static __global__ void __launch_bounds__(NORM_THREADS_MAX) rms_norm_kernel(norm_arguments a)
{
	__shared__ float sums[NORM_THREADS_MAX / WARP];

	dependents_launch();
	uint32_t source = KIND == NORM_GATHERED ? a.index[blockIdx.x] : blockIdx.x;
	const uint16_t *in = a.in + (IS_SPLIT_K ? 0 : (size_t)source * a.width);
	const float *slices = a.slices + (IS_SPLIT_K ? (size_t)source * a.width : 0);
	uint16_t *residual = a.residual + (size_t)source * a.width;
	uint16_t *out = a.out + (size_t)blockIdx.x * a.width;
	bf16x8 weight[VECTORS], row[VECTORS], added[VECTORS];
	uint32_t first = threadIdx.x * 8, step = blockDim.x * 8;
	float square = 0;

#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		if (first + v * step < a.width) {
			weight[v] = load8(a.weight + first + v * step);
		}
	}
	dependency_wait();
#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		if (first + v * step < a.width) {
			row[v] = IS_SPLIT_K ? sum_slices8(slices + first + v * step,
						      (size_t)a.slice_rows * a.width)
					    : load8(in + first + v * step);
			if (KIND != NORM_OF_ROW) {
				added[v] = load8(residual + first + v * step);
			}
		}
	}
#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		if (first + v * step < a.width) {
			if (KIND != NORM_OF_ROW) {
				row[v] = sum8(row[v], added[v]);
			}
			if (KIND == NORM_OF_SUM) {
				store8(residual + first + v * step, row[v]);
			}
			square = add_squares8(square, row[v]);
		}
	}
	square = block_sum(square, sums, blockDim.x / WARP);
	float scale = norm_scale(square, a.width, a.epsilon);
#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		if (first + v * step < a.width) {
			store8(out + first + v * step, scale8(row[v], scale, weight[v]));
		}
	}
}

/* ---- launchers ---- */

template <norm_kind KIND, bool IS_SPLIT_K>
static int launch(const norm_arguments &arguments, uint32_t row_count, cudaStream_t stream)
{
	const uint32_t width = arguments.width;
	auto *kernel = norm_vectors(width) == 1
			       ? rms_norm_kernel<KIND, IS_SPLIT_K, 1>
			       : rms_norm_kernel<KIND, IS_SPLIT_K, NORM_VECTORS_MAX>;

	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	if (!norm_fits(width)) {
		return (int)cudaErrorInvalidValue;
	}
	return launch_dependent(kernel, row_count, norm_threads(width), 0, stream, arguments);
}

int rms_norm(uint16_t *out, const uint16_t *in, const uint16_t *weight, uint32_t row_count,
	uint32_t width, float epsilon, struct CUstream_st *stream)
{
	return launch<NORM_OF_ROW, false>(
		{out, nullptr, in, weight, nullptr, width, epsilon, nullptr, 0}, row_count, stream);
}

int add_rms_norm(uint16_t *out, uint16_t *residual, const uint16_t *in, const uint16_t *weight,
	const uint32_t *index, uint32_t row_count, uint32_t width, float epsilon,
	struct CUstream_st *stream)
{
	const norm_arguments arguments = {
		out, residual, in, weight, index, width, epsilon, nullptr, 0};

	return index == nullptr ? launch<NORM_OF_SUM, false>(arguments, row_count, stream)
				: launch<NORM_GATHERED, false>(arguments, row_count, stream);
}

int add_rms_norm_split_k(uint16_t *out, uint16_t *residual, const float *slices,
	const uint16_t *weight, const uint32_t *index, uint32_t slice_rows, uint32_t row_count,
	uint32_t width, float epsilon, struct CUstream_st *stream)
{
	const norm_arguments arguments = {
		out, residual, nullptr, weight, index, width, epsilon, slices, slice_rows};

	return index == nullptr ? launch<NORM_OF_SUM, true>(arguments, row_count, stream)
				: launch<NORM_GATHERED, true>(arguments, row_count, stream);
}
