#include "bench/calibrate/profile.h"

#include "bench/calibrate/heat.h"
#include "reports/figures/plot.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"
#include "engine/model/config_json.h"
#include "engine/shape/graph_bucket.h"
#include "engine/step_record.h"
#include "sim/profile_laws.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 40 };

/* Integers of memory are exact, and prices have nine digits (calibrate_fit()). */
static void number_text(char *text, double value)
{
	snprintf(text, NUMBER_BYTES, "%.15g", value);
}

static void add_number(cJSON *object, const char *name, double value)
{
	char text[NUMBER_BYTES];

	number_text(text, value);
	cJSON_AddRawToObject(object, name, text);
}

static void add_array(cJSON *object, const char *name, const double *values, uint32_t count)
{
	cJSON *array = cJSON_AddArrayToObject(object, name);
	char text[NUMBER_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		number_text(text, values[i]);
		cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
	}
}

static void add_error(cJSON *object, const char *name, double error)
{
	char text[NUMBER_BYTES];

	snprintf(text, sizeof(text), "%.6f", error);
	cJSON_AddRawToObject(object, name, text);
}

static void add_errors(cJSON *object, const char *name, const struct profile_errors *errors)
{
	cJSON *inner = cJSON_AddObjectToObject(object, name);

	add_number(inner, "points", errors->points);
#define ADD_ERROR(field) add_error(inner, #field, errors->field);
	GPU_PROFILE_ERROR_LIST(ADD_ERROR)
#undef ADD_ERROR
	add_error(inner, "bias", errors->bias);
}

static void add_limits(cJSON *root, const struct operation_limits *limits, const char *gpu)
{
	cJSON *section = cJSON_AddObjectToObject(root, "limits");
	char source[GPU_PROFILE_NAME_BYTES + 16];

	snprintf(source, sizeof(source), "profile %s", gpu);
#define ADD_LIMIT(field, in, minimum, maximum)                                                     \
	cJSON *field = cJSON_AddObjectToObject(section, #field);                                   \
	add_number(field, "value", limits->field);                                                 \
	cJSON_AddStringToObject(field, "unit", in);                                                \
	cJSON_AddStringToObject(field, "source", source);
	OPERATION_LIMIT_LIST(ADD_LIMIT)
#undef ADD_LIMIT
}

static void add_heat(cJSON *root, const struct heat_prices *heat)
{
	if (heat->prompt > 0) {
		cJSON *section = cJSON_AddObjectToObject(root, "heat");
		cJSON_AddStringToObject(section, "form", HEAT_FORM);
		add_number(section, "prompt", heat->prompt);
		add_number(section, "decode", heat->decode);
		add_number(section, "decay_ns", heat->decay_ns);
	}
}

static void add_sharing(cJSON *root, const struct operation_sharing *sharing)
{
	if (sharing->tokens > 0) {
		cJSON *section = cJSON_AddObjectToObject(root, "sharing");
		add_number(section, "tokens", sharing->tokens);
		add_number(section, "longest", sharing->longest);
		add_number(section, "alone", sharing->alone);
		add_number(section, "round", sharing->round);
		add_number(section, "readers", sharing->readers);
		cJSON_AddStringToObject(section, "source",
			"DECODE_SHARING_LEAST, DECODE_LONG, DECODE_ROUND, decode_long_alone() and "
			"decode_readers() of engine/shape/kernel_tiles.h");
	}
}

static void add_cells(cJSON *section, const struct step_hull *hull)
{
	cJSON *cells = cJSON_AddArrayToObject(section, "cells");
	enum { COUNT = STEP_HULL_OCTAVES };

	for (int i = 0; i < COUNT * COUNT * COUNT; i++) {
		const int cell[3] = {i / COUNT / COUNT, i / COUNT % COUNT, i % COUNT};
		if ((hull->measured[cell[0]][cell[1]] >> cell[2] & 1) != 0) {
			cJSON_AddItemToArray(cells, cJSON_CreateIntArray(cell, 3));
		}
	}
}

static void add_hull(cJSON *root, const struct calibrate_points *points)
{
	struct step_hull hull;

	step_hull_init(&hull);
	for (size_t i = 0; i < points->count; i++) {
		step_hull_add(&hull, &points->points[i].counts);
	}
	cJSON *section = cJSON_AddObjectToObject(root, "hull");
	cJSON *largest = cJSON_AddObjectToObject(section, "largest");
#define ADD_LARGEST(count) cJSON_AddNumberToObject(largest, #count, (double)hull.largest.count);
	STEP_HULL_COUNT_LIST(ADD_LARGEST)
#undef ADD_LARGEST
	add_cells(section, &hull);
}

static void add_prices(cJSON *root, const struct operation_prices *prices)
{
	cJSON *section = cJSON_AddObjectToObject(root, "prices");

	for (uint32_t i = 0; i < OPERATION_TERM_COUNT; i++) {
		enum operation_term term = (enum operation_term)i;
		const struct operation_parts *parts = &prices->terms[i];
		if (parts->count == 0 && operation_term_may_lack(term)) {
			continue;
		}
		cJSON *inner = cJSON_AddObjectToObject(section, operation_term_name(term));
		cJSON_AddStringToObject(inner, "what", operation_term_what(term));
		add_array(inner, "at", parts->at, parts->count);
		add_array(inner, "ns", parts->ns, parts->count);
	}
}

static cJSON *profile_json(const struct calibrate_fit *fit, const struct calibrate_points *points,
	const struct gpu_profile *memory, uint32_t ranks, const struct heat_prices *heat)
{
	const struct calibrate_origin *origin = &points->origin;
	cJSON *root = cJSON_CreateObject();
	char text[512], times[16] = "";

	if (ranks > 1) {
		snprintf(times, sizeof(times), "%u x ", ranks);
	}
	if (origin->source[0] != '\0') {
		snprintf(text, sizeof(text), "%s%s with %s, fitted to steps of %s", times,
			origin->device, origin->model, origin->source);
	} else {
		const char *count = origin->calibrations, *last = strrchr(origin->commit, ' ');
		snprintf(text, sizeof(text), "%s%s with %s, calibrated %s%s%s%s at commit %s",
			times, origin->device, origin->model, count,
			count[0] == '\0' ? "" : " times until ", origin->date,
			last == NULL ? "" : ", the last", last == NULL ? origin->commit : last + 1);
	}
	cJSON_AddStringToObject(root, "schema", GPU_PROFILE_CALIBRATED_SCHEMA);
	cJSON_AddStringToObject(root, "description", text);
	cJSON_AddStringToObject(root, "model", origin->model);
	add_number(root, "tensor_parallel_size", ranks);
	cJSON *section = cJSON_AddObjectToObject(root, "memory");
	add_number(section, "memory_bytes", memory->memory_bytes);
	add_number(section, "context_bytes", memory->context_bytes);
	if (memory->engine_bytes > 0) {
		add_number(section, "engine_bytes", memory->engine_bytes);
	}
	if (memory->process_step + memory->process_row > 0) {
		section = cJSON_AddObjectToObject(root, "engine_process");
		add_number(section, "step_ns", memory->process_step);
		add_number(section, "row_ns", memory->process_row);
	}
	section = cJSON_AddObjectToObject(root, "calibration");
#define ADD_ORIGIN(key, bytes)                                                                     \
	if (origin->key[0] != '\0') {                                                              \
		cJSON_AddStringToObject(section, #key, origin->key);                               \
	}
	CALIBRATE_ORIGIN_LIST(ADD_ORIGIN)
#undef ADD_ORIGIN
	section = cJSON_AddObjectToObject(root, "residuals");
	add_errors(section, "fitted", &fit->fitted);
	add_errors(section, "held_out", &fit->held_out);
	add_limits(root, &fit->prices.limits, memory->name);
	section = cJSON_AddObjectToObject(root, "shape");
#define ADD_SHAPE(field) add_number(section, #field, fit->prices.shape.field);
	OPERATION_SHAPE_LIST(ADD_SHAPE)
#undef ADD_SHAPE
	cJSON *edges = cJSON_AddArrayToObject(root, "edges");
	for (uint32_t i = 0; i < PRICE_EDGE_COUNT; i++) {
		if ((fit->edges >> i & 1) != 0) {
			cJSON_AddItemToArray(
				edges, cJSON_CreateString(price_edge_name((enum price_edge)i)));
		}
	}
	add_sharing(root, &fit->prices.sharing);
	if (fit->prices.graph_tokens > 0) {
		add_number(root, "graph_prompt_tokens", fit->prices.graph_tokens);
	}
	add_heat(root, heat);
	add_hull(root, points);
	add_prices(root, &fit->prices);
	return root;
}

static enum status find_model(struct model_config *out, const char *model,
	const struct calibrate_points *points, struct error *error)
{
	const char *name = points->origin.model;

	if (model_config_builtin(name, out)) {
		return STATUS_OK;
	}
	TRY(model_config_find(model, out, error));
	return strcmp(out->name, name) == 0
		       ? STATUS_OK
		       : error_set(error, STATUS_USAGE,
				 "the steps are of model '%s', which is not built in: --model "
				 "names its config.json, found %s",
				 name, out->name);
}

enum status calibrate_setup_find(struct calibrate_setup *setup, const char *model_path,
	const struct calibrate_points *points, const struct gpu_profile *gpu, struct error *error)
{
	struct weight_shard shard = {0};
	struct model_config model;

	if (!gpu->has_limits) {
		return error_set(error, STATUS_USAGE,
			"profile %s has no section 'limits', expected one with read_rate, "
			"flop_rate and multiprocessors",
			gpu->name);
	}
	TRY(calibrate_points_ranks(points, &shard.ranks, error));
	TRY(find_model(&model, model_path, points, error));
	TRY(weight_shard_check(&model, shard, error));
	setup->limits = gpu->prices.limits;
	setup->shape = weight_shard_config(&model, shard);
	setup->is_step_log = points->origin.source[0] != '\0';
	setup->graph_tokens = setup->is_step_log || shard.ranks > 1
				      ? 0
				      : (uint32_t)graph_prompt_tokens(&setup->shape);
	return STATUS_OK;
}

enum status calibrate_profile_write(const char *path, const struct calibrate_fit *fit,
	const struct calibrate_points *points, const struct gpu_profile *memory,
	struct error *error)
{
	struct output_file output;
	struct heat_prices heat;
	uint32_t ranks;

	TRY(calibrate_points_ranks(points, &ranks, error));
	TRY(calibrate_heat_read(points, &heat, error));
	TRY(output_file_open(&output, path, error));
	cJSON *root = profile_json(fit, points, memory, ranks, &heat);
	json_print(root, output.file);
	cJSON_Delete(root);
	return output_file_commit(&output, error);
}

enum status calibrate_plot(const struct calibrate_fit *fit, const struct calibrate_points *points,
	const char *name, const char *path, struct error *error)
{
	struct plot plot;
	char subject[160];

	TRY(plot_begin(&plot, error));
	snprintf(subject, sizeof(subject), "%s: %.2f %% mean error on held-out steps", name,
		fit->held_out.mean * 100);
	fprintf(plot.table, "kind\theld_out\tmeasured_ns\tpredicted_ns\n");
	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		const struct step_counts *counts = &point->counts;
		fprintf(plot.table, "%s\t%d\t%llu\t%llu\n", step_kind_name(step_kind_of(counts)),
			point->is_held_out, (unsigned long long)point->elapsed_ns,
			(unsigned long long)point->predicted_ns);
	}
	plot_set_text(&plot, "subject", subject);
	return plot_draw(&plot, "calibration.gp", path, error);
}
