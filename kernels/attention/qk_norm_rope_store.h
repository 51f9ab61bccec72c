#ifndef KERNELS_ATTENTION_QK_NORM_ROPE_STORE_H
#define KERNELS_ATTENTION_QK_NORM_ROPE_STORE_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"
#include "kernels/attention/paged_kv.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Between the qkv linear layer and attention: normalises each head of the queries and keys, rotates
   it by its position (RoPE), and stores keys and values into the paged KV pool.

       qkv[t]              = q heads (head_count), k heads (kv_head_count), v heads (kv_head_count)
       x                   = a q or k head of token t; y = x * rms_norm_scale(x) * weight
       rotated[i]          = round(y[i] * cos - y[i + half] * sin)         for i in [0, half),
       rotated[i + half]   = round(y[i + half] * cos + y[i] * sin)         half = head_dim / 2
       (cos, sin)          = rope[positions[t]][i]

       query[t][h]         = the rotated q head
       keys at slots[t]    = the rotated k head; slot -1: not stored
       values at slots[t]  = round(v head); slot -1: not stored

   The norm comes before the rotation, and its result is not rounded in between. */

struct qk_norm_rope {
	const float *q_weight; /* (head_dim) */
	const float *k_weight; /* (head_dim) */
	const float *rope;     /* (positions, head_dim / 2, 2), kernels/attention/rope_table.h */
	float epsilon;
};

/* query: (token_count, head_count, head_dim); keys, values: of one layer,
   kernels/attention/paged_kv.h; qkv: (token_count, (head_count + 2 * kv_head_count) * head_dim);
   positions, slots: (token_count). */
void qk_norm_rope_store_cpu(float *query, float *keys, float *values, const float *qkv,
	const uint32_t *positions, const int64_t *slots, uint32_t token_count,
	const struct qk_norm_rope *norm, const struct attention_shape *shape,
	enum rounding rounding);

/* The same on the GPU. */
struct qk_norm_rope_device {
	const uint16_t *q_weight; /* (head_dim) bf16 */
	const uint16_t *k_weight; /* (head_dim) bf16 */
	const float *rope;	  /* (positions, head_dim / 2, 2) float32 */
	float epsilon;
};

/* On the GPU: head_dim is a power of two from 16 to 256; rows of the pool are swizzled as
   paged_kv_chunk() says. The order of a head's sum of squares depends on head_dim only. */
int qk_norm_rope_store(uint16_t *query, uint16_t *keys, uint16_t *values, const uint16_t *qkv,
	const uint32_t *positions, const int64_t *slots, uint32_t token_count,
	const struct qk_norm_rope_device *norm, const struct attention_shape *shape,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
