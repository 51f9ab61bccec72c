#ifndef ENGINE_RUNNERS_CUDA_MEMORY_H
#define ENGINE_RUNNERS_CUDA_MEMORY_H

#include <stdint.h>

#include "engine/base/status.h"

/* What the GPU offers and what is used of it, in bytes. */
struct cuda_memory {
	char device[64];
	uint64_t total_bytes;
	uint64_t used_bytes;  /* by everything but the KV pool, other programs included */
	uint64_t block_bytes; /* a KV block and its share of the block tables */
	uint32_t block_count;
};

/* How many blocks of memory->block_bytes fit into the wanted share of all memory, as nano-vllm
   counts: the share in millionths, less what is used. block_count: 0, or a number that is not
   questioned. Fills in total_bytes, used_bytes and block_count. */
enum status cuda_memory_count_blocks(struct cuda_memory *memory, uint64_t utilization,
	uint32_t block_count, struct error *error);

/* Cleared memory of the device, or pinned memory of the host; *out is a pointer of any type. */
enum status cuda_alloc_device(void *out, uint64_t bytes, struct error *error);
enum status cuda_alloc_pinned(void *out, uint64_t bytes, struct error *error);

#endif
