#include "kernels/attention/qk_norm_rope_store.h"

#include "engine/base/check.h"
#include "kernels/rows/rms_norm.h"

#include <stddef.h>

/* out, in, weight: (head_dim); rope: (head_dim / 2, 2) of the token's position. */
static void norm_rope(float *out, const float *in, const float *weight, const float *rope,
	uint32_t head_dim, float epsilon, enum rounding rounding)
{
	float scale = rms_norm_scale(in, head_dim, epsilon);
	uint32_t half = head_dim / 2;

	for (uint32_t i = 0; i < half; i++) {
		float cosine = rope[2 * i];
		float sine = rope[2 * i + 1];
		float low = in[i] * scale * weight[i];
		float high = in[i + half] * scale * weight[i + half];
		out[i] = rounded(low * cosine - high * sine, rounding);
		out[i + half] = rounded(high * cosine + low * sine, rounding);
	}
}

void qk_norm_rope_store_cpu(float *query, float *keys, float *values, const float *qkv,
	const uint32_t *positions, const int64_t *slots, uint32_t token_count,
	const struct qk_norm_rope *norm, const struct attention_shape *shape,
	enum rounding rounding)
{
	uint32_t dim = shape->head_dim;
	size_t width = (size_t)(shape->head_count + 2 * shape->kv_head_count) * dim;

	check(dim % 2 == 0);
	for (uint32_t t = 0; t < token_count; t++) {
		const float *q = qkv + t * width;
		const float *k = q + (size_t)shape->head_count * dim;
		const float *v = k + (size_t)shape->kv_head_count * dim;
		const float *rope = norm->rope + (size_t)positions[t] * dim;
		for (uint32_t h = 0; h < shape->head_count; h++) {
			norm_rope(query + ((size_t)t * shape->head_count + h) * dim,
				q + (size_t)h * dim, norm->q_weight, rope, dim, norm->epsilon,
				rounding);
		}
		if (slots[t] < 0) {
			continue;
		}
		uint64_t block = (uint64_t)slots[t] / shape->block_size;
		uint32_t token = (uint32_t)((uint64_t)slots[t] % shape->block_size);
		for (uint32_t h = 0; h < shape->kv_head_count; h++) {
			uint64_t at = paged_kv_offset(shape, block, h, token);
			norm_rope(keys + at, k + (size_t)h * dim, norm->k_weight, rope, dim,
				norm->epsilon, rounding);
			for (uint32_t i = 0; i < dim; i++) {
				values[at + i] = rounded(v[(size_t)h * dim + i], rounding);
			}
		}
	}
}
