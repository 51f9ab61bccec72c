extern "C" {
#include "engine/model/weights_dummy.h"
#include "engine/runners/cuda_weights.h"
}

#include <cuda_runtime.h>
#include <stdlib.h>

enum { UPLOAD_BYTES = 64 << 20 };

/* A thread computes the 8 elements of one hash. */
static __global__ void dummy_kernel(uint16_t *out, struct weight_dummy dummy, uint64_t count)
{
	uint64_t first = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * 8;

	for (uint64_t i = first; i < first + 8 && i < count; i++) {
		out[i] = weight_dummy_bf16(dummy, i);
	}
}

static int make_dummy(uint16_t *out, const struct model_config *config, uint64_t seed,
	enum weight weight, uint32_t layer, uint64_t count)
{
	const uint32_t threads = 256;
	uint64_t blocks = (count + threads * 8 - 1) / (threads * 8);

	dummy_kernel<<<(uint32_t)blocks, threads>>>(
		out, weight_dummy(config, seed, weight, layer), count);
	return cudaGetLastError();
}

extern "C" int cuda_weights_upload(uint16_t *out, const struct weights *weights, enum weight weight,
	uint32_t layer, struct weight_shard shard)
{
	const struct model_config *config = weights_config(weights);
	struct weight_shape shape = weight_shape(config, weight, shard);
	uint64_t seed;

	if (shard.ranks == 1 && weights_are_dummy(weights, &seed)) {
		return make_dummy(
			out, config, seed, weight, layer, (uint64_t)shape.rows * shape.columns);
	}
	uint32_t rows_at_once = UPLOAD_BYTES / 2 / shape.columns + 1;
	uint16_t *buffer = (uint16_t *)malloc((size_t)rows_at_once * shape.columns * 2);
	if (buffer == NULL) {
		return cudaErrorMemoryAllocation;
	}
	int code = 0;
	for (uint32_t row = 0; row < shape.rows && code == 0; row += rows_at_once) {
		uint32_t rows = shape.rows - row < rows_at_once ? shape.rows - row : rows_at_once;
		weights_read_bf16(weights, weight, layer, shard, row, rows, buffer);
		code = cudaMemcpy(out + (size_t)row * shape.columns, buffer,
			(size_t)rows * shape.columns * 2, cudaMemcpyHostToDevice);
	}
	free(buffer);
	return code;
}
