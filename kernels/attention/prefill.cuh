#ifndef KERNELS_ATTENTION_PREFILL_CUH
#define KERNELS_ATTENTION_PREFILL_CUH

#include "kernels/attention/prefill.h"
#include "kernels/device/early_launch.cuh"

/* The kernels of prefill attention, one file each:

       prefill_sm80.cu   sm_80 and later, and heads of 32
       prefill_sm90.cu   Hopper */

/* The buffers of prefill_attention() and struct prefill_work, as a kernel's parameter. */
struct prefill_arguments {
	uint16_t *out;		     /* (token_count, head_count, head_dim) bf16 */
	const uint16_t *query;	     /* the same */
	const uint16_t *keys;	     /* (blocks, kv_head_count, block_size, head_dim) bf16 */
	const uint16_t *values;	     /* the same */
	const uint32_t *tables;	     /* (any, table_width) */
	const uint32_t *rows;	     /* (row_count) index into tables */
	const uint32_t *query_start; /* (row_count + 1) */
	const uint32_t *contexts;    /* (row_count) */
	const struct prefill_tile *tiles;
	uint32_t tile_count;
	uint32_t piece_count; /* pieces of a tile of queries, on sm_90: 1 or 2 */
	float scale;	      /* log2(e) / sqrt(head_dim): scores times it are exponents of 2 */
	struct attention_shape shape;
};

/* head_dim 32, 64 or 128. */
int prefill_attention_sm80(const prefill_arguments &a, cudaStream_t stream);

/* head_dim 64 or 128. */
int prefill_attention_sm90(const prefill_arguments &a, cudaStream_t stream);

#endif
