#include "bench/calibrate_run.h"

#include "bench/results.h"
#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"
#include "sim/cost_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

static enum status make_folder(const char *path, struct error *error)
{
	if (mkdir(path, 0777) != 0 && errno != EEXIST) {
		return error_set(error, STATUS_FILE, "cannot make %s: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

/* The pool is known only once the runner is open, and the plan has to be there before: an estimate,
   with something left over. */
static enum status guess_blocks(const struct calibrate_plan *plan,
	const struct replay_config *config, uint32_t *blocks, struct error *error)
{
	struct kv_memory memory;
	const struct kv_memory_limits limits = {
		.gpu_memory_utilization = config->gpu_memory_utilization,
		.block_size = plan->block_size,
		.max_num_seqs = plan->max_num_seqs,
		.max_num_batched_tokens = plan->max_num_batched_tokens,
		.max_model_len = plan->max_model_len,
	};

	if (config->kv_blocks > 0) {
		*blocks = u32_from(config->kv_blocks);
		return STATUS_OK;
	}
	enum status status = cost_model_kv_memory(plan->model, plan->gpu, &limits, &memory, error);
	if (status == STATUS_OK) {
		*blocks = memory.block_count - memory.block_count / 16;
	}
	return status;
}

static enum status write_plan(const struct replay_config *config, const struct model_config *model,
	const struct gpu_profile *gpu, uint64_t budget_s, const char *path, struct error *error)
{
	struct output_file output;
	struct calibrate_plan_size size;
	struct calibrate_plan plan = {
		.model = model,
		.gpu = gpu,
		.seed = config->seed,
		.budget_s = (double)budget_s,
		.block_size = u32_from(config->block_size),
		.max_num_seqs = u32_from(config->max_num_seqs),
		.max_num_batched_tokens = u32_from(config->max_num_batched_tokens),
		.max_model_len = u32_from(config->max_model_len),
	};

	enum status status = guess_blocks(&plan, config, &plan.kv_blocks, error);
	if (status == STATUS_OK) {
		status = output_file_open(&output, path, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	calibrate_plan_write(&plan, output.file, &size);
	status = output_file_commit(&output, error);
	if (status == STATUS_OK) {
		printf("plan: %u scenes, about %.0f s on a GPU like %s", size.scenes,
			size.estimate_s, gpu->name);
		if (size.scenes_left_out > 0) {
			printf("; %u left out for lack of time or memory", size.scenes_left_out);
		}
		printf("\n");
		fflush(stdout);
	}
	return status;
}

/* Texts of a result, as far as they are there. */
static void copy_text(char *text, size_t bytes, const struct json_place *place, const char *field)
{
	const cJSON *node = json_find(place, field);

	if (cJSON_IsString(node)) {
		snprintf(text, bytes, "%s", node->valuestring);
	} else if (cJSON_IsNumber(node)) {
		snprintf(text, bytes, "%.0f", node->valuedouble);
	}
}

static enum status read_origin(
	const char *run, struct calibrate_origin *origin, struct error *error)
{
	char path[PATH_BYTES + 32];
	struct json_document document = {.root = NULL};
	struct json_place root, config;

	snprintf(path, sizeof(path), "%s/%s", run, RESULT_PROVENANCE);
	enum status status = json_document_open(&document, path, error);
	if (status == STATUS_OK) {
		status = json_root(&root, &document, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	copy_text(origin->device, sizeof(origin->device), &root, "device");
	copy_text(origin->date, sizeof(origin->date), &root, "date");
	copy_text(origin->commit, sizeof(origin->commit), &root, "commit");
	copy_text(origin->command, sizeof(origin->command), &root, "command");
	json_document_close(&document);
	snprintf(path, sizeof(path), "%s/%s", run, RESULT_SUMMARY);
	status = json_document_open(&document, path, error);
	if (status == STATUS_OK) {
		status = json_root(&root, &document, error);
	}
	if (status == STATUS_OK) {
		status = json_object(&root, "config", &config, error);
	}
	if (status == STATUS_OK) {
		copy_text(origin->model, sizeof(origin->model), &config, "model");
		copy_text(origin->kv_blocks, sizeof(origin->kv_blocks), &config, "kv_blocks");
		if (origin->device[0] == '\0') {
			snprintf(origin->device, sizeof(origin->device), "runner ");
			copy_text(
				origin->device + 7, sizeof(origin->device) - 7, &config, "runner");
		}
	}
	json_document_close(&document);
	return status;
}

enum status calibrate_run(struct replay_order *order, const char *folder,
	const struct gpu_profile *gpu, uint64_t budget_s, struct calibrate_points *out,
	struct error *error)
{
	char plan[PATH_BYTES], run[PATH_BYTES], path[PATH_BYTES + 32];
	struct model_config model;

	snprintf(plan, sizeof(plan), "%s/plan.jsonl", folder);
	snprintf(run, sizeof(run), "%s/run", folder);
	enum status status = model_config_find(order->config.model, &model, error);
	if (status == STATUS_OK) {
		status = make_folder(folder, error);
	}
	if (status == STATUS_OK) {
		status = write_plan(&order->config, &model, gpu, budget_s, plan, error);
	}
	if (status == STATUS_OK) {
		order->trace_path = plan;
		order->out = run;
		order->wants_steps = true;
		order->is_quiet = true;
		status = replay_session_run(order, error);
	}
	if (status == STATUS_OK) {
		snprintf(path, sizeof(path), "%s/%s", run, RESULT_STEPS);
		status = calibrate_points_read(out, path, CALIBRATE_WARM_NS, error);
	}
	if (status == STATUS_OK) {
		status = read_origin(run, &out->origin, error);
	}
	if (status == STATUS_OK) {
		calibrate_points_join(out);
		snprintf(path, sizeof(path), "%s/points.tsv", folder);
		status = calibrate_points_write(out, path, error);
	}
	return status;
}
