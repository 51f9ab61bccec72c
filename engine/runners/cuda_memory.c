#include "engine/runners/cuda_memory.h"

#include "engine/base/integer.h"
#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { BLOCKS_MAX = 1 << 28 };

enum status cuda_memory_count_blocks(
	struct cuda_memory *memory, uint64_t utilization, uint32_t block_count, struct error *error)
{
	size_t free_bytes, total_bytes;

	TRY(cuda_status((int)cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", error));
	memory->total_bytes = total_bytes;
	memory->used_bytes = total_bytes - free_bytes;
	uint64_t usable = (uint64_t)((u128)total_bytes * utilization / 1000000);
	uint64_t left = usable > memory->used_bytes ? usable - memory->used_bytes : 0;
	memory->block_count = block_count;
	if (memory->block_count == 0) {
		memory->block_count = (uint32_t)u64_min(left / memory->block_bytes, BLOCKS_MAX);
	}
	if (memory->block_count == 0) {
		return error_set(error, STATUS_MEMORY,
			"GPU memory: no KV block fits: of %.3f GB %.3f may be used and %.3f are, "
			"a block takes %.3f",
			(double)total_bytes / 1e9, (double)usable / 1e9,
			(double)memory->used_bytes / 1e9, (double)memory->block_bytes / 1e9);
	}
	return STATUS_OK;
}

enum status cuda_alloc_device(void *out, uint64_t bytes, struct error *error)
{
	TRY(cuda_status((int)cudaMalloc((void **)out, bytes), "cudaMalloc", error));
	return cuda_status((int)cudaMemset(*(void **)out, 0, bytes), "cudaMemset", error);
}

enum status cuda_alloc_pinned(void *out, uint64_t bytes, struct error *error)
{
	TRY(cuda_status((int)cudaMallocHost((void **)out, bytes), "cudaMallocHost", error));
	memset(*(void **)out, 0, bytes);
	return STATUS_OK;
}
