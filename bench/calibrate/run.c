#include "bench/calibrate/run.h"

#include "bench/calibrate/heat.h"
#include "bench/calibrate/profile.h"
#include "engine/base/number.h"
#include "engine/model/config_json.h"
#include "reports/results/results.h"
#include "engine/base/input_file.h"
#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "engine/base/text.h"
#include "engine/ranks/apart.h"
#include "engine/ranks/launch.h"
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
	printf("plan: %u %s, about %.0f s on a GPU", size.scenes,
		word_of_count(size.scenes, "scene", "scenes"), size.estimate_s);
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

/* The two parts of a calibration, each a trace, the result of its replay, and its steps. */
struct part {
	bool is_ahead;
	char trace[PATH_BYTES_MAX], run[PATH_BYTES_MAX], steps[PATH_BYTES_MAX];
};

static enum status name_part(
	struct part *part, const char *folder, bool is_ahead, struct error *error)
{
	const char *suffix = is_ahead ? "_ahead" : "";

	part->is_ahead = is_ahead;
	TRY(path_format(part->trace, error, "%s/plan%s.jsonl", folder, suffix));
	TRY(path_format(part->run, error, "%s/run%s", folder, suffix));
	return path_format(part->steps, error, "%s/%s", part->run, RESULT_STEPS);
}

/* A run fills in its request (the number of KV blocks, for example), so each gets a copy. */
static struct replay_request request_of(
	const struct replay_request *request, const char *trace, bool is_ahead)
{
	struct replay_request own = *request;

	own.run.trace_path = trace;
	own.wants_steps = true;
	own.run.config.trace_block_size = CALIBRATE_ID_TOKENS;
	own.run.config.sessions = is_ahead ? SESSIONS_OPEN : SESSIONS_CLOSED;
	own.run.config.overlap = is_ahead ? OVERLAP_ON : OVERLAP_OFF;
	own.run.has_joined = is_ahead;
	own.run.runs_after = is_ahead ? 0 : 1;
	return own;
}

/* Writes the plan of a part and replays it. */
static enum status play_part(const struct replay_request *request,
	const struct calibrate_plan *plan, const struct part *part, struct error *error)
{
	struct replay_request own = request_of(request, part->trace, part->is_ahead);
	bool is_launched = rank_launch_find().count > 1;
	bool is_forking = own.run.config.tensor_parallel_size > 1 && !is_launched;

	own.out = part->run;
	/* The plan is that of the run, so a run that was not opened lets another plan in. */
	if (calibrate_refuse_old(part->run, request->is_forced, error) != STATUS_OK ||
		write_plan(plan, part->is_ahead, part->trace, error) != STATUS_OK) {
		return rank_launch_fail(error);
	}
	enum status status = is_forking ? apart_run(play, &own, error) : play(&own, error);
	/* An interrupted run has closed its ranks, which wait for the next. */
	return status == STATUS_VERDICT && !part->is_ahead ? rank_launch_fail(error) : status;
}

static enum status read_part(
	const struct part *part, struct calibrate_points *out, struct error *error)
{
	TRY(calibrate_points_read(out, part->steps, part->is_ahead ? 0 : CALIBRATE_WARM_NS, error));
	return part->is_ahead ? STATUS_OK : read_origin(part->run, &out->origin, error);
}

/* Joins the steps of both parts to points at no heat. */
static enum status join_parts(struct calibrate_points *out, struct calibrate_points *ahead,
	const char *model, const struct gpu_profile *gpu, struct error *error)
{
	struct calibrate_setup setup;

	TRY(calibrate_setup_find(&setup, model, out, gpu, error));
	calibrate_heat_note(out, &setup);
	calibrate_heat_note(ahead, &setup);
	keep_ahead(ahead);
	calibrate_points_append(out, ahead);
	const struct heat_prices heat = calibrate_heat_fit(out);
	calibrate_heat_remove(out, &heat);
	calibrate_points_join(out);
	calibrate_points_drop_lone(out);
	return STATUS_OK;
}

/* plan NULL: both parts were played before. */
static enum status collect(const struct replay_request *request, const struct calibrate_plan *plan,
	const char *folder, const struct gpu_profile *gpu, struct calibrate_points *out,
	struct error *error)
{
	struct part main, launched_ahead;
	char path[PATH_BYTES_MAX];
	struct calibrate_points ahead = {0};

	if (path_format(path, error, "%s/points.tsv", folder) != STATUS_OK ||
		name_part(&main, folder, false, error) != STATUS_OK ||
		name_part(&launched_ahead, folder, true, error) != STATUS_OK ||
		(plan != NULL &&
			calibrate_refuse_old(path, request->is_forced, error) != STATUS_OK)) {
		return rank_launch_fail(error);
	}
	if (plan != NULL) {
		TRY(play_part(request, plan, &main, error));
		TRY(play_part(request, plan, &launched_ahead, error));
	}
	TRY(read_part(&main, out, error));
	enum status status = read_part(&launched_ahead, &ahead, error);
	if (status == STATUS_OK) {
		status = join_parts(out, &ahead, request->run.config.model, gpu, error);
	}
	if (status == STATUS_OK) {
		status = calibrate_points_write(out, path, error);
	}
	calibrate_points_free(&ahead);
	return status;
}

/* A process of mpirun that is not rank 0 opens the same run and follows it, and then the second, in
   which nothing that it has to know differs. It has no folder: its plan is a file with no name. */
static enum status follow(const struct replay_request *request, const struct calibrate_plan *plan,
	struct error *error)
{
	static const char path[] = "/dev/null/plan.jsonl"; /* no file can have it */
	struct calibrate_plan_size size = {0};
	FILE *file;

	if (input_file_make(&file, path, error) != STATUS_OK) {
		return rank_launch_fail(error);
	}
	calibrate_plan_write(plan, file, &size);
	fflush(file);
	struct replay_request own = request_of(request, path, false);
	enum status status = play(&own, error); /* which does not return from opening its ranks */
	input_file_drop(path);
	return status;
}

enum status calibrate_collect(const struct replay_request *request, const char *folder,
	const struct gpu_profile *gpu, struct calibrate_points *out, struct error *error)
{
	return collect(request, NULL, folder, gpu, out, error);
}

enum status calibrate_run(const struct replay_request *request, const char *folder,
	const struct gpu_profile *gpu, uint64_t budget_s, struct calibrate_points *out,
	struct error *error)
{
	const struct replay_config *config = &request->run.config;
	struct model_config model;
	struct calibrate_plan plan;
	struct runner pricer;

	if (model_config_find(config->model, &model, error) != STATUS_OK ||
		replay_config_ranks_check(config, &model, error) != STATUS_OK ||
		fill_plan(&plan, config, &model, gpu, budget_s, error) != STATUS_OK ||
		cost_model_open(&pricer, &model, gpu, (uint32_t)config->tensor_parallel_size,
			error) != STATUS_OK) {
		return rank_launch_fail(error);
	}
	plan.pricer = &pricer;
	enum status status = rank_launch_find().rank == 0
				     ? collect(request, &plan, folder, gpu, out, error)
				     : follow(request, &plan, error);
	pricer.close(pricer.state);
	return status;
}
