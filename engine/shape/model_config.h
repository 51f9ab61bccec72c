#ifndef ENGINE_SHAPE_MODEL_CONFIG_H
#define ENGINE_SHAPE_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The shape of a Qwen3 model: what weights there are and what a token costs. Built in for the
   published dense models, or read from a config.json in the Hugging Face form. A configuration that
   asks for something this engine does not compute (rope scaling, sliding windows, experts, another
   activation or architecture) is refused by the name of the field. */

enum { MODEL_NAME_BYTES = 64, MODEL_EOS_MAX = 8 };

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
	uint32_t max_position_embeddings; /* the longest sequence it was made for */
	double rms_norm_eps;
	double rope_theta;
	bool tie_word_embeddings; /* lm_head is the embedding table */
	bool attention_bias;	  /* qkv and o have biases */
	enum model_dtype dtype;	  /* of the weights as published; the GPU engine holds bf16 */
	int32_t eos_token_ids[MODEL_EOS_MAX];
	uint32_t eos_token_id_count; /* 0: the file names none */
};

/* A built-in name, a folder with a config.json, or a path that ends in ".json". An unknown name is
   refused with the list of names. A generation_config.json beside a folder's config.json decides on
   the tokens that end a text, when it names some. */
enum status model_config_find(
	const char *name_or_path, struct model_config *out, struct error *error);

/* The text of a config.json; `path` is what errors call it and where the name comes from. */
enum status model_config_parse(struct model_config *out, const char *path, const char *text,
	size_t byte_count, struct error *error);

/* Writes FOLDER/config.json, from which model_config_find() reads the same again, but for the name
   and for the dtype, which is bfloat16. A file that is there already is refused. */
enum status model_config_write(
	const struct model_config *config, const char *folder, struct error *error);

/* The built-in models in order of size; NULL from model_config_name(model_config_count()) on. */
uint32_t model_config_count(void);
const char *model_config_name(uint32_t index);

/* The matrix products of the forward pass, in its order. Each multiplies (tokens, inputs) by a
   weight of (outputs, inputs); lm_head runs once a step over the sampled rows, the others in every
   layer. */
#define MODEL_PRODUCT_LIST(X)                                                                      \
	X(MODEL_PRODUCT_QKV, "qkv")                                                                \
	X(MODEL_PRODUCT_O, "o")                                                                    \
	X(MODEL_PRODUCT_GATE_UP, "gate_up")                                                        \
	X(MODEL_PRODUCT_DOWN, "down")                                                              \
	X(MODEL_PRODUCT_LM_HEAD, "lm_head")

enum model_product {
#define MODEL_PRODUCT_ENUM(name, text) name,
	MODEL_PRODUCT_LIST(MODEL_PRODUCT_ENUM)
#undef MODEL_PRODUCT_ENUM
		MODEL_PRODUCT_COUNT
};

struct model_product_shape {
	uint32_t inputs;
	uint32_t outputs;
};

struct model_product_shape model_config_product(
	const struct model_config *config, enum model_product product);
const char *model_product_name(enum model_product product);

/* Parameters in all, tied embeddings once; norms and biases included. */
uint64_t model_config_parameter_count(const struct model_config *config);

/* Bytes of all parameters as the engine holds them: two each. */
uint64_t model_config_weight_bytes(const struct model_config *config);

/* Bytes of K and V of one token over all layers, two an element. */
uint64_t model_config_kv_bytes_per_token(const struct model_config *config);

/* Sums in float32 that a decode row's product may leave for the norm behind it to add: those of all
   parts (kernels/linear/linear.h) of the hidden size, 0 where o and down have one part. */
uint64_t model_config_part_sums(const struct model_config *config);

/* What decides the size of the buffers that the CUDA engine takes at start. */
struct model_step_limits {
	uint64_t tokens;    /* in a step */
	uint64_t samples;   /* rows in a step that end in a sampled token */
	uint64_t splits;    /* of decode attention in one launch */
	uint64_t positions; /* in a sequence */
};

/* The limits of an engine; max_model_len tokens a sequence. */
struct model_step_limits model_step_limits(
	uint64_t max_num_batched_tokens, uint64_t max_num_seqs, uint64_t max_model_len);

/* Bytes of those buffers: the tensors of a step (engine/runners/cuda_forward.c has the list and
   checks that its sum is this) and the rope table. */
uint64_t model_config_step_bytes(
	const struct model_config *config, const struct model_step_limits *limits);

#endif
