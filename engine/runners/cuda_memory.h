#ifndef ENGINE_RUNNERS_CUDA_MEMORY_H
#define ENGINE_RUNNERS_CUDA_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The memory of the GPU and its use, in bytes. */
struct cuda_memory {
	char device[64];
	uint64_t total_bytes;
	uint64_t used_bytes;  /* by everything but the KV pool, other programs included */
	uint64_t block_bytes; /* a KV block and its share of the block tables */
	uint32_t block_count;
	/* with several ranks */
	bool uses_nccl;	   /* to exchange their sums, in place of peer memory */
	char warning[256]; /* a line about the GPUs, or "" */
};

/* Fills in total_bytes, used_bytes and block_count: the number of blocks of memory->block_bytes
   that fit into `utilization` (millionths of all memory) less what is used, as nano-vllm counts.
   A block_count other than 0 is used as given. */
enum status cuda_memory_count_blocks(struct cuda_memory *memory, uint64_t utilization,
	uint32_t block_count, struct error *error);

/* Allocates zeroed device memory, or zeroed pinned host memory. out: the address of a pointer of
   any type. */
enum status cuda_alloc_device(void *out, uint64_t bytes, struct error *error);
enum status cuda_alloc_pinned(void *out, uint64_t bytes, struct error *error);

#endif
