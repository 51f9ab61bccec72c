#ifndef KERNELS_ATTENTION_DECODE_CUH
#define KERNELS_ATTENTION_DECODE_CUH

#include "kernels/attention/decode.h"
#include "kernels/device/early_launch.cuh"

/* The kernels of decode attention, one file each:

       decode_sm80.cu           sm_80 and later, and heads of 32
       decode_sm90.cu           Hopper, bandwidth-bound: many rows
       decode_shared_sm90.cu    Hopper, rows that share blocks, and long rows
       decode_cluster_sm90.cu   Hopper, latency-bound: few rows

   Those for Hopper have the same bits. */

enum { GROUP_MAX = 8 }; /* query heads that share a key/value head (GQA) */

/* The buffers of decode_attention() and struct decode_work, as a kernel's parameter. */
struct decode_arguments {
	uint16_t *out;		/* (row_count, head_count, head_dim) bf16 */
	float *partial_out;	/* (splits, head_count, head_dim) float32 */
	float2 *partial_state;	/* (splits, head_count) maximum and sum, float32 */
	uint32_t *arrivals;	/* see struct decode_work */
	const uint16_t *query;	/* (row_count, head_count, head_dim) bf16 */
	const uint16_t *keys;	/* (blocks, kv_head_count, block_size, head_dim) bf16 */
	const uint16_t *values; /* the same */
	const uint32_t *tables; /* (any, table_width) */
	const uint32_t *rows;	/* (rows of the batch) index into tables */
	const uint32_t *contexts;
	const uint32_t *split_start;
	const struct decode_launch *launch;
	const struct decode_claim *claims;
	uint32_t first_row, row_count;
	float scale; /* log2(e) / sqrt(head_dim): scores times it are exponents of 2 */
	struct attention_shape shape;
};

/* head_dim 32, 64 or 128. */
int decode_attention_sm80(const decode_arguments &a, uint32_t block_count, cudaStream_t stream);

/* head_dim 64 or 128. */
int decode_attention_sm90(const decode_arguments &a, uint32_t block_count, cudaStream_t stream);

int decode_attention_shared_sm90(
	const decode_arguments &a, uint32_t block_count, cudaStream_t stream);

/* Whether all clusters of row_count rows are sure to be resident at once on block_count
   multiprocessors, so that decode_attention_cluster_sm90() is faster. */
bool decode_attention_fits_clusters(
	uint32_t row_count, const struct attention_shape *shape, uint32_t block_count);
int decode_attention_cluster_sm90(const decode_arguments &a, cudaStream_t stream);

#endif
