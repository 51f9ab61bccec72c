#include "kernels/decode_matmul.h"
#include "kernels/device.cuh"

/* ---- kernels ---- */

static __device__ float dot(const uint16_t *a, const uint16_t *b, uint32_t count)
{
	float sum = 0;

	for (uint32_t i = threadIdx.x * 8; i < count; i += WARP * 8) {
		float x[8], y[8];
		unpack8(load8(a + i), x);
		unpack8(load8(b + i), y);
		for (int e = 0; e < 8; e++) {
			sum += x[e] * y[e];
		}
	}
	return warp_sum(sum);
}

static __global__ void product_kernel(uint16_t *out, const uint16_t *in, const uint16_t *weight,
	const uint16_t *bias, uint32_t input_count, uint32_t output_count)
{
	size_t n = blockIdx.x, r = blockIdx.y;

	dependency_wait();
	dependents_launch();
	float sum = dot(in + r * input_count, weight + n * input_count, input_count);
	if (threadIdx.x == 0) {
		bf16_store(
			out + r * output_count + n, bias == NULL ? sum : sum + bf16_load(bias + n));
	}
}

static __global__ void product_silu_kernel(uint16_t *out, const uint16_t *in,
	const uint16_t *weight, uint32_t input_count, uint32_t intermediate)
{
	size_t n = blockIdx.x, r = blockIdx.y;

	dependency_wait();
	dependents_launch();
	const uint16_t *row = in + r * input_count;
	float gate = dot(row, weight + n * input_count, input_count);
	float up = dot(row, weight + (intermediate + n) * input_count, input_count);
	if (threadIdx.x == 0) {
		gate = __bfloat162float(__float2bfloat16_rn(gate));
		up = __bfloat162float(__float2bfloat16_rn(up));
		bf16_store(out + r * intermediate + n, gate / (1.0f + __expf(-gate)) * up);
	}
}

/* ---- launchers ---- */

bool decode_matmul_fits(uint32_t input_count, uint32_t output_count)
{
	return kernel_path_of_device() == KERNEL_PATH_SM90 &&
	       (uint64_t)input_count * output_count <= 8u << 20;
}

int decode_matmul(uint16_t *out, const uint16_t *in, const uint16_t *weight, const uint16_t *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return 0;
	}
	return launch_dependent(product_kernel, dim3(output_count, row_count), dim3(WARP), 0,
		stream, out, in, weight, bias, input_count, output_count);
}

int decode_matmul_silu(uint16_t *out, const uint16_t *in, const uint16_t *weight,
	uint32_t row_count, uint32_t input_count, uint32_t intermediate, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return 0;
	}
	return launch_dependent(product_silu_kernel, dim3(intermediate, row_count), dim3(WARP), 0,
		stream, out, in, weight, input_count, intermediate);
}
