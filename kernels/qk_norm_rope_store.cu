#include "kernels/device.cuh"
#include "kernels/qk_norm_rope_store.h"

/* A warp for each head of a token: q heads, k heads, v heads, as they lie in a row of qkv. */

enum { HEAD_WARPS = 8, PAIRS_MAX = 4 }; /* head_dim <= 2 * 32 * PAIRS_MAX */

struct head_place {
	const uint16_t *in; /* (head_dim) in qkv */
	uint16_t *out;	    /* (head_dim) */
	uint32_t lane;
	uint32_t turn; /* element i lies at out[i ^ turn], as the pool permutes chunks */
};

/* ---- kernels ---- */

static __device__ void norm_rope(const head_place &place, const uint16_t *weight, const float *rope,
	uint32_t head_dim, float epsilon)
{
	uint32_t half = head_dim / 2;
	float low[PAIRS_MAX], high[PAIRS_MAX];
	float square = 0;

#pragma unroll
	for (int j = 0; j < PAIRS_MAX; j++) {
		uint32_t i = place.lane + j * WARP;
		low[j] = i < half ? bf16_load(place.in + i) : 0.0f;
		high[j] = i < half ? bf16_load(place.in + half + i) : 0.0f;
		square += low[j] * low[j] + high[j] * high[j];
	}
	float scale = 1.0f / sqrtf(warp_sum(square) / (float)head_dim + epsilon);
#pragma unroll
	for (int j = 0; j < PAIRS_MAX; j++) {
		uint32_t i = place.lane + j * WARP;
		if (i < half) {
			float2 turn = reinterpret_cast<const float2 *>(rope)[i];
			float a = low[j] * scale * bf16_load(weight + i);
			float b = high[j] * scale * bf16_load(weight + half + i);
			bf16_store(place.out + (i ^ place.turn), a * turn.x - b * turn.y);
			bf16_store(place.out + ((half + i) ^ place.turn), b * turn.x + a * turn.y);
		}
	}
}

static __global__ void qk_norm_rope_store_kernel(uint16_t *query, uint16_t *keys, uint16_t *values,
	const uint16_t *qkv, const uint32_t *positions, const int64_t *slots,
	struct qk_norm_rope_device norm, struct attention_shape shape)
{
	uint32_t heads = shape.head_count + 2 * shape.kv_head_count;
	uint32_t token = blockIdx.x;
	uint32_t head = blockIdx.y * HEAD_WARPS + threadIdx.x / WARP;
	uint32_t lane = threadIdx.x % WARP;

	if (head >= heads) {
		return;
	}
	head_place place;
	place.lane = lane;
	place.in = qkv + ((size_t)token * heads + head) * shape.head_dim;
	const float *rope = norm.rope + (size_t)positions[token] * shape.head_dim;
	if (head < shape.head_count) {
		place.out = query + ((size_t)token * shape.head_count + head) * shape.head_dim;
		place.turn = 0;
		norm_rope(place, norm.q_weight, rope, shape.head_dim, norm.epsilon);
		return;
	}
	int64_t slot = slots[token];
	if (slot < 0) {
		return;
	}
	bool is_key = head < shape.head_count + shape.kv_head_count;
	uint32_t kv_head = head - shape.head_count - (is_key ? 0 : shape.kv_head_count);
	uint32_t in_block = (uint32_t)((uint64_t)slot % shape.block_size);
	uint64_t offset =
		paged_kv_offset(&shape, (uint64_t)slot / shape.block_size, kv_head, in_block);
	place.out = (is_key ? keys : values) + offset;
	place.turn = paged_kv_chunk(&shape, in_block, 0) * 8;
	if (is_key) {
		norm_rope(place, norm.k_weight, rope, shape.head_dim, norm.epsilon);
		return;
	}
	for (uint32_t i = lane; i < shape.head_dim; i += WARP) {
		place.out[i ^ place.turn] = place.in[i];
	}
}

/* ---- launchers ---- */

int qk_norm_rope_store(uint16_t *query, uint16_t *keys, uint16_t *values, const uint16_t *qkv,
	const uint32_t *positions, const int64_t *slots, uint32_t token_count,
	const struct qk_norm_rope_device *norm, const struct attention_shape *shape,
	struct CUstream_st *stream)
{
	uint32_t heads = shape->head_count + 2 * shape->kv_head_count;

	if (shape->head_dim > 2 * WARP * PAIRS_MAX || shape->head_dim < 16 ||
		(shape->head_dim & (shape->head_dim - 1)) != 0) {
		return cudaErrorInvalidValue;
	}
	if (token_count > 0) {
		dim3 grid(token_count, (heads + HEAD_WARPS - 1) / HEAD_WARPS);
		qk_norm_rope_store_kernel<<<grid, HEAD_WARPS * WARP, 0, stream>>>(
			query, keys, values, qkv, positions, slots, *norm, *shape);
	}
	return cudaGetLastError();
}
