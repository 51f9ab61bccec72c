#include "bench/sweep/sweep_internal.h"

#include "bench/replay/trace_reading.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/model/config_json.h"
#include "workloads/study/cache_curve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Options that change how many tokens the KV pool holds. */
static const char *const sizes[] = {
	"kv-blocks", "gpu-memory-utilization", "gpu", "block-size", "replicas"};

static bool has_sizes(const struct sweep *sweep)
{
	for (uint32_t i = 0; i < sweep->grid.parameter_count; i++) {
		const struct grid_parameter *parameter = &sweep->grid.parameters[i];
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			if (parameter->value_count > 1 &&
				strcmp(parameter->option->name, sizes[k]) == 0) {
				return true;
			}
		}
	}
	return false;
}

static enum status read_trace(const struct sweep *sweep, struct references *references,
	bool *has_ids, struct error *error)
{
	const struct run_request *run = &sweep->request->run;
	struct trace *trace = NULL;

	TRY(trace_reading_open(&trace, run->trace_path, &run->config, error));
	references_init(references, trace_reading_block_size(trace));
	enum status status = references_read(references, trace, has_ids, error);
	trace_close(trace);
	return status;
}

/* K and V of a token of the model that all configurations have; 0 where they differ in it. */
static enum status kv_bytes_per_token(
	const struct sweep *sweep, uint64_t *bytes, struct error *error)
{
	const char *common = NULL;
	struct model_config model;

	*bytes = 0;
	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		struct replay_config config = sweep->request->run.config;
		configuration_apply(&sweep->grid.list[i], &config);
		if (common != NULL && strcmp(common, config.model) != 0) {
			return STATUS_OK;
		}
		common = config.model;
	}
	TRY(model_config_find(common, &model, error));
	*bytes = model_config_kv_bytes_per_token(&model);
	return STATUS_OK;
}

static enum status write_curve(
	const struct sweep *sweep, const struct references *references, struct error *error)
{
	struct cache_curve *curve = memory_take(1, sizeof(*curve));
	struct output_file output;
	uint64_t bytes;
	char path[PATH_BYTES_MAX];

	cache_curve_make(curve, references, NULL, 0);
	enum status status = path_format(path, error, "%s/" SWEEP_CACHE, sweep->request->out);
	if (status == STATUS_OK) {
		status = kv_bytes_per_token(sweep, &bytes, error);
	}
	if (status == STATUS_OK) {
		status = output_file_open(&output, path, error);
	}
	if (status == STATUS_OK) {
		cache_curve_write(curve, references, bytes, output.file);
		status = output_file_commit(&output, error);
	}
	free(curve);
	return status;
}

static enum status remove_curve(const struct sweep *sweep, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/" SWEEP_CACHE, sweep->request->out));
	return unlink(path) == 0 || errno == ENOENT
		       ? STATUS_OK
		       : error_set(error, STATUS_FILE, "%s: cannot be removed: %s", path,
				 strerror(errno));
}

enum status sweep_write_cache(const struct sweep *sweep, struct error *error)
{
	struct references references = {0};
	bool has_ids = false;
	enum status status = STATUS_OK;

	if (has_sizes(sweep)) {
		status = read_trace(sweep, &references, &has_ids, error);
	}
	if (status == STATUS_OK) {
		status = has_ids ? write_curve(sweep, &references, error)
				 : remove_curve(sweep, error);
	}
	references_deinit(&references);
	return status;
}
