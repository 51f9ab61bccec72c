#ifndef KERNELS_ATTENTION_DECODE_ATTENTION_CUH
#define KERNELS_ATTENTION_DECODE_ATTENTION_CUH

#include "kernels/attention/decode_attention.h"
#include "kernels/device/early_launch.cuh"

/* What both paths of decode attention share. */

enum { GROUP_MAX = 8 }; /* query heads of a key/value head */

struct decode_arguments {
	uint16_t *out;
	float *partial_out;
	float2 *partial_state;
	uint32_t *arrivals;
	const uint16_t *query, *keys, *values;
	const uint32_t *tables, *rows, *contexts;
	const struct decode_split *splits;
	const uint32_t *split_start;
	uint32_t first_row, row_count;
	float scale; /* of scores, in units of log2 */
	struct attention_shape shape;
};

/* head_dim 64 or 128; as decode_attention() otherwise. */
int decode_attention_sm90(const decode_arguments &a, uint32_t block_count, cudaStream_t stream);

/* The same bits, for as few rows as decode_attention_is_few() says. */
bool decode_attention_is_few(
	uint32_t row_count, const struct attention_shape *shape, uint32_t block_count);
int decode_attention_few(const decode_arguments &a, cudaStream_t stream);

#endif
