#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/shape/graph_bucket.h"
#include "sim/profile.h"
#include "sim/profile_laws.h"

#include <stdio.h>
#include <string.h>

/* The largest count that a table of steps holds. */
static const uint64_t count_max = UINT64_C(1) << 53;

static enum status read_errors(
	const struct json_object *root, struct profile_errors *out, struct error *error)
{
	struct json_object residuals, held_out;

	json_object(root, "residuals", &residuals, error);
	TRY(json_object(&residuals, "held_out", &held_out, error));
	json_u32(&held_out, "points", 0, UINT32_MAX, &out->points, error);
#define READ_ERROR(field) json_double(&held_out, #field, 0, 1e15, &out->field, error);
	GPU_PROFILE_ERROR_LIST(READ_ERROR)
#undef READ_ERROR
	return json_double(&held_out, "bias", -1e15, 1e15, &out->bias, error);
}

static enum status read_spread(const struct json_object *root, double *spread, struct error *error)
{
	struct json_object calibration;
	uint64_t millionths = 0;

	if (json_find(root, "calibration") == NULL) {
		return STATUS_OK;
	}
	TRY(json_object(root, "calibration", &calibration, error));
	const cJSON *field = json_find(&calibration, "card_spread");
	if (field == NULL) {
		return STATUS_OK;
	}
	if (!cJSON_IsString(field) || !text_to_millionths(field->valuestring, &millionths) ||
		(double)millionths > GPU_PROFILE_SPREAD_MOST * 1e6) {
		return json_refuse(&calibration, "card_spread", "a text of 0 to 0.5", error);
	}
	*spread = (double)millionths / 1e6;
	return STATUS_OK;
}

static enum status read_shape(
	const struct json_object *root, struct model_config *out, struct error *error)
{
	struct json_object object;

	TRY(json_object(root, "shape", &object, error));
#define READ_SHAPE(field) json_u32(&object, #field, 1, 1 << 24, &out->field, error);
	OPERATION_SHAPE_LIST(READ_SHAPE)
#undef READ_SHAPE
	return error->status;
}

static enum status read_edges(const struct json_object *root, uint32_t *edges, struct error *error)
{
	const cJSON *array = json_find(root, "edges"), *child = NULL;
	bool is_good = cJSON_IsArray(array);

	*edges = 0;
	array = is_good ? array : NULL;
	cJSON_ArrayForEach(child, array)
	{
		uint32_t before = *edges;
		for (uint32_t i = 0; i < PRICE_EDGE_COUNT && cJSON_IsString(child); i++) {
			bool is_it = strcmp(child->valuestring,
					     price_edge_name((enum price_edge)i)) == 0;
			*edges |= is_it ? 1U << i : 0;
		}
		is_good = is_good && *edges != before;
	}
	return is_good ? STATUS_OK
		       : json_refuse(root, "edges",
				 "an array of names of edges (quire calibrate writes them), each "
				 "at most once",
				 error);
}

/* An octave of a cell, or STEP_HULL_OCTAVES where it is none. */
static uint32_t octave_at(const cJSON *cell, int index)
{
	const cJSON *number = cJSON_GetArrayItem(cell, index);
	bool is_good = cJSON_IsNumber(number) && number->valuedouble >= 0 &&
		       number->valuedouble < STEP_HULL_OCTAVES &&
		       number->valuedouble == (double)number->valueint;

	return is_good ? (uint32_t)number->valueint : STEP_HULL_OCTAVES;
}

static enum status read_cells(
	const struct json_object *object, struct step_hull *out, struct error *error)
{
	const cJSON *cells = json_find(object, "cells"), *cell = NULL;
	bool is_good = cJSON_IsArray(cells);

	cells = is_good ? cells : NULL;
	cJSON_ArrayForEach(cell, cells)
	{
		uint32_t at[3] = {octave_at(cell, 0), octave_at(cell, 1), octave_at(cell, 2)};
		is_good = is_good && cJSON_IsArray(cell) && cJSON_GetArraySize(cell) == 3 &&
			  at[0] < STEP_HULL_OCTAVES && at[1] < STEP_HULL_OCTAVES &&
			  at[2] < STEP_HULL_OCTAVES;
		if (is_good) {
			step_hull_add_cell(out, at[0], at[1], at[2]);
		}
	}
	return is_good ? STATUS_OK
		       : json_refuse(object, "cells",
				 "an array of cells [rows, tokens, context], integers from 0 to 31",
				 error);
}

static enum status read_hull(
	const struct json_object *root, struct step_hull *out, struct error *error)
{
	struct json_object hull, largest;

	step_hull_init(out);
	TRY(json_object(root, "hull", &hull, error));
	TRY(json_object(&hull, "largest", &largest, error));
#define READ_LARGEST(count) json_u64(&largest, #count, 0, count_max, &out->largest.count, error);
	STEP_HULL_COUNT_LIST(READ_LARGEST)
#undef READ_LARGEST
	TRY(error->status);
	return read_cells(&hull, out, error);
}

static enum status read_array(const struct json_object *object, const char *field, double *values,
	uint32_t *count, struct error *error)
{
	const cJSON *array = json_find(object, field), *child = NULL;
	bool is_good = cJSON_IsArray(array) && cJSON_GetArraySize(array) <= OPERATION_PARTS;

	*count = 0;
	array = is_good ? array : NULL;
	cJSON_ArrayForEach(child, array)
	{
		is_good = is_good && cJSON_IsNumber(child);
		values[(*count)++] = child->valuedouble;
	}
	return is_good ? STATUS_OK
		       : json_refuse(object, field, "an array of at most 32 numbers", error);
}

static enum status read_term(const struct json_object *prices, enum operation_term term,
	struct operation_parts *out, struct error *error)
{
	struct json_object object;
	uint32_t count = 0;

	if (operation_term_may_lack(term) && json_find(prices, operation_term_name(term)) == NULL) {
		return STATUS_OK;
	}
	TRY(json_object(prices, operation_term_name(term), &object, error));
	TRY(read_array(&object, "at", out->at, &out->count, error));
	TRY(read_array(&object, "ns", out->ns, &count, error));
	if (count != out->count) {
		return json_refuse(&object, "ns", "as many numbers as in 'at'", error);
	}
	return STATUS_OK;
}

static enum status read_prices(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	struct json_object prices, object;
	enum operation_term term;
	const char *expected;

	TRY(json_object(root, "prices", &prices, error));
	for (uint32_t i = 0; i < OPERATION_TERM_COUNT; i++) {
		TRY(read_term(&prices, (enum operation_term)i, &out->prices.terms[i], error));
	}
	if (!operation_prices_are_sound(&out->prices, &term, &expected)) {
		TRY(json_object(&prices, operation_term_name(term), &object, error));
		return json_refuse(&object, "ns", expected, error);
	}
	struct error broken = {0};
	if (operation_prices_check(&out->prices, out->edges, &broken) != STATUS_OK) {
		return error_set(error, STATUS_INPUT, "%s: %s", root->document->name, broken.text);
	}
	return STATUS_OK;
}

static enum status read_sharing(
	const struct json_object *root, struct operation_sharing *out, struct error *error)
{
	struct json_object sharing;

	if (json_find(root, "sharing") == NULL) {
		return STATUS_OK;
	}
	TRY(json_object(root, "sharing", &sharing, error));
	json_double(&sharing, "tokens", 0, OPERATION_PRICE_LIMIT, &out->tokens, error);
	json_double(&sharing, "longest", 0, OPERATION_PRICE_LIMIT, &out->longest, error);
	if (json_find(&sharing, "readers") != NULL) {
		uint32_t readers = 0;
		json_u32(&sharing, "readers", 1, OPERATION_READERS_MOST, &readers, error);
		out->readers = readers;
	}
	if (json_find(&sharing, "round") != NULL) {
		json_double(&sharing, "round", 1, OPERATION_PRICE_LIMIT, &out->round, error);
	}
	if (json_find(&sharing, "alone") == NULL) { /* the engine has no kernel for a row alone */
		return error->status;
	}
	/* Else a second row could make a step cheaper: with longest 0 no row of several is long. */
	double most = out->longest > 0 ? OPERATION_PRICE_LIMIT : 0;
	return json_double(&sharing, "alone", out->longest, most, &out->alone, error);
}

static enum status read_process(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	struct json_object process;

	if (json_find(root, "engine_process") == NULL) {
		return STATUS_OK;
	}
	TRY(json_object(root, "engine_process", &process, error));
	json_double(&process, "step_ns", 0, 1e9, &out->process_step, error);
	return json_double(&process, "row_ns", 0, 1e9, &out->process_row, error);
}

static enum status read_heat(
	const struct json_object *root, struct heat_prices *out, struct error *error)
{
	struct json_object heat;

	if (json_find(root, "heat") == NULL) {
		return STATUS_OK;
	}
	TRY(json_object(root, "heat", &heat, error));
	const cJSON *form = json_find(&heat, "form");
	if (!cJSON_IsString(form) || strcmp(form->valuestring, HEAT_FORM) != 0) {
		return json_refuse(&heat, "form",
			HEAT_FORM ": make the profile again from its recording, quire calibrate "
				  "--measured --out DIR",
			error);
	}
	json_double(&heat, "prompt", 0, HEAT_RISE_MOST, &out->prompt, error);
	json_double(&heat, "decode", 0, out->prompt, &out->decode, error);
	return json_double(&heat, "decay_ns", 1, (double)HEAT_DECAY_NS_MOST, &out->decay_ns, error);
}

enum status gpu_profile_read_calibrated(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	struct json_object memory;
	const char *model = NULL;

	TRY(read_errors(root, &out->held_out, error));
	TRY(read_spread(root, &out->card_spread, error));
	TRY(json_text(root, "model", &model, error));
	snprintf(out->model, sizeof(out->model), "%s", model);
	out->ranks = 1;
	if (json_find(root, "tensor_parallel_size") != NULL) {
		TRY(json_u32(
			root, "tensor_parallel_size", 1, TENSOR_PARALLEL_MAX, &out->ranks, error));
	}
	json_object(root, "memory", &memory, error);
	json_double(&memory, "memory_bytes", 1e6, 1e15, &out->memory_bytes, error);
	json_double(&memory, "context_bytes", 0, 1e12, &out->context_bytes, error);
	if (json_find(&memory, "engine_bytes") != NULL) {
		json_double(&memory, "engine_bytes", 1, 1e12, &out->engine_bytes, error);
	}
	TRY(read_process(root, out, error));
	TRY(read_shape(root, &out->prices.shape, error));
	TRY(read_sharing(root, &out->prices.sharing, error));
	if (json_find(root, "graph_prompt_tokens") != NULL) {
		TRY(json_u32(root, "graph_prompt_tokens", 0, GRAPH_PROMPT_TOKENS,
			&out->prices.graph_tokens, error));
	}
	TRY(read_edges(root, &out->edges, error));
	TRY(read_hull(root, &out->hull, error));
	TRY(read_heat(root, &out->heat, error));
	return read_prices(root, out, error);
}
