#ifndef ENGINE_SHAPE_STEP_TENSORS_H
#define ENGINE_SHAPE_STEP_TENSORS_H

#include <stdint.h>

#include "engine/shape/model_config.h"

/* The tensors of a step that the CUDA engine allocates when it opens, with their sizes. Estimates
   of memory without a GPU count the same tensors. */

/* The limits that determine the sizes of the tensors. */
struct model_step_limits {
	uint64_t tokens;    /* in a step */
	uint64_t samples;   /* rows in a step that end in a sampled token */
	uint64_t splits;    /* of decode attention in one launch */
	uint64_t positions; /* in a sequence */
};

/* The limits of an engine; max_model_len tokens a sequence. */
struct model_step_limits model_step_limits(
	uint64_t max_num_batched_tokens, uint64_t max_num_seqs, uint64_t max_model_len);

/* T = tokens, S = samples, P = splits, H = num_attention_heads, K = num_key_value_heads,
   D = head_dim, I = intermediate_size, V = vocab_size. In the order in which they are allocated:
   how long a step of few rows takes depends on where they lie (kernels/attention/TUNING.md), so
   those that grow with max_model_len are last and move no other. */
enum step_tensor {
	STEP_TENSOR_SAMPLED_HIDDEN, /* (S, hidden_size) bf16 */
	STEP_TENSOR_LOGITS,	    /* (S, V) float32 */
	STEP_TENSOR_SAMPLER_TILES,  /* (S, ceil(V / SAMPLER_TILE)) */
	STEP_TENSOR_ARRIVALS,	    /* (decode_counters(S, K)) uint32 */
	STEP_TENSOR_SPLIT_K_SUMS,   /* (split-K of o and down, S, hidden_size) float32; none at 1 */
	STEP_TENSOR_RESIDUAL,	    /* (T, hidden_size) bf16 */
	STEP_TENSOR_HIDDEN,	    /* (T, hidden_size) bf16 */
	STEP_TENSOR_QKV,	    /* (T, (H + 2 * K) * D) bf16 */
	STEP_TENSOR_QUERY,	    /* (T, H, D) bf16 */
	STEP_TENSOR_ATTENDED,	    /* (T, H, D) bf16 */
	STEP_TENSOR_GATE_UP,	    /* (T, 2 * I) bf16 */
	STEP_TENSOR_ACTIVATED,	    /* (T, I) bf16 */
	STEP_TENSOR_PARTIAL_OUT,    /* (P, H, D) float32: results of splits */
	STEP_TENSOR_PARTIAL_STATE,  /* (P, H, 2) float32: their maxima and sums */
	STEP_TENSOR_COUNT
};

struct step_tensor_size {
	uint64_t count; /* of elements */
	uint32_t element_bytes;
};

struct step_tensor_size step_tensor_size(enum step_tensor tensor, const struct model_config *config,
	const struct model_step_limits *limits);

/* Bytes of all tensors of a step and of the rope table. */
uint64_t step_tensors_bytes(
	const struct model_config *config, const struct model_step_limits *limits);

#endif
