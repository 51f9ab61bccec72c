#include "kernels/device/early_launch.cuh"
#include "kernels/device/math.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/rows/silu_mul.h"

enum { SILU_THREADS = 128 };

/* ---- kernels ---- */

/* Bandwidth-bound: 8 elements (16 bytes) a thread, several thread blocks a row. */
static __global__ void __launch_bounds__(SILU_THREADS)
	silu_mul_kernel(uint16_t *out, const uint16_t *gate_up, uint32_t width)
{
	dependents_launch();
	uint32_t i = (blockIdx.y * SILU_THREADS + threadIdx.x) * 8;
	const uint16_t *from = gate_up + (size_t)blockIdx.x * 2 * width + i;

	dependency_wait();
	if (i >= width) {
		return;
	}
	bf16x8 gates = load8(from), ups = load8(from + width);
	float gate[8], up[8];
	unpack8(gates, gate);
	unpack8(ups, up);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		gate[j] = silu(gate[j]) * up[j];
	}
	store8(out + (size_t)blockIdx.x * width + i, pack8(gate));
}

/* ---- launchers ---- */

int silu_mul(uint16_t *out, const uint16_t *gate_up, uint32_t row_count, uint32_t width,
	struct CUstream_st *stream)
{
	const uint32_t each = SILU_THREADS * 8;

	if (row_count == 0 || width == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(silu_mul_kernel, dim3(row_count, (width + each - 1) / each),
		SILU_THREADS, 0, stream, out, gate_up, width);
}
