#include "kernels/attention/attention_row.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "kernels/op/dot.h"
#include "kernels/op/elementary.h"

#include <math.h>

struct running {
	float maximum;
	float sum;
	float weighted[ATTENTION_HEAD_DIM_MAX]; /* (head_dim) */
};

static float exp_float(float x)
{
	return (float)elementary_exp((double)x);
}

/* Adds a tile of `count` tokens to the online softmax. offsets: (count) of each token's key and
   value. */
static void add_tile(struct running *running, const float *query, const float *keys,
	const float *values, const uint64_t *offsets, uint32_t count, uint32_t dim)
{
	float scores[ATTENTION_TILE];
	float divisor = sqrtf((float)dim);
	float maximum = running->maximum;

	for (uint32_t t = 0; t < count; t++) {
		scores[t] = dot_f32(query, keys + offsets[t], dim) / divisor;
		maximum = scores[t] > maximum ? scores[t] : maximum;
	}
	float rescale = exp_float(running->maximum - maximum);
	running->maximum = maximum;
	running->sum *= rescale;
	for (uint32_t i = 0; i < dim; i++) {
		running->weighted[i] *= rescale;
	}
	for (uint32_t t = 0; t < count; t++) {
		float weight = exp_float(scores[t] - maximum);
		const float *value = values + offsets[t];
		running->sum += weight;
		for (uint32_t i = 0; i < dim; i++) {
			running->weighted[i] += weight * value[i];
		}
	}
}

void attention_row_cpu(float *out, const float *query, const float *keys, const float *values,
	const uint32_t *table, uint32_t context, uint32_t kv_head,
	const struct attention_shape *shape, enum rounding rounding)
{
	struct running running;
	uint64_t offsets[ATTENTION_TILE];
	uint32_t dim = shape->head_dim;

	check(context >= 1);
	check(context <= (uint64_t)shape->table_width * shape->block_size);
	check(dim <= ATTENTION_HEAD_DIM_MAX);
	running.maximum = -INFINITY;
	running.sum = 0;
	for (uint32_t i = 0; i < dim; i++) {
		running.weighted[i] = 0;
	}
	for (uint32_t first = 0; first < context; first += ATTENTION_TILE) {
		uint32_t count = u32_min(context - first, ATTENTION_TILE);
		for (uint32_t t = 0; t < count; t++) {
			uint32_t position = first + t;
			offsets[t] = paged_kv_offset(shape, table[position / shape->block_size],
				kv_head, position % shape->block_size);
		}
		add_tile(&running, query, keys, values, offsets, count, dim);
	}
	for (uint32_t i = 0; i < dim; i++) {
		out[i] = rounded(running.weighted[i] / running.sum, rounding);
	}
}
