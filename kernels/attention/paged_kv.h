#ifndef KERNELS_ATTENTION_PAGED_KV_H
#define KERNELS_ATTENTION_PAGED_KV_H

#include "engine/base/both_sides.h"

#include <stdint.h>

/* The shape of attention, and the layout of the paged KV pool.

       pool    [layer][k|v][block][kv_head][token][head_dim]

   Operations work on one layer. Its keys and its values are each (block_count, kv_head_count,
   block_size, head_dim): the tokens of one head in one block are contiguous, and a rank of a tensor
   parallel group holds a contiguous range of heads.

       slot    block * block_size + token, of a token of the batch; -1: not stored
       table   (rows, table_width) block ids: position p of the sequence in row r lies in block
               table[r][p / block_size] at token p % block_size

   Query head h attends with key/value head h / (head_count / kv_head_count) (GQA). */

struct attention_shape {
	uint32_t head_count; /* a multiple of kv_head_count */
	uint32_t kv_head_count;
	uint32_t head_dim;    /* even, at most ATTENTION_HEAD_DIM_MAX */
	uint32_t block_size;  /* tokens in a block */
	uint32_t table_width; /* blocks in a row of the block tables */
};

enum {
	ATTENTION_HEAD_DIM_MAX = 1024,
	PAGED_KV_STEP = 16, /* block_size is a multiple of it on the GPU */
};

/* Index of the first element of a token's key or value in a layer's keys or values. */
BOTH_SIDES static inline uint64_t paged_kv_offset(
	const struct attention_shape *shape, uint64_t block, uint32_t kv_head, uint32_t token)
{
	return ((block * shape->kv_head_count + kv_head) * shape->block_size + token) *
	       shape->head_dim;
}

/* Swizzle. On the GPU the 16-byte chunks of a token's row are permuted in the pool itself:
   logical chunk c is at paged_kv_chunk(shape, token, c). So rows can be copied into shared
   memory without change, and matrix instructions read them without bank conflicts. On the CPU
   they are in order. Precondition: head_dim / 8 is a power of two. */
BOTH_SIDES static inline uint32_t paged_kv_chunk(
	const struct attention_shape *shape, uint32_t token, uint32_t chunk)
{
	uint32_t chunks = shape->head_dim / 8;

	return chunk ^ (token & ((chunks < 8 ? chunks : 8) - 1));
}

#endif
