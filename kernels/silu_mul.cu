#include "kernels/device.cuh"
#include "kernels/silu_mul.h"

/* ---- kernels ---- */

static __device__ inline float silu(float x)
{
	return x / (1.0f + __expf(-x));
}

static __global__ void silu_mul_kernel(
	uint16_t *out, const uint16_t *gate_up, size_t vector_count, uint32_t vectors_per_row)
{
	size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (at >= vector_count) {
		return;
	}
	size_t row = at / vectors_per_row;
	const uint16_t *from = gate_up + (row * vectors_per_row + at) * 8;
	float gate[8], up[8];
	unpack8(load8(from), gate);
	unpack8(load8(from + (size_t)vectors_per_row * 8), up);
#pragma unroll
	for (int i = 0; i < 8; i++) {
		gate[i] = silu(gate[i]) * up[i];
	}
	store8(out + at * 8, pack8(gate));
}

/* ---- launchers ---- */

int silu_mul(uint16_t *out, const uint16_t *gate_up, uint32_t row_count, uint32_t width,
	struct CUstream_st *stream)
{
	const uint32_t threads = 256;
	uint32_t vectors_per_row = width / 8;
	size_t vector_count = (size_t)row_count * vectors_per_row;

	if (vector_count > 0) {
		uint32_t blocks = (uint32_t)((vector_count + threads - 1) / threads);
		silu_mul_kernel<<<blocks, threads, 0, stream>>>(
			out, gate_up, vector_count, vectors_per_row);
	}
	return cudaGetLastError();
}
