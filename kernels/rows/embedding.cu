#include "kernels/device/early_launch.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/rows/embedding.h"

/* ---- kernels ---- */

static __global__ void embedding_kernel(uint16_t *out, const uint16_t *table,
	const int32_t *token_ids, const int32_t *last_tokens, const uint32_t *rows, uint32_t width)
{
	uint32_t token = blockIdx.x;

	/* This order is needed: the next kernels read the step's lists before their own wait,
	   see kernels/device/early_launch.cuh. */
	dependency_wait();
	dependents_launch();
	int32_t id = token_ids[token];
	if (id < 0) {
		id = last_tokens[rows[token]];
	}
	const uint16_t *from = table + (size_t)id * width;
	uint16_t *to = out + (size_t)token * width;
	for (uint32_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
		store8(to + i, load8(from + i));
	}
}

/* ---- launchers ---- */

int embedding(uint16_t *out, const uint16_t *table, const int32_t *token_ids,
	const int32_t *last_tokens, const uint32_t *rows, uint32_t token_count, uint32_t width,
	struct CUstream_st *stream)
{
	if (token_count == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(embedding_kernel, token_count, 128, 0, stream, out, table,
		token_ids, last_tokens, rows, width);
}
