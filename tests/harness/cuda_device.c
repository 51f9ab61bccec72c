#include "tests/harness/cuda_device.h"

#include "kernels/linear/cublaslt.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>

void skip_without_device(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
		cr_skip_test("no GPU");
	}
}

void must(int code, const char *call)
{
	cr_assert(code == 0, "%s: %s", call, cublaslt_error_text(code));
}

void *device_take(size_t bytes)
{
	void *memory = NULL;

	must(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "cudaMalloc");
	must(cudaMemset(memory, 0xff, bytes), "cudaMemset"); /* NaN in bf16 and float32 */
	return memory;
}

void *device_copy(const void *host, size_t bytes)
{
	void *memory = device_take(bytes);

	must(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
	return memory;
}
