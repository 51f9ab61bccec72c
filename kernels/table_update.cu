#include "kernels/table_update.h"

#include <cuda_runtime.h>

/* ---- kernels ---- */

static __global__ void table_update_kernel(uint32_t *tables, uint32_t table_width,
	const struct table_addition *additions, uint32_t count)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count) {
		struct table_addition addition = additions[i];
		tables[(size_t)addition.row * table_width + addition.index] = addition.block;
	}
}

/* ---- launchers ---- */

int table_update(uint32_t *tables, uint32_t table_width, const struct table_addition *additions,
	uint32_t count, struct CUstream_st *stream)
{
	if (count > 0) {
		table_update_kernel<<<(count + 255) / 256, 256, 0, stream>>>(
			tables, table_width, additions, count);
	}
	return cudaGetLastError();
}
