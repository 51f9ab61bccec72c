#include "engine/shape/model_config.h"

#include <stddef.h>
#include <string.h>

/* The shapes of the published dense Qwen3 models, from their config.json files. */
#define QWEN3(name_, hidden, layers, heads, intermediate, is_tied)                                 \
	{                                                                                          \
		.name = name_, .hidden_size = hidden, .num_hidden_layers = layers,                 \
		.num_attention_heads = heads, .num_key_value_heads = 8,                            \
		.head_dim = MODEL_QWEN3_HEAD_DIM, .intermediate_size = intermediate,               \
		.vocab_size = 151936, .max_position_embeddings = 40960, .rms_norm_eps = 1e-6,      \
		.rope_theta = 1e6, .tie_word_embeddings = is_tied, .attention_bias = false,        \
		.dtype = MODEL_DTYPE_BFLOAT16, .eos_token_ids = {151645, 151643},                  \
		.eos_token_id_count = 2,                                                           \
	}

static const struct model_config builtin_models[] = {
	QWEN3("qwen3-0.6b", 1024, 28, 16, 3072, true),
	QWEN3("qwen3-1.7b", 2048, 28, 16, 6144, true),
	QWEN3("qwen3-4b", 2560, 36, 32, 9728, true),
	QWEN3("qwen3-8b", 4096, 36, 32, 12288, false),
	QWEN3("qwen3-14b", 5120, 40, 40, 17408, false),
	QWEN3("qwen3-32b", 5120, 64, 64, 25600, false),
};

enum { BUILTIN_COUNT = sizeof(builtin_models) / sizeof(builtin_models[0]) };

uint32_t model_config_count(void)
{
	return BUILTIN_COUNT;
}

const char *model_config_name(uint32_t index)
{
	return index < BUILTIN_COUNT ? builtin_models[index].name : NULL;
}

/* Whether a text is a name in small letters, whatever the case of its own. */
static bool is_name(const char *name, const char *text)
{
	for (; *name != '\0'; name++, text++) {
		char small = *text >= 'A' && *text <= 'Z' ? (char)(*text + ('a' - 'A')) : *text;
		if (small != *name) {
			return false;
		}
	}
	return *text == '\0';
}

bool model_config_builtin(const char *name, struct model_config *out)
{
	static const char publisher[] = "Qwen/";
	size_t skipped = sizeof(publisher) - 1;

	if (strncmp(name, publisher, skipped) == 0) {
		name += skipped;
	}
	for (uint32_t i = 0; i < BUILTIN_COUNT; i++) {
		if (is_name(builtin_models[i].name, name)) {
			*out = builtin_models[i];
			return true;
		}
	}
	return false;
}

uint32_t model_config_query_size(const struct model_config *config)
{
	return config->num_attention_heads * config->head_dim;
}

uint32_t model_config_kv_size(const struct model_config *config)
{
	return config->num_key_value_heads * config->head_dim;
}

uint64_t model_config_kv_bytes_per_token(const struct model_config *config)
{
	return (uint64_t)2 * config->num_hidden_layers * model_config_kv_size(config) *
	       MODEL_ELEMENT_BYTES;
}
