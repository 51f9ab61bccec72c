#ifndef KERNELS_ATTENTION_PREFILL_ATTENTION_CUH
#define KERNELS_ATTENTION_PREFILL_ATTENTION_CUH

#include "kernels/device/early_launch.cuh"
#include "kernels/attention/prefill_attention.h"

/* What both paths of prefill attention share. */

struct prefill_arguments {
	uint16_t *out;
	const uint16_t *query, *keys, *values;
	const uint32_t *tables, *rows, *query_start, *contexts;
	const struct prefill_tile *tiles;
	uint32_t tile_count;
	uint32_t part_count; /* of a tile, on sm_90 */
	float scale;	     /* of scores, in units of log2 */
	struct attention_shape shape;
};

/* head_dim 64 or 128; as prefill_attention() otherwise. */
int prefill_attention_sm90(const prefill_arguments &a, cudaStream_t stream);

#endif
