#include "kernels/device/early_launch.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/rows/gather_rows.h"

/* ---- kernels ---- */

static __global__ void gather_rows_kernel(
	uint16_t *out, const uint16_t *in, const uint32_t *indices, uint32_t width)
{
	dependents_launch();
	const uint16_t *from = in + (size_t)indices[blockIdx.x] * width;
	uint16_t *to = out + (size_t)blockIdx.x * width;

	dependency_wait();
	for (uint32_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
		store8(to + i, load8(from + i));
	}
}

/* ---- launchers ---- */

int gather_rows(uint16_t *out, const uint16_t *in, const uint32_t *indices, uint32_t row_count,
	uint32_t width, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(
		gather_rows_kernel, row_count, 128, 0, stream, out, in, indices, width);
}
