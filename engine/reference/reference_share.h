#ifndef ENGINE_REFERENCE_REFERENCE_SHARE_H
#define ENGINE_REFERENCE_REFERENCE_SHARE_H

#include <stdint.h>

#include "engine/batch.h"
#include "engine/model/weights.h"
#include "kernels/attention/paged_kv.h"
#include "kernels/op/number.h"

/* One rank's share of the forward pass on the CPU: its query and key/value heads, its slice of the
   intermediate size and of the vocabulary (engine/shape/weight_shape.h). What follows from whole
   rows, such as norms, belongs to engine/reference/reference_forward.h, which adds what the shares
   leave.

   T = tokens of the batch; H, K, I = query heads, key/value heads and intermediate size of the
   share. Tensors are float32. */

/* A weight in memory: a matrix in bf16 where that is exact or requested, else in float32; a
   vector in float32 always, rounded alike. */
struct reference_tensor {
	float *f32;
	uint16_t *bf16;
};

struct reference_tensor reference_tensor_load(const struct weights *weights, enum weight weight,
	uint32_t layer, struct weight_shard shard, enum rounding rounding);
void reference_tensor_free(struct reference_tensor *tensor);

static inline struct matrix reference_matrix(const struct reference_tensor *tensor)
{
	return (struct matrix){.f32 = tensor->f32, .bf16 = tensor->bf16};
}

struct reference_share {
	struct weight_shard shard;
	enum rounding rounding;
	struct model_config model; /* of the shard, see weight_shard_config() */
	struct attention_shape shape;
	const float *rope; /* (positions, head_dim / 2, 2); borrowed */
	/* (num_hidden_layers, WEIGHT_COUNT), all but the embedding; not layered: of layer 0 */
	struct reference_tensor *tensors;
	struct weight_range vocabulary; /* ids of its lm_head */
	struct matrix head;		/* (vocabulary.count, hidden_size) */

	float *pool;		/* [layer][k|v][block][kv_head][token][head_dim] */
	uint64_t pool_elements; /* of the keys, or the values, of one layer */

	float *qkv;	  /* (T, (H + 2 * K) * head_dim) */
	float *query;	  /* (T, H, head_dim) */
	float *attended;  /* (T, H, head_dim) */
	float *gate_up;	  /* (T, 2 * I) */
	float *activated; /* (T, I) */
};

struct reference_share_options {
	const struct weights *weights; /* read when opened, not needed afterwards */
	struct weight_shard shard;
	enum rounding rounding;
	uint32_t token_capacity;
	uint32_t block_size, block_count, table_width;
	const float *rope;			  /* borrowed */
	const struct reference_tensor *embedding; /* whole; borrowed for a tied lm_head */
};

/* The sizes must have been checked. */
void reference_share_open(
	struct reference_share *share, const struct reference_share_options *options);
void reference_share_close(struct reference_share *share);

/* NULL for a bias that the model does not have. */
const float *reference_share_vector(
	const struct reference_share *share, enum weight weight, uint32_t layer);

/* Stores the layer's keys and values of the batch, attends, and multiplies by the columns of o.
   partial, hidden: (T, hidden_size), may be the same. */
void reference_share_attention(struct reference_share *share, float *partial, const float *hidden,
	const struct batch *batch, const uint32_t *tables, uint32_t layer);

/* The share of the gated MLP. partial, hidden: (token_count, hidden_size), may be the same. */
void reference_share_mlp(struct reference_share *share, float *partial, const float *hidden,
	uint32_t layer, uint32_t token_count);

/* logits: (row_count, vocabulary.count); hidden: (row_count, hidden_size). */
void reference_share_logits(const struct reference_share *share, float *logits, const float *hidden,
	uint32_t row_count);

#endif
