#include "engine/shape/weight_shape.h"

#include "engine/base/check.h"

#include <stddef.h>

/* The dimension that is divided among ranks. */
enum split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS };

static const struct {
	const char *name;
	bool is_layered;
	enum weight_form form;
	enum split split;
	uint32_t part_count;
} weights[WEIGHT_COUNT] = {
	[WEIGHT_EMBEDDING] = {"embedding", false, WEIGHT_MATRIX, SPLIT_NONE, 1},
	[WEIGHT_INPUT_NORM] = {"input_norm", true, WEIGHT_NORM, SPLIT_NONE, 1},
	[WEIGHT_QKV] = {"qkv", true, WEIGHT_MATRIX, SPLIT_ROWS, 3},
	[WEIGHT_QKV_BIAS] = {"qkv_bias", true, WEIGHT_BIAS, SPLIT_ROWS, 3},
	[WEIGHT_Q_NORM] = {"q_norm", true, WEIGHT_NORM, SPLIT_NONE, 1},
	[WEIGHT_K_NORM] = {"k_norm", true, WEIGHT_NORM, SPLIT_NONE, 1},
	[WEIGHT_O] = {"o", true, WEIGHT_MATRIX, SPLIT_COLUMNS, 1},
	[WEIGHT_O_BIAS] = {"o_bias", true, WEIGHT_BIAS, SPLIT_NONE, 1},
	[WEIGHT_POST_NORM] = {"post_norm", true, WEIGHT_NORM, SPLIT_NONE, 1},
	[WEIGHT_GATE_UP] = {"gate_up", true, WEIGHT_MATRIX, SPLIT_ROWS, 2},
	[WEIGHT_DOWN] = {"down", true, WEIGHT_MATRIX, SPLIT_COLUMNS, 1},
	[WEIGHT_FINAL_NORM] = {"final_norm", false, WEIGHT_NORM, SPLIT_NONE, 1},
	[WEIGHT_LM_HEAD] = {"lm_head", false, WEIGHT_MATRIX, SPLIT_ROWS, 1},
};

static const enum weight linears[MODEL_LINEAR_COUNT] = {
	[MODEL_LINEAR_QKV] = WEIGHT_QKV,
	[MODEL_LINEAR_O] = WEIGHT_O,
	[MODEL_LINEAR_GATE_UP] = WEIGHT_GATE_UP,
	[MODEL_LINEAR_DOWN] = WEIGHT_DOWN,
	[MODEL_LINEAR_LM_HEAD] = WEIGHT_LM_HEAD,
};

const char *weight_name(enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return weights[weight].name;
}

enum weight_form weight_form(enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return weights[weight].form;
}

bool weight_is_layered(enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return weights[weight].is_layered;
}

uint32_t weight_layer_count(const struct model_config *config, enum weight weight)
{
	return weight_is_layered(weight) ? config->num_hidden_layers : 1;
}

bool weight_exists(const struct model_config *config, enum weight weight)
{
	return weight_form(weight) != WEIGHT_BIAS || config->attention_bias;
}

bool weight_is_tied(const struct model_config *config, enum weight weight)
{
	return weight == WEIGHT_LM_HEAD && config->tie_word_embeddings;
}

uint32_t weight_stored_count(const struct model_config *config, enum weight weight)
{
	bool has_values = weight_exists(config, weight) && !weight_is_tied(config, weight);

	return has_values ? weight_layer_count(config, weight) : 0;
}

uint32_t weight_part_count(enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return weights[weight].part_count;
}

struct weight_shape weight_part_shape(
	const struct model_config *config, enum weight weight, uint32_t part)
{
	uint32_t hidden = config->hidden_size;
	uint32_t query = model_config_query_size(config);
	uint32_t key_value = model_config_kv_size(config);

	switch (weight) {
	case WEIGHT_EMBEDDING:
	case WEIGHT_LM_HEAD:
		return (struct weight_shape){config->vocab_size, hidden};
	case WEIGHT_QKV:
		return (struct weight_shape){part == 0 ? query : key_value, hidden};
	case WEIGHT_QKV_BIAS:
		return (struct weight_shape){part == 0 ? query : key_value, 1};
	case WEIGHT_Q_NORM:
	case WEIGHT_K_NORM:
		return (struct weight_shape){config->head_dim, 1};
	case WEIGHT_O:
		return (struct weight_shape){hidden, query};
	case WEIGHT_GATE_UP:
		return (struct weight_shape){config->intermediate_size, hidden};
	case WEIGHT_DOWN:
		return (struct weight_shape){hidden, config->intermediate_size};
	case WEIGHT_INPUT_NORM:
	case WEIGHT_POST_NORM:
	case WEIGHT_FINAL_NORM:
	case WEIGHT_O_BIAS:
		return (struct weight_shape){hidden, 1};
	case WEIGHT_COUNT:
		break;
	}
	check_unreachable("unknown weight");
}

/* ---- shards ---- */

enum status weight_shard_check(
	const struct model_config *config, struct weight_shard shard, struct error *error)
{
	const struct {
		const char *name;
		uint32_t value;
	} shared[] = {
		{"num_attention_heads", config->num_attention_heads},
		{"num_key_value_heads", config->num_key_value_heads},
		{"intermediate_size", config->intermediate_size},
	};

	check(shard.ranks > 0 && shard.rank < shard.ranks);
	if (shard.ranks > config->num_key_value_heads) {
		return error_set(error, STATUS_USAGE,
			"model %s: found %u ranks, expected at most %u, its num_key_value_heads: a "
			"key/value head is on one rank",
			config->name, shard.ranks, config->num_key_value_heads);
	}
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		if (shared[i].value % shard.ranks != 0) {
			return error_set(error, STATUS_USAGE,
				"model %s: found %u ranks, expected a divisor of its %s %u",
				config->name, shard.ranks, shared[i].name, shared[i].value);
		}
	}
	return STATUS_OK;
}

/* The range of `count` rows or columns that a shard holds. */
static struct weight_range share(uint32_t count, struct weight_shard shard)
{
	uint32_t first = (uint32_t)((uint64_t)count * shard.rank / shard.ranks);
	uint32_t end = (uint32_t)((uint64_t)count * (shard.rank + 1) / shard.ranks);
	return (struct weight_range){first, end - first};
}

struct weight_range weight_shard_rows(const struct model_config *config, enum weight weight,
	uint32_t part, struct weight_shard shard)
{
	uint32_t rows = weight_part_shape(config, weight, part).rows;
	return weights[weight].split == SPLIT_ROWS ? share(rows, shard)
						   : (struct weight_range){0, rows};
}

struct weight_range weight_shard_columns(
	const struct model_config *config, enum weight weight, struct weight_shard shard)
{
	uint32_t columns = weight_part_shape(config, weight, 0).columns;
	return weights[weight].split == SPLIT_COLUMNS ? share(columns, shard)
						      : (struct weight_range){0, columns};
}

struct weight_shape weight_shape(
	const struct model_config *config, enum weight weight, struct weight_shard shard)
{
	uint32_t rows = 0;

	check((uint32_t)weight < WEIGHT_COUNT);
	check(shard.ranks > 0 && shard.rank < shard.ranks);
	for (uint32_t part = 0; part < weights[weight].part_count; part++) {
		rows += weight_shard_rows(config, weight, part, shard).count;
	}
	if (weights[weight].form != WEIGHT_MATRIX) {
		return (struct weight_shape){1, rows};
	}
	return (struct weight_shape){rows, weight_shard_columns(config, weight, shard).count};
}

struct model_config weight_shard_config(
	const struct model_config *config, struct weight_shard shard)
{
	struct model_config own = *config;

	check(shard.ranks > 0 && shard.rank < shard.ranks);
	own.num_attention_heads /= shard.ranks;
	own.num_key_value_heads /= shard.ranks;
	own.intermediate_size /= shard.ranks;
	own.vocab_size = weight_shard_rows(config, WEIGHT_LM_HEAD, 0, shard).count;
	return own;
}

/* ---- linear layers ---- */

const char *model_linear_name(enum model_linear linear)
{
	check((uint32_t)linear < MODEL_LINEAR_COUNT);
	return weight_name(linears[linear]);
}

struct model_linear_shape model_linear_shape(
	const struct model_config *config, enum model_linear linear)
{
	check((uint32_t)linear < MODEL_LINEAR_COUNT);
	struct weight_shape shape = weight_shape(config, linears[linear], WEIGHT_WHOLE);
	return (struct model_linear_shape){.inputs = shape.columns, .outputs = shape.rows};
}

/* ---- sums ---- */

static uint64_t shard_parameter_count(const struct model_config *config, struct weight_shard shard)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		enum weight weight = (enum weight)i;
		struct weight_shape shape = weight_shape(config, weight, shard);
		count += (uint64_t)weight_stored_count(config, weight) * shape.rows * shape.columns;
	}
	return count;
}

uint64_t weight_parameter_count(const struct model_config *config)
{
	return shard_parameter_count(config, WEIGHT_WHOLE);
}

uint64_t weight_shard_bytes(const struct model_config *config, struct weight_shard shard)
{
	return MODEL_ELEMENT_BYTES * shard_parameter_count(config, shard);
}

uint64_t weight_total_bytes(const struct model_config *config)
{
	return weight_shard_bytes(config, WEIGHT_WHOLE);
}
