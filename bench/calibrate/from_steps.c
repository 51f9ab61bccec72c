#include "bench/calibrate/from_steps.h"

#include "bench/calibrate/profile.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/text.h"
#include "engine/model/config_json.h"
#include "engine/policy.h"
#include "sim/kv_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_times(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double median_ms(uint64_t *ns, size_t count)
{
	qsort(ns, count, sizeof(*ns), compare_times);
	return (double)ns[(count - 1) / 2] / 1e6;
}

static void judge_phase(struct phase_errors *phase, const struct operation_prices *prices,
	struct calibrate_points *points)
{
	uint64_t *measured = memory_take(points->count, sizeof(*measured));
	uint64_t *predicted = memory_take(points->count, sizeof(*predicted));
	double measured_ns = 0, predicted_ns = 0;

	phase->steps = points->count;
	phase->each = calibrate_predict(prices, points, false);
	for (size_t i = 0; i < points->count; i++) {
		measured[i] = points->points[i].elapsed_ns;
		predicted[i] = points->points[i].predicted_ns;
		measured_ns += (double)measured[i];
		predicted_ns += (double)predicted[i];
	}
	phase->measured_s = measured_ns / 1e9;
	phase->predicted_s = predicted_ns / 1e9;
	phase->measured_median_ms = median_ms(measured, points->count);
	phase->predicted_median_ms = median_ms(predicted, points->count);
	free(measured);
	free(predicted);
}

/* ---- another engine ---- */

/* Another engine's defaults for what decides on its memory. */
static uint32_t vllm_index(void)
{
	uint32_t index = 0;

	while (policy_at(index) != &policy_vllm) {
		index++;
	}
	return index;
}

/* What the engine holds beside weights and blocks follows from the number of blocks it found. */
static enum status set_memory(struct gpu_profile *gpu, const struct from_steps_request *request,
	const struct model_config *model, struct error *error)
{
	const struct replay_config *config = request->config;
	struct engine_config engine;
	struct kv_memory memory;

	gpu->process_step = (double)request->host_step_us / 1e3;
	gpu->process_row = (double)request->host_row_us / 1e3;
	if (config->kv_blocks == 0) {
		return STATUS_OK;
	}
	replay_config_engine(config, &engine);
	gpu->engine_bytes = 1;
	TRY(kv_memory_estimate(model, gpu, &engine, config->gpu_memory_utilization,
		(uint32_t)config->tensor_parallel_size, &memory, error));
	uint64_t rest = memory.usable_bytes - memory.weight_bytes - memory.exchange_bytes;
	if (config->kv_blocks > (rest - 1) / memory.block_bytes) {
		return error_set(error, STATUS_USAGE,
			"--kv-blocks %llu: beside the weights, %llu fit into the %.2f of the GPU's "
			"memory that may be used (--gpu-memory-utilization)",
			(unsigned long long)config->kv_blocks,
			(unsigned long long)((rest - 1) / memory.block_bytes),
			(double)config->gpu_memory_utilization / 1e6);
	}
	gpu->engine_bytes = (double)(rest - config->kv_blocks * memory.block_bytes);
	return STATUS_OK;
}

/* Thousandths of a nanosecond are what the options can say. */
static void write_engine(struct calibrate_origin *origin, const struct gpu_profile *gpu)
{
	snprintf(origin->engine_bytes, sizeof(origin->engine_bytes), "%.0f", gpu->engine_bytes);
	snprintf(origin->engine_process_step_ns, sizeof(origin->engine_process_step_ns), "%.3f",
		gpu->process_step);
	snprintf(origin->engine_process_row_ns, sizeof(origin->engine_process_row_ns), "%.3f",
		gpu->process_row);
}

static enum status read_number(const struct calibrate_origin *origin, const char *key,
	const char *text, double most, double *out, struct error *error)
{
	uint64_t millionths = 0;

	if (text[0] == '\0') {
		return STATUS_OK;
	}
	if (!text_to_millionths(text, &millionths) || (double)millionths > most * 1e6) {
		return calibrate_origin_refuse(origin, key, error, "0 to %.0f", most);
	}
	*out = (double)millionths / 1e6;
	return STATUS_OK;
}

enum status from_steps_read_engine(
	const struct calibrate_origin *origin, struct gpu_profile *gpu, struct error *error)
{
	TRY(read_number(
		origin, "engine_bytes", origin->engine_bytes, 1e12, &gpu->engine_bytes, error));
	TRY(read_number(origin, "engine_process_step_ns", origin->engine_process_step_ns, 1e9,
		&gpu->process_step, error));
	return read_number(origin, "engine_process_row_ns", origin->engine_process_row_ns, 1e9,
		&gpu->process_row, error);
}

/* A device is named as in --gpu. */
static void set_origin(struct calibrate_points *points, const struct from_steps_request *request,
	const struct gpu_profile *gpu, const struct model_config *model)
{
	const struct replay_config *config = request->config;
	struct calibrate_origin *origin = &points->origin;
	size_t bytes = strlen(gpu->name);
	size_t end = strlen(GPU_PROFILE_DATASHEET);

	snprintf(origin->model, sizeof(origin->model), "%s", model->name);
	bytes -= bytes > end && strcmp(gpu->name + bytes - end, GPU_PROFILE_DATASHEET) == 0 ? end
											    : 0;
	snprintf(origin->device, sizeof(origin->device), "%.*s", (int)bytes, gpu->name);
	snprintf(origin->tensor_parallel_size, sizeof(origin->tensor_parallel_size), "%llu",
		(unsigned long long)config->tensor_parallel_size);
	snprintf(origin->source, sizeof(origin->source), "%s",
		request->source == NULL ? "a step log" : request->source);
	text_make_printable(origin->source);
	if (config->kv_blocks > 0) {
		snprintf(origin->kv_blocks, sizeof(origin->kv_blocks), "%llu",
			(unsigned long long)config->kv_blocks);
	}
}

/* Prices are fitted to steps that were joined, and judged by the held-out ones as they are. */
static enum status fit_steps(struct from_steps_result *out, const struct calibrate_setup *setup,
	uint64_t seed, struct error *error)
{
	struct step_log *log = &out->log;
	struct operation_floors floors;

	out->step_count = log->fitted.count;
	operation_floors_of(&floors, &setup->limits, &setup->shape);
	step_log_drop_late(log, &floors);
	calibrate_points_join(&log->fitted);
	TRY(calibrate_fit(&out->fit, &log->fitted, setup, seed, error));
	if (log->held_out.count > 0) {
		judge_phase(&out->phase, &out->fit.prices, &log->held_out);
	}
	return STATUS_OK;
}

enum status from_steps(struct from_steps_result *out, const struct from_steps_request *request,
	struct gpu_profile *gpu, struct error *error)
{
	const struct step_log_options options = {
		.left_out = request->left_out_phase, .held_out = request->held_out_phase};
	struct calibrate_setup setup;
	struct model_config model;

	memset(out, 0, sizeof(*out));
	request->config->policy = vllm_index();
	replay_config_take_policy(request->config);
	TRY(model_config_find(request->config->model, &model, error));
	TRY(replay_config_ranks_check(request->config, &model, error));
	replay_config_complete(request->config, &model);
	TRY(step_log_read(&out->log, request->path, &options, error));
	set_origin(&out->log.fitted, request, gpu, &model);
	TRY(set_memory(gpu, request, &model, error));
	write_engine(&out->log.fitted.origin, gpu);
	TRY(calibrate_setup_find(&setup, request->config->model, &out->log.fitted, gpu, error));
	return fit_steps(out, &setup, request->config->seed, error);
}
