#include "engine/model/checkpoint_names.h"

#include "engine/base/check.h"

#include <stdio.h>
#include <string.h>

/* By weight and part; "%u" is replaced by the layer. */
static const char *const names[WEIGHT_COUNT][WEIGHT_PARTS_MAX] = {
	[WEIGHT_EMBEDDING] = {"model.embed_tokens.weight"},
	[WEIGHT_INPUT_NORM] = {"model.layers.%u.input_layernorm.weight"},
	[WEIGHT_QKV] = {"model.layers.%u.self_attn.q_proj.weight",
		"model.layers.%u.self_attn.k_proj.weight",
		"model.layers.%u.self_attn.v_proj.weight"},
	[WEIGHT_QKV_BIAS] = {"model.layers.%u.self_attn.q_proj.bias",
		"model.layers.%u.self_attn.k_proj.bias", "model.layers.%u.self_attn.v_proj.bias"},
	[WEIGHT_Q_NORM] = {"model.layers.%u.self_attn.q_norm.weight"},
	[WEIGHT_K_NORM] = {"model.layers.%u.self_attn.k_norm.weight"},
	[WEIGHT_O] = {"model.layers.%u.self_attn.o_proj.weight"},
	[WEIGHT_O_BIAS] = {"model.layers.%u.self_attn.o_proj.bias"},
	[WEIGHT_POST_NORM] = {"model.layers.%u.post_attention_layernorm.weight"},
	[WEIGHT_GATE_UP] = {"model.layers.%u.mlp.gate_proj.weight",
		"model.layers.%u.mlp.up_proj.weight"},
	[WEIGHT_DOWN] = {"model.layers.%u.mlp.down_proj.weight"},
	[WEIGHT_FINAL_NORM] = {"model.norm.weight"},
	[WEIGHT_LM_HEAD] = {"lm_head.weight"},
};

void checkpoint_name(enum weight weight, uint32_t layer, uint32_t part, char *out)
{
	check(part < weight_part_count(weight));
	const char *pattern = names[weight][part];
	const char *number = strstr(pattern, "%u");

	if (number == NULL) {
		snprintf(out, CHECKPOINT_NAME_BYTES, "%s", pattern);
	} else {
		snprintf(out, CHECKPOINT_NAME_BYTES, "%.*s%u%s", (int)(number - pattern), pattern,
			layer, number + 2);
	}
}
