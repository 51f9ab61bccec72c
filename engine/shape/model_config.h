#ifndef ENGINE_SHAPE_MODEL_CONFIG_H
#define ENGINE_SHAPE_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/* The configuration of a Qwen3 model, by the names of its config.json. The published dense models
   are built in; engine/model/config_json.h reads others. */

enum {
	MODEL_NAME_BYTES = 64,
	MODEL_UNCOMPUTED_BYTES = 64,
	MODEL_EOS_MAX = 8,
	MODEL_QWEN3_HEAD_DIM = 128
};

/* The engine holds weights, activations, K and V in bf16. */
enum { MODEL_ELEMENT_BYTES = 2 };

enum model_dtype { MODEL_DTYPE_BFLOAT16, MODEL_DTYPE_FLOAT16, MODEL_DTYPE_FLOAT32 };

struct model_config {
	char name[MODEL_NAME_BYTES]; /* "qwen3-0.6b", or the last folder of the path it came from */
	uint32_t hidden_size;
	uint32_t num_hidden_layers;
	uint32_t num_attention_heads;
	uint32_t num_key_value_heads; /* divides num_attention_heads */
	uint32_t head_dim;
	uint32_t intermediate_size;
	uint32_t vocab_size;
	uint32_t max_position_embeddings; /* longest sequence the model was trained for */
	double rms_norm_eps;
	double rope_theta;
	bool tie_word_embeddings; /* lm_head is the embedding table */
	bool attention_bias;	  /* qkv and o have biases */
	enum model_dtype dtype;	  /* of the weights as published; the GPU engine holds bf16 */
	int32_t eos_token_ids[MODEL_EOS_MAX];
	uint32_t eos_token_id_count; /* 0: the file has none */
	/* What no runner computes of it, as 'model_type "llama"', so that it is priced only; "":
	   nothing */
	char uncomputed[MODEL_UNCOMPUTED_BYTES];
};

/* The built-in models in order of size; NULL from model_config_name(model_config_count()) on. */
uint32_t model_config_count(void);
const char *model_config_name(uint32_t index);

/* The model of a name: qwen3-8b, or as it is published, Qwen/Qwen3-8B. False: none is built in. */
bool model_config_builtin(const char *name, struct model_config *out);

/* Elements of the queries, and of the keys or the values, of one token in one layer. */
uint32_t model_config_query_size(const struct model_config *config);
uint32_t model_config_kv_size(const struct model_config *config);

/* Bytes of K and V of one token over all layers. */
uint64_t model_config_kv_bytes_per_token(const struct model_config *config);

#endif
