#include "engine/model/weights.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/model/checkpoint_names.h"
#include "engine/model/safetensors.h"
#include "engine/model/config_json.h"
#include "engine/model/weights_dummy.h"
#include "kernels/op/number.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements are copied from files without conversion. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little endian");

struct weights {
	struct model_config config;
	struct safetensors *checkpoint; /* NULL: dummy weights */
	uint64_t seed;			/* of dummy weights */
	/* (num_hidden_layers, WEIGHT_COUNT, WEIGHT_PARTS_MAX); layer 0 for weights without layers
	   */
	const struct safetensors_tensor **tensors;
};

/* ---- a checkpoint's tensors ---- */

static const struct safetensors_tensor **part_tensor(
	const struct weights *weights, enum weight weight, uint32_t layer, uint32_t part)
{
	return &weights->tensors[((size_t)layer * WEIGHT_COUNT + weight) * WEIGHT_PARTS_MAX + part];
}

/* Names for an error line: as many as fit, then the number of the others. */
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
	return error_set(error, STATUS_INPUT, "%.80s: %u %s missing%s%s%s; %u not expected%s%s%s",
		folder, missing->count, word_of_count(missing->count, "tensor", "tensors"),
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
	char found[22 * SAFETENSORS_DIMENSIONS_MAX] = "", expected[32];
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

/* Finds the parts of a weight in every layer. */
static enum status find_parts(struct weights *weights, enum weight weight, bool *is_used,
	struct name_list *missing, struct error *error)
{
	bool is_optional = weight_is_tied(&weights->config, weight);
	bool is_vector = weight_form(weight) != WEIGHT_MATRIX;
	char name[CHECKPOINT_NAME_BYTES];

	for (uint32_t layer = 0; layer < weight_layer_count(&weights->config, weight); layer++) {
		for (uint32_t part = 0; part < weight_part_count(weight); part++) {
			checkpoint_name(weight, layer, part, name);
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
			TRY(check_tensor(weights, tensor,
				weight_part_shape(&weights->config, weight, part), is_vector,
				error));
		}
	}
	return STATUS_OK;
}

/* If a tied lm_head is present, it must equal the embedding. */
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

/* Finds every tensor. is_used: (tensors of the checkpoint), set for tensors of the model. */
static enum status find_all(
	struct weights *weights, const char *folder, bool *is_used, struct error *error)
{
	struct name_list missing = {.count = 0}, unexpected = {.count = 0};

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		if (weight_exists(&weights->config, (enum weight)i)) {
			TRY(find_parts(weights, (enum weight)i, is_used, &missing, error));
		}
	}
	for (uint32_t i = 0; i < safetensors_count(weights->checkpoint); i++) {
		if (!is_used[i]) {
			name_list_add(&unexpected, safetensors_at(weights->checkpoint, i)->name);
		}
	}
	if (missing.count + unexpected.count > 0) {
		return refuse_names(folder, &missing, &unexpected, error);
	}
	return check_tied(weights, error);
}

static enum status open_checkpoint(struct weights *weights, const char *folder, struct error *error)
{
	TRY(safetensors_open(&weights->checkpoint, folder, error));
	bool *is_used = memory_take(safetensors_count(weights->checkpoint), sizeof(*is_used));
	uint32_t layers = u32_max(1, weights->config.num_hidden_layers);
	weights->tensors = memory_take(
		(size_t)layers * WEIGHT_COUNT * WEIGHT_PARTS_MAX, sizeof(*weights->tensors));
	enum status status = find_all(weights, folder, is_used, error);
	free(is_used);
	return status;
}

/* ---- opening ---- */

enum status weights_open(struct weights **out, const struct model_config *config,
	const char *source, struct error *error)
{
	static const char dummy[] = "dummy:";
	enum status status = STATUS_OK;

	*out = NULL;
	TRY(model_config_check_computed(config, error));
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
	/* Subnormal in f16, normal in f32. */
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

/* A cursor of a read, by rows; here a vector is one column. */
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
	check(layer < weight_layer_count(config, weight));
	struct weight_shape shape = weight_shape(config, weight, shard);
	check(first_row <= shape.rows && row_count <= shape.rows - first_row);
	struct reader reader = {weights, weight, layer, shard, first_row, first_row + row_count};
	if (weight_form(weight) != WEIGHT_MATRIX) {
		reader.row_end = row_count * shape.columns;
	}
	return reader;
}

/* The next run; false at the end. */
static bool reader_next(struct reader *reader, struct run *run)
{
	const struct model_config *config = &reader->weights->config;
	struct weight_range columns = weight_shard_columns(config, reader->weight, reader->shard);
	uint32_t whole_columns = weight_part_shape(config, reader->weight, 0).columns;
	uint32_t part = 0;
	uint32_t shard_begin = 0; /* the part's first row in the shard, */
	uint64_t whole_begin = 0; /* and in the whole tensor */

	if (reader->row == reader->row_end) {
		return false;
	}
	struct weight_range rows = weight_shard_rows(config, reader->weight, part, reader->shard);
	while (reader->row - shard_begin >= rows.count) {
		shard_begin += rows.count;
		whole_begin += weight_part_shape(config, reader->weight, part).rows;
		part++;
		check(part < weight_part_count(reader->weight));
		rows = weight_shard_rows(config, reader->weight, part, reader->shard);
	}
	uint32_t row = rows.first + reader->row - shard_begin;
	/* Whole rows are contiguous; parts of rows are not. */
	uint32_t row_count = 1;
	if (columns.count == whole_columns) {
		row_count = u32_min(reader->row_end, shard_begin + rows.count) - reader->row;
	}
	bool is_dummy = reader->weights->checkpoint == NULL;
	*run = (struct run){
		.first = (row + (is_dummy ? whole_begin : 0)) * whole_columns + columns.first,
		.count = (uint64_t)row_count * columns.count,
	};
	/* A tied lm_head has rows of a shard, and the values of the embedding. */
	enum weight stored =
		weight_is_tied(config, reader->weight) ? WEIGHT_EMBEDDING : reader->weight;
	if (is_dummy) {
		run->dummy = weight_dummy(config, reader->weights->seed, stored, reader->layer);
	} else {
		run->tensor = *part_tensor(reader->weights, stored, reader->layer, part);
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
