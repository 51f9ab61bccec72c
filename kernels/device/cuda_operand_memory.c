#include "kernels/device/cuda_operand_memory.h"

#include "kernels/device/limits.h"

#include <cuda_runtime_api.h>

static int set(void *memory, int byte, size_t bytes)
{
	return (int)cudaMemset(memory, byte, bytes);
}

static int allocate(void **out, size_t bytes, int byte)
{
	int code = (int)cudaMalloc(out, bytes == 0 ? 1 : bytes);

	return code != 0 ? code : set(*out, byte, bytes);
}

static void release(void *memory)
{
	cudaFree(memory);
}

static int send(void *to, const void *host, size_t bytes)
{
	return (int)cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice);
}

/* Synchronises the device, since launches may be on streams that cudaMemcpy() does not wait for. */
static int fetch(void *host, const void *from, size_t bytes)
{
	int code = (int)cudaDeviceSynchronize();

	return code != 0 ? code : (int)cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost);
}

static int fill_bf16_on_device(uint16_t *out, size_t count, uint64_t key)
{
	return fill_bf16(out, count, key, NULL);
}

static int fill_float_on_device(float *out, size_t count, uint64_t key)
{
	return fill_float(out, count, key, NULL);
}

const struct operand_memory cuda_operand_memory = {
	.allocate = allocate,
	.release = release,
	.set = set,
	.send = send,
	.fetch = fetch,
	.fill_bf16 = fill_bf16_on_device,
	.fill_float = fill_float_on_device,
};
