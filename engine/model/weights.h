#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/counter_hash.h"
#include "engine/base/status.h"
#include "engine/shape/model_config.h"

/* The weights of a Qwen3 as the forward pass multiplies by them: logical tensors that may pack
   several of a checkpoint's, read row by row as float32 or as bf16, from memory-mapped safetensors
   or made up from a seed.

   All are matrices (rows, columns), row-major; vectors have one row. What a row of a packed tensor
   is, with H = num_attention_heads, K = num_key_value_heads, D = head_dim, I = intermediate_size:

       qkv      q rows of head 0 .. H-1 (H * D), then k rows (K * D), then v rows (K * D)
       gate_up  gate rows (I), then up rows (I)

   X(name, text, whether there is one a layer) */
#define WEIGHT_LIST(X)                                                                             \
	X(WEIGHT_EMBEDDING, "embedding", false)	  /* (vocab_size, hidden_size) */                  \
	X(WEIGHT_INPUT_NORM, "input_norm", true)  /* (1, hidden_size) */                           \
	X(WEIGHT_QKV, "qkv", true)		  /* (H * D + 2 * K * D, hidden_size) */           \
	X(WEIGHT_QKV_BIAS, "qkv_bias", true)	  /* (1, H * D + 2 * K * D) with attention_bias */ \
	X(WEIGHT_Q_NORM, "q_norm", true)	  /* (1, D) */                                     \
	X(WEIGHT_K_NORM, "k_norm", true)	  /* (1, D) */                                     \
	X(WEIGHT_O, "o", true)			  /* (hidden_size, H * D) */                       \
	X(WEIGHT_O_BIAS, "o_bias", true)	  /* (1, hidden_size) with attention_bias */       \
	X(WEIGHT_POST_NORM, "post_norm", true)	  /* (1, hidden_size) */                           \
	X(WEIGHT_GATE_UP, "gate_up", true)	  /* (2 * I, hidden_size) */                       \
	X(WEIGHT_DOWN, "down", true)		  /* (hidden_size, I) */                           \
	X(WEIGHT_FINAL_NORM, "final_norm", false) /* (1, hidden_size) */                           \
	X(WEIGHT_LM_HEAD, "lm_head", false)	  /* (vocab_size, hidden_size); the embedding when \
						     tie_word_embeddings */

enum weight {
#define WEIGHT_ENUM(name, text, is_layered) name,
	WEIGHT_LIST(WEIGHT_ENUM)
#undef WEIGHT_ENUM
		WEIGHT_COUNT
};

const char *weight_name(enum weight weight);
bool weight_is_layered(enum weight weight);

/* Does a model of this shape have it? Only biases may be missing; lm_head is there even when it is
   the embedding. */
bool weight_exists(const struct model_config *config, enum weight weight);

/* What one of `ranks` holds of each tensor: its heads (their rows of qkv and its bias, their
   columns of o), its share of the intermediate size (rows of gate and of up, columns of down), its
   share of the vocabulary (rows of embedding and lm_head: [V * rank / ranks, V * (rank + 1) /
   ranks)). Norms and the bias of o are whole on every rank; the latter is to be added once. */
struct weight_shard {
	uint32_t rank;
	uint32_t ranks;
};

static const struct weight_shard WEIGHT_WHOLE = {0, 1};

/* Refuses a number of ranks that does not divide the heads, the key/value heads or the intermediate
   size, by name. */
enum status weight_shard_check(
	const struct model_config *config, struct weight_shard shard, struct error *error);

struct weight_shape {
	uint32_t rows;
	uint32_t columns;
};

struct weight_shape weight_shape(
	const struct model_config *config, enum weight weight, struct weight_shard shard);

struct weights;

/* Opens what `source` names: "dummy:SEED" (a decimal seed below 2^64), or a folder with
   model.safetensors, or with model.safetensors.index.json and the files it names. Everything is
   checked before the first read: each tensor's dtype (BF16, F16 or F32), shape and place within
   its file; tensors that are missing or that the model has no use for are listed in the error.
   lm_head.weight may be there with tied embeddings, with the same bytes. The configuration is
   copied. */
enum status weights_open(struct weights **out, const struct model_config *config,
	const char *source, struct error *error);

/* Accepts NULL. */
void weights_close(struct weights *weights);

const struct model_config *weights_config(const struct weights *weights);

/* Are these dummy weights? Then *seed is theirs. */
bool weights_are_dummy(const struct weights *weights, uint64_t *seed);

/* Reads `row_count` rows from `first_row` on of a shard of a tensor into out (row_count, columns of
   the shard). layer is 0 for a tensor that is not layered. The weight must exist and the shard be
   checked. float32 holds every stored value exactly; bf16 is rounded to nearest, ties to even.
   Reads from several threads may overlap. */
void weights_read_f32(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count, float *out);
void weights_read_bf16(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count, uint16_t *out);

/* Writes the weights as one bf16 model.safetensors and the configuration as config.json into a
   folder that exists, under the names that Hugging Face gives them, so that other programs run the
   same model. A file that is there already is refused. */
enum status weights_export(const struct weights *weights, const char *folder, struct error *error);

/* ---- dummy weights ----

   Element i (row * columns + column of the whole tensor, packed as above) of a dummy tensor is a
   small integer times a power of two, made from one byte of a counter-based hash:

       byte   = byte i % 8, least significant first, of counter_hash(key, i / 8)
       matrix   (2 * byte - 255) * 2^-shift     uniform; deviation in (1/2, 1] of 1 / sqrt(columns)
       bias     (2 * byte - 255) * 2^-12        within 1/16
       norm     (112 + byte % 32) * 2^-7        within [7/8, 9/8)

   Each has at most 8 significant bits, so it is exact in bf16, and integers decide every bit: a GPU
   makes the same. A tied lm_head is the embedding. */

struct weight_dummy {
	uint64_t key;
	uint32_t shift;
	bool is_norm;
};

struct weight_dummy weight_dummy(
	const struct model_config *config, uint64_t seed, enum weight weight, uint32_t layer);

/* The bf16 bits of element `index`. */
BOTH_SIDES static inline uint16_t weight_dummy_bf16(struct weight_dummy dummy, uint64_t index)
{
	uint32_t byte = (uint32_t)(counter_hash(dummy.key, index >> 3) >> (8 * (index & 7))) & 255;
	uint32_t sign = !dummy.is_norm && byte < 128 ? 0x8000 : 0;
	uint32_t value = dummy.is_norm ? 112 + (byte & 31) : sign ? 255 - 2 * byte : 2 * byte - 255;
	uint32_t exponent = 127 + 7 - dummy.shift;

	/* value is in [1, 255]: moves its leading bit to bit 7, where bf16 leaves it out */
	while (value < 128) {
		value <<= 1;
		exponent--;
	}
	return (uint16_t)(sign | exponent << 7 | (value & 127));
}

#endif
