#include "engine/model/weights.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/model/safetensors.h"
#include "kernels/op/number.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Elements are copied as they lie in a file. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little endian");

enum { PARTS_MAX = 3, NAME_BYTES = 96, BIAS_SHIFT = 12, NORM_SHIFT = 7 };

/* How a tensor is shared out among ranks. */
enum split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS };

enum form { FORM_MATRIX, FORM_BIAS, FORM_NORM };

/* Inside this file a vector is a matrix of one column, so that what packs and shares rows serves
   biases too. Parts are named as in a checkpoint; "%u" stands for the layer. */
static const struct {
	const char *name;
	bool is_layered;
	enum form form;
	enum split split;
	uint32_t part_count;
	const char *parts[PARTS_MAX];
} kinds[WEIGHT_COUNT] = {
	[WEIGHT_EMBEDDING] = {"embedding", false, FORM_MATRIX, SPLIT_ROWS, 1,
		{"model.embed_tokens.weight"}},
	[WEIGHT_INPUT_NORM] = {"input_norm", true, FORM_NORM, SPLIT_NONE, 1,
		{"model.layers.%u.input_layernorm.weight"}},
	[WEIGHT_QKV] = {"qkv", true, FORM_MATRIX, SPLIT_ROWS, 3,
		{"model.layers.%u.self_attn.q_proj.weight",
			"model.layers.%u.self_attn.k_proj.weight",
			"model.layers.%u.self_attn.v_proj.weight"}},
	[WEIGHT_QKV_BIAS] = {"qkv_bias", true, FORM_BIAS, SPLIT_ROWS, 3,
		{"model.layers.%u.self_attn.q_proj.bias", "model.layers.%u.self_attn.k_proj.bias",
			"model.layers.%u.self_attn.v_proj.bias"}},
	[WEIGHT_Q_NORM] = {"q_norm", true, FORM_NORM, SPLIT_NONE, 1,
		{"model.layers.%u.self_attn.q_norm.weight"}},
	[WEIGHT_K_NORM] = {"k_norm", true, FORM_NORM, SPLIT_NONE, 1,
		{"model.layers.%u.self_attn.k_norm.weight"}},
	[WEIGHT_O] = {"o", true, FORM_MATRIX, SPLIT_COLUMNS, 1,
		{"model.layers.%u.self_attn.o_proj.weight"}},
	[WEIGHT_O_BIAS] = {"o_bias", true, FORM_BIAS, SPLIT_NONE, 1,
		{"model.layers.%u.self_attn.o_proj.bias"}},
	[WEIGHT_POST_NORM] = {"post_norm", true, FORM_NORM, SPLIT_NONE, 1,
		{"model.layers.%u.post_attention_layernorm.weight"}},
	[WEIGHT_GATE_UP] = {"gate_up", true, FORM_MATRIX, SPLIT_ROWS, 2,
		{"model.layers.%u.mlp.gate_proj.weight", "model.layers.%u.mlp.up_proj.weight"}},
	[WEIGHT_DOWN] = {"down", true, FORM_MATRIX, SPLIT_COLUMNS, 1,
		{"model.layers.%u.mlp.down_proj.weight"}},
	[WEIGHT_FINAL_NORM] = {"final_norm", false, FORM_NORM, SPLIT_NONE, 1,
		{"model.norm.weight"}},
	[WEIGHT_LM_HEAD] = {"lm_head", false, FORM_MATRIX, SPLIT_ROWS, 1, {"lm_head.weight"}},
};

struct weights {
	struct model_config config;
	struct safetensors *checkpoint; /* NULL: dummy weights */
	uint64_t seed;			/* of dummy weights */
	/* (num_hidden_layers, WEIGHT_COUNT, PARTS_MAX); layer 0 for what is not layered */
	const struct safetensors_tensor **tensors;
};

/* ---- shapes ---- */

const char *weight_name(enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return kinds[weight].name;
}

bool weight_is_layered(enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return kinds[weight].is_layered;
}

bool weight_exists(const struct model_config *config, enum weight weight)
{
	check((uint32_t)weight < WEIGHT_COUNT);
	return kinds[weight].form != FORM_BIAS || config->attention_bias;
}

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
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		if (shared[i].value % shard.ranks != 0) {
			return error_set(error, STATUS_USAGE,
				"model %s: found %u ranks, expected a divisor of its %s %u",
				config->name, shard.ranks, shared[i].name, shared[i].value);
		}
	}
	return STATUS_OK;
}

/* The shape of a part of a whole tensor. */
static struct weight_shape part_shape(
	const struct model_config *config, enum weight weight, uint32_t part)
{
	uint32_t hidden = config->hidden_size;
	uint32_t query = config->num_attention_heads * config->head_dim;
	uint32_t key_value = config->num_key_value_heads * config->head_dim;

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
	check_unreachable("a weight outside its list");
}

struct range {
	uint32_t first;
	uint32_t count;
};

/* What a shard holds of `count` rows or columns. */
static struct range share(uint32_t count, struct weight_shard shard)
{
	uint32_t first = (uint32_t)((uint64_t)count * shard.rank / shard.ranks);
	uint32_t end = (uint32_t)((uint64_t)count * (shard.rank + 1) / shard.ranks);
	return (struct range){first, end - first};
}

static struct range shard_rows(const struct model_config *config, enum weight weight, uint32_t part,
	struct weight_shard shard)
{
	uint32_t rows = part_shape(config, weight, part).rows;
	return kinds[weight].split == SPLIT_ROWS ? share(rows, shard) : (struct range){0, rows};
}

static struct range shard_columns(
	const struct model_config *config, enum weight weight, struct weight_shard shard)
{
	uint32_t columns = part_shape(config, weight, 0).columns;
	return kinds[weight].split == SPLIT_COLUMNS ? share(columns, shard)
						    : (struct range){0, columns};
}

struct weight_shape weight_shape(
	const struct model_config *config, enum weight weight, struct weight_shard shard)
{
	uint32_t rows = 0;

	check((uint32_t)weight < WEIGHT_COUNT);
	check(shard.ranks > 0 && shard.rank < shard.ranks);
	for (uint32_t part = 0; part < kinds[weight].part_count; part++) {
		rows += shard_rows(config, weight, part, shard).count;
	}
	if (kinds[weight].form != FORM_MATRIX) {
		return (struct weight_shape){1, rows};
	}
	return (struct weight_shape){rows, shard_columns(config, weight, shard).count};
}

/* ---- a checkpoint's tensors ---- */

static void part_name(enum weight weight, uint32_t layer, uint32_t part, char *out)
{
	const char *pattern = kinds[weight].parts[part];
	const char *mark = strstr(pattern, "%u");

	if (mark == NULL) {
		snprintf(out, NAME_BYTES, "%s", pattern);
	} else {
		snprintf(out, NAME_BYTES, "%.*s%u%s", (int)(mark - pattern), pattern, layer,
			mark + 2);
	}
}

static const struct safetensors_tensor **part_tensor(
	const struct weights *weights, enum weight weight, uint32_t layer, uint32_t part)
{
	return &weights->tensors[((size_t)layer * WEIGHT_COUNT + weight) * PARTS_MAX + part];
}

static uint32_t layer_count(const struct model_config *config, enum weight weight)
{
	return kinds[weight].is_layered ? config->num_hidden_layers : 1;
}

/* Names for an error line: as many as fit, then how many more there are. */
struct name_list {
	char text[160];
	uint32_t count;
	uint32_t shown;
};

static void name_list_add(struct name_list *list, const char *name)
{
	size_t used = strlen(list->text);
	size_t bytes = strlen(name) + 2;

	list->count++;
	if (list->shown + 1 == list->count && used + bytes < sizeof(list->text)) {
		snprintf(list->text + used, sizeof(list->text) - used, "%s%s",
			used == 0 ? "" : ", ", name);
		list->shown++;
	}
}

static enum status refuse_names(const char *folder, const struct name_list *missing,
	const struct name_list *unexpected, struct error *error)
{
	return error_set(error, STATUS_INPUT,
		"%.80s: %u tensors missing%s%s%s; %u not expected%s%s%s", folder, missing->count,
		missing->count == 0 ? "" : ": ", missing->text,
		missing->shown < missing->count ? ", ..." : "", unexpected->count,
		unexpected->count == 0 ? "" : ": ", unexpected->text,
		unexpected->shown < unexpected->count ? ", ..." : "");
}

static enum status check_tensor(const struct weights *weights,
	const struct safetensors_tensor *tensor, struct weight_shape shape, bool is_vector,
	struct error *error)
{
	const char *file = safetensors_file(weights->checkpoint, tensor->file);

	if (tensor->dtype != SAFETENSORS_BF16 && tensor->dtype != SAFETENSORS_F16 &&
		tensor->dtype != SAFETENSORS_F32) {
		return error_set(error, STATUS_INPUT,
			"%s: tensor %s: found dtype %s, expected BF16, F16 or F32", file,
			tensor->name, safetensors_dtype_name(tensor->dtype));
	}
	if (tensor->dimension_count == (is_vector ? 1 : 2) && tensor->dimensions[0] == shape.rows &&
		(is_vector || tensor->dimensions[1] == shape.columns)) {
		return STATUS_OK;
	}
	char found[128] = "", expected[32];
	for (uint32_t i = 0; i < tensor->dimension_count; i++) {
		size_t used = strlen(found);
		snprintf(found + used, sizeof(found) - used, "%s%llu", i == 0 ? "" : ", ",
			(unsigned long long)tensor->dimensions[i]);
	}
	if (is_vector) {
		snprintf(expected, sizeof(expected), "%u", shape.rows);
	} else {
		snprintf(expected, sizeof(expected), "%u, %u", shape.rows, shape.columns);
	}
	return error_set(error, STATUS_INPUT,
		"%s: tensor %s: found shape [%s], expected [%s] by the model's configuration", file,
		tensor->name, found, expected);
}

/* Finds the parts of one logical tensor in every layer. */
static enum status find_parts(struct weights *weights, enum weight weight, bool *is_used,
	struct name_list *missing, struct error *error)
{
	bool is_optional = weight == WEIGHT_LM_HEAD && weights->config.tie_word_embeddings;
	bool is_vector = kinds[weight].form != FORM_MATRIX;
	char name[NAME_BYTES];

	for (uint32_t layer = 0; layer < layer_count(&weights->config, weight); layer++) {
		for (uint32_t part = 0; part < kinds[weight].part_count; part++) {
			part_name(weight, layer, part, name);
			const struct safetensors_tensor *tensor =
				safetensors_find(weights->checkpoint, name);
			if (tensor == NULL) {
				if (!is_optional) {
					name_list_add(missing, name);
				}
				continue;
			}
			is_used[tensor - safetensors_at(weights->checkpoint, 0)] = true;
			*part_tensor(weights, weight, layer, part) = tensor;
			enum status status = check_tensor(weights, tensor,
				part_shape(&weights->config, weight, part), is_vector, error);
			if (status != STATUS_OK) {
				return status;
			}
		}
	}
	return STATUS_OK;
}

/* A tied lm_head that is there too must say the same as the embedding. */
static enum status check_tied(const struct weights *weights, struct error *error)
{
	const struct safetensors_tensor *head = *part_tensor(weights, WEIGHT_LM_HEAD, 0, 0);
	const struct safetensors_tensor *embedding = *part_tensor(weights, WEIGHT_EMBEDDING, 0, 0);

	if (!weights->config.tie_word_embeddings || head == NULL) {
		return STATUS_OK;
	}
	if (head->dtype != embedding->dtype ||
		memcmp(head->bytes, embedding->bytes, (size_t)head->byte_count) != 0) {
		return error_set(error, STATUS_INPUT,
			"%s: tensor %s: found other values than in %s, expected the same, since "
			"tie_word_embeddings is true",
			safetensors_file(weights->checkpoint, head->file), head->name,
			embedding->name);
	}
	return STATUS_OK;
}

static enum status open_checkpoint(struct weights *weights, const char *folder, struct error *error)
{
	struct name_list missing = {.count = 0}, unexpected = {.count = 0};

	enum status status = safetensors_open(&weights->checkpoint, folder, error);
	if (status != STATUS_OK) {
		return status;
	}
	uint32_t count = safetensors_count(weights->checkpoint);
	bool *is_used = memory_take(count, sizeof(*is_used));
	uint32_t layers = u32_max(1, weights->config.num_hidden_layers);
	weights->tensors =
		memory_take((size_t)layers * WEIGHT_COUNT * PARTS_MAX, sizeof(*weights->tensors));
	for (uint32_t i = 0; i < WEIGHT_COUNT && status == STATUS_OK; i++) {
		if (weight_exists(&weights->config, (enum weight)i)) {
			status = find_parts(weights, (enum weight)i, is_used, &missing, error);
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!is_used[i]) {
			name_list_add(&unexpected, safetensors_at(weights->checkpoint, i)->name);
		}
	}
	free(is_used);
	if (status == STATUS_OK && missing.count + unexpected.count > 0) {
		status = refuse_names(folder, &missing, &unexpected, error);
	}
	return status == STATUS_OK ? check_tied(weights, error) : status;
}

/* ---- opening ---- */

enum status weights_open(struct weights **out, const struct model_config *config,
	const char *source, struct error *error)
{
	static const char dummy[] = "dummy:";
	enum status status = STATUS_OK;

	*out = NULL;
	struct weights *weights = memory_take(1, sizeof(*weights));
	weights->config = *config;
	if (strncmp(source, dummy, sizeof(dummy) - 1) != 0) {
		status = open_checkpoint(weights, source, error);
	} else if (!text_to_u64(source + sizeof(dummy) - 1, &weights->seed)) {
		status = error_set(error, STATUS_USAGE,
			"weights: found '%.64s', expected dummy:SEED with a SEED in [0, 2^64)",
			source);
	}
	if (status != STATUS_OK) {
		weights_close(weights);
		return status;
	}
	*out = weights;
	return STATUS_OK;
}

void weights_close(struct weights *weights)
{
	if (weights == NULL) {
		return;
	}
	safetensors_close(weights->checkpoint);
	free(weights->tensors);
	free(weights);
}

const struct model_config *weights_config(const struct weights *weights)
{
	return &weights->config;
}

bool weights_are_dummy(const struct weights *weights, uint64_t *seed)
{
	*seed = weights->seed;
	return weights->checkpoint == NULL;
}

/* ---- dummy weights ---- */

struct weight_dummy weight_dummy(
	const struct model_config *config, uint64_t seed, enum weight weight, uint32_t layer)
{
	/* Apart from every other purpose of a seed: "weights" in its upper bytes. */
	const uint64_t purpose = UINT64_C(0x7765696768747300);
	/* 3 times the variance of 2 * byte - 255 */
	const uint64_t spread = 65535;
	uint32_t shift = 0;

	check((uint32_t)weight < WEIGHT_COUNT);
	if (weight == WEIGHT_LM_HEAD && config->tie_word_embeddings) {
		weight = WEIGHT_EMBEDDING;
	}
	switch (kinds[weight].form) {
	case FORM_NORM:
		shift = NORM_SHIFT;
		break;
	case FORM_BIAS:
		shift = BIAS_SHIFT;
		break;
	case FORM_MATRIX:
		/* the smallest for which columns * variance * 4^-shift <= 1 */
		while (spread * part_shape(config, weight, 0).columns > UINT64_C(3) << 2 * shift) {
			shift++;
		}
		break;
	}
	return (struct weight_dummy){
		.key = counter_key(seed, purpose ^ ((uint64_t)layer << 32 | weight)),
		.shift = shift,
		.is_norm = kinds[weight].form == FORM_NORM,
	};
}

/* ---- number formats ---- */

static uint32_t f16_to_f32_bits(uint32_t half)
{
	uint32_t sign = (half & 0x8000) << 16;
	uint32_t exponent = half >> 10 & 31;
	uint32_t fraction = half & 0x3ff;

	if (exponent == 31) {
		return sign | 0x7f800000 | fraction << 13;
	}
	if (exponent != 0) {
		return sign | (exponent + 112) << 23 | fraction << 13;
	}
	if (fraction == 0) {
		return sign;
	}
	/* Too small for f16's exponents, not for f32's. */
	exponent = 113;
	while ((fraction & 0x400) == 0) {
		fraction <<= 1;
		exponent--;
	}
	return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

static float load(enum safetensors_dtype dtype, const uint8_t *bytes, uint64_t index)
{
	uint16_t half;
	uint32_t bits;
	float value;

	if (dtype == SAFETENSORS_F32) {
		memcpy(&value, bytes + 4 * index, sizeof(value));
		return value;
	}
	memcpy(&half, bytes + 2 * index, sizeof(half));
	if (dtype == SAFETENSORS_BF16) {
		return bf16_to_float(half);
	}
	bits = f16_to_f32_bits(half);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* ---- reading ---- */

/* Consecutive elements of a whole tensor. */
struct run {
	const struct safetensors_tensor *tensor; /* NULL: dummy weights */
	struct weight_dummy dummy;
	uint64_t first; /* element of the tensor; of the packed tensor when dummy */
	uint64_t count;
};

static void run_read_f32(const struct run *run, float *out)
{
	const struct safetensors_tensor *tensor = run->tensor;

	for (uint64_t i = 0; tensor == NULL && i < run->count; i++) {
		out[i] = bf16_to_float(weight_dummy_bf16(run->dummy, run->first + i));
	}
	for (uint64_t i = 0; tensor != NULL && i < run->count; i++) {
		out[i] = load(tensor->dtype, tensor->bytes, run->first + i);
	}
}

static void run_read_bf16(const struct run *run, uint16_t *out)
{
	const struct safetensors_tensor *tensor = run->tensor;

	if (tensor != NULL && tensor->dtype == SAFETENSORS_BF16) {
		memcpy(out, tensor->bytes + 2 * run->first, 2 * (size_t)run->count);
		return;
	}
	for (uint64_t i = 0; tensor == NULL && i < run->count; i++) {
		out[i] = weight_dummy_bf16(run->dummy, run->first + i);
	}
	for (uint64_t i = 0; tensor != NULL && i < run->count; i++) {
		out[i] = bf16_from_float(load(tensor->dtype, tensor->bytes, run->first + i));
	}
}

/* Where a read has got to; rows are those of a matrix whose vectors have one column. */
struct reader {
	const struct weights *weights;
	enum weight weight;
	uint32_t layer;
	struct weight_shard shard;
	uint32_t row, row_end; /* of the shard */
};

static struct reader reader_start(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count)
{
	const struct model_config *config = &weights->config;

	check((uint32_t)weight < WEIGHT_COUNT && weight_exists(config, weight));
	check(layer < layer_count(config, weight));
	struct weight_shape shape = weight_shape(config, weight, shard);
	check(first_row <= shape.rows && row_count <= shape.rows - first_row);
	if (weight == WEIGHT_LM_HEAD && config->tie_word_embeddings) {
		weight = WEIGHT_EMBEDDING;
	}
	struct reader reader = {weights, weight, layer, shard, first_row, first_row + row_count};
	if (kinds[weight].form != FORM_MATRIX) {
		reader.row_end = row_count * shape.columns;
	}
	return reader;
}

/* The next run; false at the end. */
static bool reader_next(struct reader *reader, struct run *run)
{
	const struct model_config *config = &reader->weights->config;
	struct range columns = shard_columns(config, reader->weight, reader->shard);
	uint32_t whole_columns = part_shape(config, reader->weight, 0).columns;
	uint32_t part = 0;
	uint32_t shard_begin = 0; /* the part's first row in the shard, */
	uint64_t whole_begin = 0; /* and in the whole tensor */

	if (reader->row == reader->row_end) {
		return false;
	}
	struct range rows = shard_rows(config, reader->weight, part, reader->shard);
	while (reader->row - shard_begin >= rows.count) {
		shard_begin += rows.count;
		whole_begin += part_shape(config, reader->weight, part).rows;
		part++;
		check(part < kinds[reader->weight].part_count);
		rows = shard_rows(config, reader->weight, part, reader->shard);
	}
	uint32_t row = rows.first + reader->row - shard_begin;
	/* Whole rows follow each other, shares of rows do not. */
	uint32_t row_count = 1;
	if (columns.count == whole_columns) {
		row_count = u32_min(reader->row_end, shard_begin + rows.count) - reader->row;
	}
	bool is_dummy = reader->weights->checkpoint == NULL;
	*run = (struct run){
		.first = (row + (is_dummy ? whole_begin : 0)) * whole_columns + columns.first,
		.count = (uint64_t)row_count * columns.count,
	};
	if (is_dummy) {
		run->dummy =
			weight_dummy(config, reader->weights->seed, reader->weight, reader->layer);
	} else {
		run->tensor = *part_tensor(reader->weights, reader->weight, reader->layer, part);
	}
	reader->row += row_count;
	return true;
}

void weights_read_f32(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count, float *out)
{
	struct reader reader = reader_start(weights, weight, layer, shard, first_row, row_count);
	struct run run;

	while (reader_next(&reader, &run)) {
		run_read_f32(&run, out);
		out += run.count;
	}
}

void weights_read_bf16(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count, uint16_t *out)
{
	struct reader reader = reader_start(weights, weight, layer, shard, first_row, row_count);
	struct run run;

	while (reader_next(&reader, &run)) {
		run_read_bf16(&run, out);
		out += run.count;
	}
}

/* ---- writing ---- */

enum { EXPORT_ELEMENTS = 1 << 16, HEADER_ALIGNMENT = 8 };

static bool is_exported(const struct model_config *config, enum weight weight)
{
	return weight_exists(config, weight) &&
	       !(weight == WEIGHT_LM_HEAD && config->tie_word_embeddings);
}

/* Prints the header's JSON and returns its bytes. A packed tensor's parts lie behind each other, as
   its rows do. */
static uint64_t print_header(const struct model_config *config, FILE *file)
{
	uint64_t offset = 0;
	int bytes = fprintf(file, "{\"__metadata__\":{\"format\":\"pt\"}");
	char name[NAME_BYTES], shape_text[32];

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		enum weight weight = (enum weight)i;
		uint32_t layers = is_exported(config, weight) ? layer_count(config, weight) : 0;
		for (uint32_t j = 0; j < layers * kinds[i].part_count; j++) {
			uint32_t part = j % kinds[i].part_count;
			struct weight_shape shape = part_shape(config, weight, part);
			uint64_t end = offset + (uint64_t)2 * shape.rows * shape.columns;
			if (kinds[i].form == FORM_MATRIX) {
				snprintf(shape_text, sizeof(shape_text), "%u,%u", shape.rows,
					shape.columns);
			} else {
				snprintf(shape_text, sizeof(shape_text), "%u", shape.rows);
			}
			part_name(weight, j / kinds[i].part_count, part, name);
			bytes += fprintf(file,
				",\n\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],"
				"\"data_offsets\":[%llu,%llu]}",
				name, shape_text, (unsigned long long)offset,
				(unsigned long long)end);
			offset = end;
		}
	}
	bytes += fprintf(file, "}");
	while (bytes % HEADER_ALIGNMENT != 0) {
		bytes += fprintf(file, " ");
	}
	return (uint64_t)bytes;
}

static void write_tensor(
	const struct weights *weights, enum weight weight, uint32_t layer, FILE *file)
{
	struct weight_shape shape = weight_shape(&weights->config, weight, WEIGHT_WHOLE);
	uint32_t rows = u32_max(1, EXPORT_ELEMENTS / shape.columns);
	uint16_t *buffer = memory_take((size_t)rows * shape.columns, sizeof(*buffer));

	for (uint32_t row = 0; row < shape.rows; row += rows) {
		uint32_t count = u32_min(rows, shape.rows - row);
		weights_read_bf16(weights, weight, layer, WEIGHT_WHOLE, row, count, buffer);
		fwrite(buffer, sizeof(*buffer), (size_t)count * shape.columns, file);
	}
	free(buffer);
}

/* The size of the header is known once it is printed, and stands in front of it. */
static void write_weights(const struct weights *weights, FILE *file)
{
	uint8_t size[8] = {0};

	fwrite(size, 1, sizeof(size), file);
	uint64_t header_bytes = print_header(&weights->config, file);
	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		uint32_t layers = is_exported(&weights->config, (enum weight)i)
					  ? layer_count(&weights->config, (enum weight)i)
					  : 0;
		for (uint32_t layer = 0; layer < layers; layer++) {
			write_tensor(weights, (enum weight)i, layer, file);
		}
	}
	for (uint32_t i = 0; i < sizeof(size); i++) {
		size[i] = (uint8_t)(header_bytes >> (8 * i));
	}
	if (fseek(file, 0, SEEK_SET) == 0) {
		fwrite(size, 1, sizeof(size), file);
	}
}

enum status weights_export(const struct weights *weights, const char *folder, struct error *error)
{
	char path[PATH_BYTES_MAX], part[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/model.safetensors", folder));
	TRY(path_format(part, error, "%s.part", path));
	if (access(path, F_OK) == 0) {
		return error_set(error, STATUS_FILE, "%s is there already", path);
	}
	enum status status = model_config_write(&weights->config, folder, error);
	if (status != STATUS_OK) {
		return status;
	}
	FILE *file = fopen(part, "wb");
	if (file == NULL) {
		return error_set(error, STATUS_FILE, "cannot write %s: %s", part, strerror(errno));
	}
	write_weights(weights, file);
	bool has_failed = ferror(file) != 0;
	has_failed = fclose(file) != 0 || has_failed;
	if (has_failed || rename(part, path) != 0) {
		remove(part);
		return error_set(error, STATUS_FILE, "cannot write %s: %s", path, strerror(errno));
	}
	return STATUS_OK;
}
