#include "engine/model/config_json.h"

#include "engine/base/check.h"
#include "engine/base/json.h"
#include "engine/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- unsupported features ---- */

/* A model that is priced only says so. */
static enum status read_architecture(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	const char *model_type = NULL, *architecture = "Qwen3ForCausalLM";

	TRY(json_text(root, "model_type", &model_type, error));
	if (strcmp(model_type, "llama") == 0) {
		architecture = "LlamaForCausalLM";
		snprintf(out->uncomputed, sizeof(out->uncomputed), "model_type \"llama\"");
	} else if (strcmp(model_type, "qwen3") != 0) {
		return json_refuse(root, "model_type",
			"\"qwen3\", a dense Qwen3, or \"llama\", which is priced only", error);
	}
	if (!json_has(root, "architectures")) {
		return STATUS_OK;
	}
	const cJSON *list = json_find(root, "architectures");
	const cJSON *first = cJSON_IsArray(list) ? cJSON_GetArrayItem(list, 0) : NULL;
	if (!cJSON_IsString(first) || cJSON_GetArraySize(list) != 1 ||
		strcmp(first->valuestring, architecture) != 0) {
		char expected[64];
		snprintf(expected, sizeof(expected), "[\"%s\"]", architecture);
		return json_refuse(root, "architectures", expected, error);
	}
	return STATUS_OK;
}

/* Refuses fields that ask for unsupported features unless they are absent, null or false. */
static enum status refuse_features(const struct json_object *root, struct error *error)
{
	static const struct {
		const char *field;
		const char *expected;
	} features[] = {
		{"use_sliding_window", "false or nothing: sliding windows are not computed"},
		{"num_experts", "nothing: mixtures of experts are not computed"},
		{"num_local_experts", "nothing: mixtures of experts are not computed"},
		{"partial_rotary_factor", "nothing: whole heads are rotated"},
		{"mlp_bias", "false or nothing: gate, up and down have no biases"},
		{"quantization_config", "nothing: quantised weights are not computed"},
	};
	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		if (json_has(root, features[i].field) &&
			!cJSON_IsFalse(json_find(root, features[i].field))) {
			return json_refuse(root, features[i].field, features[i].expected, error);
		}
	}
	const char *activation = NULL;
	if (json_has(root, "hidden_act")) {
		TRY(json_text(root, "hidden_act", &activation, error));
		if (strcmp(activation, "silu") != 0) {
			return json_refuse(root, "hidden_act", "\"silu\"", error);
		}
	}
	if (json_has(root, "layer_types")) {
		const cJSON *layers = json_find(root, "layer_types");
		const cJSON *layer = NULL;
		if (!cJSON_IsArray(layers)) {
			return json_refuse(root, "layer_types", "an array", error);
		}
		cJSON_ArrayForEach(layer, layers)
		{
			if (!cJSON_IsString(layer) ||
				strcmp(layer->valuestring, "full_attention") != 0) {
				return json_refuse(root, "layer_types",
					"\"full_attention\" for every layer", error);
			}
		}
	}
	return STATUS_OK;
}

/* Rope settings may contain only the default rotation and its base. */
static enum status refuse_rope_scaling(const struct json_object *rope, struct error *error)
{
	const cJSON *node = NULL;

	cJSON_ArrayForEach(node, rope->node)
	{
		bool is_type =
			strcmp(node->string, "rope_type") == 0 || strcmp(node->string, "type") == 0;
		if (strcmp(node->string, "rope_theta") == 0 || cJSON_IsNull(node)) {
			continue;
		}
		if (!is_type) {
			return json_refuse(
				rope, node->string, "nothing: rope scaling is not computed", error);
		}
		if (!cJSON_IsString(node) || strcmp(node->valuestring, "default") != 0) {
			return json_refuse(rope, node->string,
				"\"default\": rope scaling is not computed", error);
		}
	}
	return STATUS_OK;
}

/* ---- reading ---- */

/* Reads rope_theta of an object that has it. All rope_theta in a file must be equal. */
static enum status read_theta(const struct json_object *object, bool *has_theta,
	struct model_config *out, struct error *error)
{
	const double theta_max = 1e12;
	double theta = 0;

	TRY(json_double(object, "rope_theta", 1, theta_max, &theta, error));
	if (*has_theta && theta != out->rope_theta) {
		return json_refuse(object, "rope_theta", "one value throughout the file", error);
	}
	*has_theta = true;
	out->rope_theta = theta;
	return STATUS_OK;
}

/* rope_theta is a field of the file, or of its rope_parameters (in newer files) or rope_scaling. */
static enum status read_rope(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	static const char *const inner[] = {"rope_parameters", "rope_scaling"};
	const double llama_theta = 10000; /* of old files, which do not say it */
	bool has_theta = false, is_computed = out->uncomputed[0] == '\0';

	if (json_has(root, "rope_theta")) {
		TRY(read_theta(root, &has_theta, out, error));
	}
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
		struct json_object rope;
		if (!json_has(root, inner[i])) {
			continue;
		}
		TRY(json_object(root, inner[i], &rope, error));
		if (is_computed) {
			TRY(refuse_rope_scaling(&rope, error));
		}
		if (json_has(&rope, "rope_theta")) {
			TRY(read_theta(&rope, &has_theta, out, error));
		}
	}
	if (!has_theta && !is_computed) {
		out->rope_theta = llama_theta;
		return STATUS_OK;
	}
	return has_theta ? STATUS_OK : json_refuse(root, "rope_theta", "a number", error);
}

static enum status read_dtype(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	const char *field = json_has(root, "dtype") ? "dtype" : "torch_dtype";
	const char *text = "bfloat16";

	if (json_has(root, field)) {
		TRY(json_text(root, field, &text, error));
	}
	if (strcmp(text, "bfloat16") == 0) {
		out->dtype = MODEL_DTYPE_BFLOAT16;
	} else if (strcmp(text, "float16") == 0) {
		out->dtype = MODEL_DTYPE_FLOAT16;
	} else if (strcmp(text, "float32") == 0) {
		out->dtype = MODEL_DTYPE_FLOAT32;
	} else {
		return json_refuse(root, field, "\"bfloat16\", \"float16\" or \"float32\"", error);
	}
	return STATUS_OK;
}

/* One id or an array of them. */
static enum status read_eos(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	if (!json_has(root, "eos_token_id")) {
		return STATUS_OK;
	}
	out->eos_token_id_count = 0;
	const cJSON *node = json_find(root, "eos_token_id");
	const cJSON *id = cJSON_IsArray(node) ? node->child : node;
	while (id != NULL) {
		double value = cJSON_IsNumber(id) ? id->valuedouble : -1;
		if (!(value >= 0 && value < out->vocab_size) || value != (int32_t)value ||
			out->eos_token_id_count == MODEL_EOS_MAX) {
			return json_refuse(root, "eos_token_id",
				"a token id, or an array of at most 8 of them", error);
		}
		out->eos_token_ids[out->eos_token_id_count++] = (int32_t)value;
		id = cJSON_IsArray(node) ? id->next : NULL;
	}
	return STATUS_OK;
}

static enum status read_sizes(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	enum { HEAD_DIM_MAX = 1024 };
	const struct {
		const char *field;
		uint32_t maximum;
		uint32_t *value;
		uint32_t fallback; /* 0: the field is required */
	} sizes[] = {
		{"hidden_size", 1 << 17, &out->hidden_size, 0},
		{"num_hidden_layers", 1024, &out->num_hidden_layers, 0},
		{"num_attention_heads", 1024, &out->num_attention_heads, 0},
		{"num_key_value_heads", 1024, &out->num_key_value_heads, 0},
		{"head_dim", HEAD_DIM_MAX, &out->head_dim, MODEL_QWEN3_HEAD_DIM},
		{"intermediate_size", 1 << 20, &out->intermediate_size, 0},
		{"vocab_size", 1 << 24, &out->vocab_size, 0},
		{"max_position_embeddings", 1 << 28, &out->max_position_embeddings, 0},
	};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i].fallback != 0 && !json_has(root, sizes[i].field)) {
			*sizes[i].value = sizes[i].fallback;
			continue;
		}
		TRY(json_u32(root, sizes[i].field, 1, sizes[i].maximum, sizes[i].value, error));
	}
	if (out->uncomputed[0] != '\0' && !json_has(root, "head_dim")) {
		out->head_dim = out->hidden_size / out->num_attention_heads;
		if (out->head_dim > HEAD_DIM_MAX) {
			return json_refuse(root, "num_attention_heads",
				"so many that hidden_size gives each at most 1,024", error);
		}
	}
	if (out->head_dim == 0 || out->num_attention_heads % out->num_key_value_heads != 0) {
		return json_refuse(
			root, "num_key_value_heads", "a divisor of num_attention_heads", error);
	}
	return STATUS_OK;
}

static enum status read_flags(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	const struct {
		const char *field;
		bool *value;
	} flags[] = {
		{"tie_word_embeddings", &out->tie_word_embeddings},
		{"attention_bias", &out->attention_bias},
	};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (json_has(root, flags[i].field)) {
			TRY(json_bool(root, flags[i].field, flags[i].value, error));
		}
	}
	out->rms_norm_eps = 1e-6;
	if (!json_has(root, "rms_norm_eps")) {
		return STATUS_OK;
	}
	return json_double(root, "rms_norm_eps", 0, 1, &out->rms_norm_eps, error);
}

static enum status read_config(
	const struct json_document *document, struct model_config *out, struct error *error)
{
	struct json_object root;

	TRY(json_root(&root, document, error));
	TRY(read_architecture(&root, out, error));
	TRY(refuse_features(&root, error));
	TRY(read_sizes(&root, out, error));
	TRY(read_flags(&root, out, error));
	TRY(read_rope(&root, out, error));
	TRY(read_dtype(&root, out, error));
	return read_eos(&root, out, error);
}

/* ---- finding ---- */

static bool ends_in(const char *text, const char *suffix)
{
	size_t length = strlen(text), suffix_length = strlen(suffix);
	return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

/* The last folder of a path to a config.json, or the file's name without its ending. */
static void name_from_path(struct model_config *config, const char *path)
{
	size_t end = strlen(path);
	if (ends_in(path, "/config.json")) {
		end -= strlen("/config.json");
	} else if (ends_in(path, ".json")) {
		end -= strlen(".json");
	}
	while (end > 0 && path[end - 1] == '/') {
		end--;
	}
	size_t start = end;
	while (start > 0 && path[start - 1] != '/') {
		start--;
	}
	size_t length =
		end - start < sizeof(config->name) - 1 ? end - start : sizeof(config->name) - 1;
	memcpy(config->name, path + start, length);
	config->name[length] = '\0';
}

static enum status read_document(const struct json_document *document, const char *path,
	struct model_config *out, struct error *error)
{
	memset(out, 0, sizeof(*out));
	enum status status = read_config(document, out, error);
	name_from_path(out, path);
	return status;
}

enum status model_config_parse(struct model_config *out, const char *path, const char *text,
	size_t byte_count, struct error *error)
{
	struct json_document document = {.root = NULL};

	TRY(json_document_parse(&document, path, text, byte_count, error));
	enum status status = read_document(&document, path, out, error);
	json_document_close(&document);
	return status;
}

static enum status unknown_model(const char *name, struct error *error)
{
	char names[256] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < model_config_count(); i++) {
		int written = snprintf(names + used, sizeof(names) - used, "%s%s",
			i == 0 ? "" : ", ", model_config_name(i));
		check(written > 0 && (size_t)written < sizeof(names) - used);
		used += (size_t)written;
	}
	return error_set(error, STATUS_USAGE,
		"model '%s': expected one of %s (or Qwen/Qwen3-8B, ...), or a folder with a "
		"config.json, or a .json file",
		name, names);
}

/* A folder's generation_config.json, which is optional, overrides the tokens that end a text in its
   config.json. */
static enum status read_generation(
	const char *folder, struct model_config *out, struct error *error)
{
	struct json_document document = {.root = NULL};
	struct json_object root;
	char path[PATH_BYTES_MAX];
	bool is_there = false;

	TRY(path_format(path, error, "%s/generation_config.json", folder));
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return STATUS_OK;
	}
	TRY(json_document_open(&document, path, error));
	enum status status = json_root(&root, &document, error);
	if (status == STATUS_OK) {
		status = read_eos(&root, out, error);
	}
	json_document_close(&document);
	return status;
}

enum status model_config_find_builtin(
	const char *name_or_path, struct model_config *out, bool *is_builtin, struct error *error)
{
	bool is_path = false;

	if (strchr(name_or_path, '/') != NULL) {
		TRY(path_is_there(name_or_path, &is_path, error));
	}
	*is_builtin = !is_path && model_config_builtin(name_or_path, out);
	return STATUS_OK;
}

enum status model_config_find(
	const char *name_or_path, struct model_config *out, struct error *error)
{
	struct json_document document = {.root = NULL};
	char path[PATH_BYTES_MAX];

	bool is_builtin = false;
	TRY(model_config_find_builtin(name_or_path, out, &is_builtin, error));
	if (is_builtin) {
		return STATUS_OK;
	}
	bool is_file = ends_in(name_or_path, ".json");
	TRY(path_format(path, error, "%s%s", name_or_path, is_file ? "" : "/config.json"));
	enum status status = json_document_open(&document, path, error);
	if (status == STATUS_FILE && !is_file) {
		return unknown_model(name_or_path, error);
	}
	TRY(status);
	status = read_document(&document, path, out, error);
	json_document_close(&document);
	TRY(status);
	return is_file ? STATUS_OK : read_generation(name_or_path, out, error);
}

enum status model_config_check_computed(const struct model_config *config, struct error *error)
{
	return config->uncomputed[0] == '\0'
		       ? STATUS_OK
		       : error_set(error, STATUS_USAGE,
				 "%s has %s, which no runner computes: --runner sim prices it",
				 config->name, config->uncomputed);
}

/* ---- writing ---- */

/* Prints the fewest digits that read back as the same number. */
static void print_double(FILE *file, const char *name, double value)
{
	char text[32];
	int digits = 1;

	do {
		snprintf(text, sizeof(text), "%.*g", digits, value);
	} while (strtod(text, NULL) != value && ++digits <= 17);
	fprintf(file, "  \"%s\": %s", name, text);
}

void model_config_write(const struct model_config *config, FILE *file)
{
	const struct {
		const char *name;
		uint32_t value;
	} sizes[] = {
		{"head_dim", config->head_dim},
		{"hidden_size", config->hidden_size},
		{"intermediate_size", config->intermediate_size},
		{"max_position_embeddings", config->max_position_embeddings},
		{"num_attention_heads", config->num_attention_heads},
		{"num_hidden_layers", config->num_hidden_layers},
		{"num_key_value_heads", config->num_key_value_heads},
		{"vocab_size", config->vocab_size},
	};

	fprintf(file, "{\n  \"architectures\": [\"Qwen3ForCausalLM\"],\n"
		      "  \"model_type\": \"qwen3\",\n  \"hidden_act\": \"silu\",\n"
		      "  \"torch_dtype\": \"bfloat16\",\n");
	fprintf(file, "  \"attention_bias\": %s,\n", config->attention_bias ? "true" : "false");
	fprintf(file, "  \"tie_word_embeddings\": %s,\n",
		config->tie_word_embeddings ? "true" : "false");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fprintf(file, "  \"%s\": %u,\n", sizes[i].name, sizes[i].value);
	}
	if (config->eos_token_id_count > 0) {
		fprintf(file, "  \"eos_token_id\": [");
		for (uint32_t i = 0; i < config->eos_token_id_count; i++) {
			fprintf(file, "%s%d", i == 0 ? "" : ", ", config->eos_token_ids[i]);
		}
		fprintf(file, "],\n");
	}
	print_double(file, "rms_norm_eps", config->rms_norm_eps);
	fprintf(file, ",\n");
	print_double(file, "rope_theta", config->rope_theta);
	fprintf(file, "\n}\n");
}
