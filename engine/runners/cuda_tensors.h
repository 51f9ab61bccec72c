#ifndef ENGINE_RUNNERS_CUDA_TENSORS_H
#define ENGINE_RUNNERS_CUDA_TENSORS_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/model/weights.h"
#include "engine/shape/step_tensors.h"

/* The device memory of the forward pass: weights, the KV pool, and the tensors of a step, sized
   by engine/shape/step_tensors.h for the configuration of the rank's shard (weight_shard_config()).
   The embedding table is whole on every rank. T = limits.tokens, S = limits.samples. */
struct cuda_tensors {
	uint16_t **weights; /* (num_hidden_layers, WEIGHT_COUNT); not layered: of layer 0 */
	uint32_t weight_count;
	float *rope; /* (limits.positions, head_dim / 2, 2) */

	uint16_t *pool;		/* [layer][k|v][block][kv_head][token][head_dim] */
	uint64_t pool_elements; /* of the keys, or the values, of one layer */

	uint16_t *residual;	  /* (T, hidden_size) */
	uint16_t *hidden;	  /* (T, hidden_size) */
	uint16_t *qkv;		  /* (T, (heads + 2 * kv_heads) * head_dim) */
	uint16_t *query;	  /* (T, heads, head_dim) */
	uint16_t *attended;	  /* (T, heads, head_dim) */
	uint16_t *gate_up;	  /* (T, 2 * intermediate_size) */
	uint16_t *activated;	  /* (T, intermediate_size) */
	uint16_t *sampled_hidden; /* (S, hidden_size) */
	float *logits;		  /* (S, vocab_size) */
	void *sampler_tiles;
	float *partial_out;   /* (limits.splits, heads, head_dim) */
	float *partial_state; /* (limits.splits, heads, 2) */
	uint32_t *arrivals;   /* (decode_counters()) see struct decode_work */
	float *split_k_sums;  /* (SPLIT_K, S, hidden_size) of LINEAR_CUBLASLT_SPLIT_K */
	uint64_t split_k_bytes;
};

/* Allocates everything but the KV pool, and uploads the weights. */
enum status cuda_tensors_open(struct cuda_tensors *tensors, const struct weights *weights,
	struct weight_shard shard, const struct model_step_limits *limits, struct error *error);
void cuda_tensors_close(struct cuda_tensors *tensors);

/* Allocates the KV pool, filled by cuda_fill_dummy(): contexts that a trace stores are read without
   having been computed, and a GPU takes less power, so less time, for zeros than for numbers. */
enum status cuda_tensors_open_pool(struct cuda_tensors *tensors, const struct model_config *model,
	uint64_t pool_bytes, struct error *error);
void cuda_tensors_close_pool(struct cuda_tensors *tensors);

/* The device memory of a weight, or NULL if the model lacks it. layer: 0 for a weight that is
   not layered. */
const uint16_t *cuda_tensors_weight(
	const struct cuda_tensors *tensors, enum weight weight, uint32_t layer);

#endif
