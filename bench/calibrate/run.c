#include "bench/calibrate/run.h"

#include "engine/model/config_json.h"
#include "reports/results/results.h"
#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "engine/base/text.h"
#include "engine/ranks/apart.h"
#include "sim/cost_model.h"
#include "sim/kv_memory.h"

#include <stdio.h>
#include <string.h>

/* Estimates the number of KV blocks, with a margin. The plan needs it before the runner, which
   finds the actual number, is opened. */
static enum status guess_blocks(const struct calibrate_plan *plan,
	const struct replay_config *config, const struct model_config *model,
	const struct gpu_profile *gpu, uint32_t *blocks, struct error *error)
{
	struct kv_memory memory;
	const struct engine_config engine = {
		.block_size = plan->block_size,
		.max_num_seqs = plan->max_num_seqs,
		.max_num_batched_tokens = plan->max_num_batched_tokens,
		.max_model_len = plan->max_model_len,
	};

	if (config->kv_blocks > 0) {
		*blocks = u32_from(config->kv_blocks);
		return STATUS_OK;
	}
	TRY(kv_memory_estimate(model, gpu, &engine, config->gpu_memory_utilization,
		(uint32_t)config->tensor_parallel_size, &memory, error));
	*blocks = memory.block_count - memory.block_count / 16;
	return STATUS_OK;
}

static enum status fill_plan(struct calibrate_plan *plan, const struct replay_config *config,
	const struct model_config *model, const struct gpu_profile *gpu, uint64_t budget_s,
	struct error *error)
{
	*plan = (struct calibrate_plan){
		.seed = config->seed,
		.budget_s = (double)budget_s,
		.block_size = u32_from(config->block_size),
		.max_num_seqs = u32_from(config->max_num_seqs),
		.max_num_batched_tokens = u32_from(config->max_num_batched_tokens),
		.max_model_len = u32_from(config->max_model_len),
	};
	return guess_blocks(plan, config, model, gpu, &plan->kv_blocks, error);
}

static enum status write_plan(
	const struct calibrate_plan *plan, bool is_ahead, const char *path, struct error *error)
{
	struct output_file output;
	struct calibrate_plan_size size = {0};

	TRY(output_file_open(&output, path, error));
	if (is_ahead) {
		calibrate_plan_write_ahead(plan, output.file);
		return output_file_commit(&output, error);
	}
	calibrate_plan_write(plan, output.file, &size);
	TRY(output_file_commit(&output, error));
	printf("plan: %u scenes, about %.0f s on a GPU", size.scenes, size.estimate_s);
	if (size.scenes_left_out > 0) {
		printf("; %u left out for lack of time or memory", size.scenes_left_out);
	}
	printf("\n");
	fflush(stdout);
	return STATUS_OK;
}

/* Copies a string or number of a result, if it exists. */
static void copy_text(char *text, size_t bytes, const struct json_object *object, const char *field)
{
	const cJSON *node = json_find(object, field);

	if (cJSON_IsString(node)) {
		snprintf(text, bytes, "%s", node->valuestring);
	} else if (cJSON_IsNumber(node)) {
		snprintf(text, bytes, "%.0f", node->valuedouble);
	}
	text_make_printable(text);
}

static enum status open_in(
	struct json_document *document, const char *run, const char *name, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", run, name));
	return json_document_open(document, path, error);
}

static enum status copy_origin(const char *run, struct json_document *provenance,
	struct json_document *summary, struct calibrate_origin *origin, struct error *error)
{
	struct json_object root, config;

	TRY(open_in(provenance, run, RESULT_PROVENANCE, error));
	TRY(json_root(&root, provenance, error));
	copy_text(origin->device, sizeof(origin->device), &root, PROVENANCE_DEVICE);
	copy_text(origin->date, sizeof(origin->date), &root, PROVENANCE_DATE);
	copy_text(origin->commit, sizeof(origin->commit), &root, PROVENANCE_COMMIT);
	copy_text(origin->command, sizeof(origin->command), &root, PROVENANCE_COMMAND);
	TRY(open_in(summary, run, RESULT_SUMMARY, error));
	TRY(json_root(&root, summary, error));
	TRY(json_object(&root, SUMMARY_CONFIG, &config, error));
	copy_text(origin->model, sizeof(origin->model), &config, "model");
	copy_text(origin->kv_blocks, sizeof(origin->kv_blocks), &config, "kv_blocks");
	copy_text(origin->tensor_parallel_size, sizeof(origin->tensor_parallel_size), &config,
		"tensor_parallel_size");
	if (origin->device[0] == '\0') {
		snprintf(origin->device, sizeof(origin->device), "runner ");
		copy_text(origin->device + 7, sizeof(origin->device) - 7, &config, "runner");
	}
	return STATUS_OK;
}

static enum status read_origin(
	const char *run, struct calibrate_origin *origin, struct error *error)
{
	struct json_document provenance = {.root = NULL}, summary = {.root = NULL};
	enum status status = copy_origin(run, &provenance, &summary, origin, error);

	json_document_close(&provenance);
	json_document_close(&summary);
	return status;
}

/* Keeps only the steps that were launched ahead: the decode steps that follow a decode step, since
   all requests of the run arrived at the start. */
static void keep_ahead(struct calibrate_points *points)
{
	size_t kept = 0;
	bool was_decode = false;

	for (size_t i = 0; i < points->count; i++) {
		bool is_decode = points->points[i].counts.prefill_rows == 0;
		points->points[i].ahead = 1;
		if (is_decode && was_decode) {
			points->points[kept++] = points->points[i];
		}
		was_decode = is_decode;
	}
	points->count = kept;
}

static enum status play(void *request, struct error *error)
{
	return run_to_folder(request, error);
}

enum status calibrate_refuse_old(const char *path, bool is_forced, struct error *error)
{
	bool is_there = false;

	TRY(path_is_there(path, &is_there, error));
	return is_there && !is_forced ? error_set(error, STATUS_FILE,
						"%.200s exists already; --force replaces it", path)
				      : STATUS_OK;
}

/* Writes the plan and replays it, unless that was done before; *out receives its steps. */
static enum status play_plan(const struct replay_request *request,
	const struct calibrate_plan *plan, const char *folder, bool is_ahead,
	struct calibrate_points *out, struct error *error)
{
	/* A run fills in its request (the number of KV blocks, for example), so it gets a copy. */
	struct replay_request own = *request;
	char trace[PATH_BYTES_MAX], run[PATH_BYTES_MAX], steps[PATH_BYTES_MAX];

	TRY(path_format(trace, error, "%s/plan%s.jsonl", folder, is_ahead ? "_ahead" : ""));
	TRY(path_format(run, error, "%s/run%s", folder, is_ahead ? "_ahead" : ""));
	TRY(path_format(steps, error, "%s/%s", run, RESULT_STEPS));
	own.run.trace_path = trace;
	own.out = run;
	own.wants_steps = true;
	own.run.config.sessions = is_ahead ? SESSIONS_OPEN : SESSIONS_CLOSED;
	own.run.config.overlap = is_ahead ? OVERLAP_ON : OVERLAP_OFF;
	if (plan != NULL) {
		TRY(calibrate_refuse_old(trace, request->is_forced, error));
		TRY(write_plan(plan, is_ahead, trace, error));
		bool has_ranks = own.run.config.tensor_parallel_size > 1;
		TRY(has_ranks ? apart_run(play, &own, error) : play(&own, error));
	}
	TRY(calibrate_points_read(out, steps, is_ahead ? 0 : CALIBRATE_WARM_NS, error));
	if (is_ahead) {
		keep_ahead(out);
		return STATUS_OK;
	}
	return read_origin(run, &out->origin, error);
}

static enum status collect(const struct replay_request *request, const struct calibrate_plan *plan,
	const char *folder, struct calibrate_points *out, struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct calibrate_points ahead = {0};

	TRY(path_format(path, error, "%s/points.tsv", folder));
	if (plan != NULL) {
		TRY(calibrate_refuse_old(path, request->is_forced, error));
	}
	/* The short run first: where the long one is cut, --measured has both. */
	TRY(play_plan(request, plan, folder, true, &ahead, error));
	enum status status = play_plan(request, plan, folder, false, out, error);
	if (status == STATUS_OK) {
		calibrate_points_append(out, &ahead);
		calibrate_points_join(out);
		calibrate_points_drop_lone(out);
		status = calibrate_points_write(out, path, error);
	}
	calibrate_points_free(&ahead);
	return status;
}

enum status calibrate_collect(const char *folder, struct calibrate_points *out, struct error *error)
{
	const struct replay_request request = {0};

	return collect(&request, NULL, folder, out, error);
}

enum status calibrate_run(const struct replay_request *request, const char *folder,
	const struct gpu_profile *gpu, uint64_t budget_s, struct calibrate_points *out,
	struct error *error)
{
	struct model_config model;
	struct calibrate_plan plan;
	struct runner pricer;

	TRY(model_config_find(request->run.config.model, &model, error));
	TRY(replay_config_ranks_check(&request->run.config, &model, error));
	TRY(cost_model_open(
		&pricer, &model, gpu, (uint32_t)request->run.config.tensor_parallel_size, error));
	enum status status = fill_plan(&plan, &request->run.config, &model, gpu, budget_s, error);
	plan.pricer = &pricer;
	if (status == STATUS_OK) {
		status = collect(request, &plan, folder, out, error);
	}
	pricer.close(pricer.state);
	return status;
}
