#include "tests/fuzz/targets.h"

#include <stdio.h>
#include <unistd.h>

#include "bench/calibrate/fit.h"
#include "bench/calibrate/points.h"
#include "bench/calibrate/profile.h"
#include "bench/calibrate/run.h"
#include "bench/calibrate/step_log.h"
#include "engine/shape/graph_bucket.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/require.h"

static const char *const names[] = {"log.tsv", "points.tsv", "run/steps.tsv", "run/summary.json",
	"run/provenance.json", "run_ahead/steps.tsv", "run_ahead/summary.json",
	"run_ahead/provenance.json", NULL};

/* A profile that was written from any points can be read. */
static bool fit(const char *folder, struct calibrate_points *points)
{
	char path[SECTIONS_PATH_BYTES];
	struct calibrate_fit fit;
	struct gpu_profile gpu, read;
	struct error error = {0};
	struct calibrate_setup setup = {.is_step_log = points->origin.source[0] != '\0'};

	require(gpu_profile_find("h200-datasheet", &gpu, &error) == STATUS_OK, "%s", error.text);
	setup.limits = gpu.prices.limits;
	require(model_config_builtin("qwen3-0.6b", &setup.shape), "no such model");
	setup.graph_tokens = points->count % 2 == 0 ? 0 : GRAPH_PROMPT_TOKENS;
	enum status status = calibrate_fit(&fit, points, &setup, 1, &error);
	require_refused_in_one_line(status, &error);
	if (status != STATUS_OK) {
		return false;
	}
	sections_path(path, folder, "profile.json");
	status = calibrate_profile_write(path, &fit, points, &gpu, &error);
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		status = gpu_profile_find(path, &read, &error);
		require(status == STATUS_OK, "%s", error.text);
	}
	return status == STATUS_OK;
}

/* A step log is fitted as the points that it becomes, without the late ones. */
static enum status read_log(const char *path, struct calibrate_points *points, struct error *error)
{
	static const struct step_log_options options = {.left_out = "warmup", .held_out = "nano"};
	const struct operation_floors floors = {.products = 1e5, .product_token = 10};
	struct step_log log;
	enum status status = step_log_read(&log, path, &options, error);

	if (status == STATUS_OK) {
		size_t all = log.fitted.count;
		step_log_drop_late(&log, &floors);
		require_equal(log.fitted.count + log.late_count, all);
		calibrate_points_append(points, &log.fitted);
		snprintf(points->origin.model, sizeof(points->origin.model), "qwen3-0.6b");
		snprintf(points->origin.source, sizeof(points->origin.source), "a log");
	}
	step_log_free(&log);
	return status;
}

bool fuzz_points(const uint8_t *bytes, size_t byte_count)
{
	char folder[TEMPORARY_PATH_BYTES], path[SECTIONS_PATH_BYTES];
	struct calibrate_points points = {0};
	struct error error = {0};
	bool is_fitted = false;

	sections_unpack(bytes, byte_count, names, folder);
	sections_path(path, folder, "log.tsv");
	enum status status;
	if (access(path, F_OK) == 0) {
		status = read_log(path, &points, &error);
	} else if (sections_path(path, folder, "points.tsv"), access(path, F_OK) == 0) {
		status = calibrate_points_read(&points, path, 0, &error);
	} else {
		static struct gpu_profile gpu;
		const struct replay_request request = {.run.config.model = "qwen3-0.6b"};
		require(gpu_profile_find("h200-datasheet", &gpu, &error) == STATUS_OK, "%s",
			error.text);
		status = calibrate_collect(&request, folder, &gpu, &points, &error);
	}
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		calibrate_points_join(&points);
		is_fitted = fit(folder, &points);
	}
	calibrate_points_free(&points);
	sections_remove(folder);
	return is_fitted;
}
