#ifndef ENGINE_SHAPE_WEIGHT_SHAPE_H
#define ENGINE_SHAPE_WEIGHT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/shape/model_config.h"

/* The weights of a Qwen3 as the forward pass multiplies by them, and their shapes. A weight may
   pack several tensors of a checkpoint, called its parts, stacked by rows.

   All are matrices (rows, columns), row-major; vectors have one row. With H = num_attention_heads,
   K = num_key_value_heads, D = head_dim, I = intermediate_size: */
enum weight {
	WEIGHT_EMBEDDING,  /* (vocab_size, hidden_size) */
	WEIGHT_INPUT_NORM, /* (1, hidden_size) */
	WEIGHT_QKV,	   /* (H * D + 2 * K * D, hidden_size): q of all heads, then k, then v */
	WEIGHT_QKV_BIAS,   /* (1, H * D + 2 * K * D) with attention_bias */
	WEIGHT_Q_NORM,	   /* (1, D) */
	WEIGHT_K_NORM,	   /* (1, D) */
	WEIGHT_O,	   /* (hidden_size, H * D) */
	WEIGHT_O_BIAS,	   /* (1, hidden_size) with attention_bias */
	WEIGHT_POST_NORM,  /* (1, hidden_size) */
	WEIGHT_GATE_UP,	   /* (2 * I, hidden_size): gate, then up */
	WEIGHT_DOWN,	   /* (hidden_size, I) */
	WEIGHT_FINAL_NORM, /* (1, hidden_size) */
	WEIGHT_LM_HEAD,	   /* (vocab_size, hidden_size); the embedding when tie_word_embeddings */
	WEIGHT_COUNT
};

enum weight_form { WEIGHT_MATRIX, WEIGHT_BIAS, WEIGHT_NORM };

enum { WEIGHT_PARTS_MAX = 3 };

struct weight_shape {
	uint32_t rows;
	uint32_t columns;
};

/* Rows or columns. */
struct weight_range {
	uint32_t first;
	uint32_t count;
};

const char *weight_name(enum weight weight);
enum weight_form weight_form(enum weight weight);

/* Number of layers that have the weight; 1 for a weight that is not layered. */
uint32_t weight_layer_count(const struct model_config *config, enum weight weight);
bool weight_is_layered(enum weight weight);

/* Whether a model of this shape has the weight. Only biases may be missing; lm_head exists even
   when it is tied to the embedding. */
bool weight_exists(const struct model_config *config, enum weight weight);

/* Whether the weight is lm_head tied to the embedding, without values of its own. */
bool weight_is_tied(const struct model_config *config, enum weight weight);

/* Number of instances with values of their own: one per layer, or one; 0 if missing or tied. */
uint32_t weight_stored_count(const struct model_config *config, enum weight weight);

/* Parts of a whole weight. Here a vector is one column, so that one rule packs and shards rows of
   matrices and elements of vectors. */
uint32_t weight_part_count(enum weight weight);
struct weight_shape weight_part_shape(
	const struct model_config *config, enum weight weight, uint32_t part);

/* ---- shards ----

   The part of each weight that one of `ranks` holds: its heads (their rows of qkv and its bias,
   their columns of o), its slice of the intermediate size (rows of gate and of up, columns of
   down), its slice of the vocabulary (rows of lm_head: [V * rank / ranks, V * (rank + 1) / ranks),
   of the embedding where that is tied). The embedding, the norms and the bias of o are whole on
   every rank: each looks up every token, and rank 0 alone adds the bias of o. */
struct weight_shard {
	uint32_t rank;
	uint32_t ranks;
};

static const struct weight_shard WEIGHT_WHOLE = {0, 1};

enum { TENSOR_PARALLEL_MAX = 8 }; /* ranks: the key/value heads of every dense Qwen3 */

/* Refuses a number of ranks above the key/value heads, since heads are not replicated, and one that
   does not divide the heads, the key/value heads or the intermediate size, by name. */
enum status weight_shard_check(
	const struct model_config *config, struct weight_shard shard, struct error *error);

struct weight_shape weight_shape(
	const struct model_config *config, enum weight weight, struct weight_shard shard);

/* The configuration whose whole weights have the shapes of this shard's, but for the embedding:
   heads, key/value heads and the intermediate size divided, and the rows of lm_head as vocab_size.
   What depends on shapes alone, such as the tensors of a step and the KV pool, takes it in place of
   the model's. */
struct model_config weight_shard_config(
	const struct model_config *config, struct weight_shard shard);

/* The rows of a part and the columns of a weight that a shard holds, a vector being one column. */
struct weight_range weight_shard_rows(const struct model_config *config, enum weight weight,
	uint32_t part, struct weight_shard shard);
struct weight_range weight_shard_columns(
	const struct model_config *config, enum weight weight, struct weight_shard shard);

/* ---- linear layers ----

   y = x W^T of the forward pass, in its order: x (tokens, inputs), W (outputs, inputs), y (tokens,
   outputs). lm_head runs once a step over the sampled rows, the others in every layer. */
enum model_linear {
	MODEL_LINEAR_QKV,
	MODEL_LINEAR_O,
	MODEL_LINEAR_GATE_UP,
	MODEL_LINEAR_DOWN,
	MODEL_LINEAR_LM_HEAD,
	MODEL_LINEAR_COUNT
};

struct model_linear_shape {
	uint32_t inputs;
	uint32_t outputs;
};

const char *model_linear_name(enum model_linear linear);
struct model_linear_shape model_linear_shape(
	const struct model_config *config, enum model_linear linear);

/* ---- sums ---- */

/* Number of parameters, with norms and biases; tied embeddings count once. */
uint64_t weight_parameter_count(const struct model_config *config);

/* Bytes of all parameters in bf16; of those that a rank holds. */
uint64_t weight_total_bytes(const struct model_config *config);
uint64_t weight_shard_bytes(const struct model_config *config, struct weight_shard shard);

#endif
