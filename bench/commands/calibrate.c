#include "bench/calibrate/fit.h"
#include "bench/calibrate/from_steps.h"
#include "bench/calibrate/pool.h"
#include "bench/calibrate/profile.h"
#include "bench/calibrate/run.h"
#include "bench/commands/commands.h"
#include "bench/record/owned_folder.h"
#include "bench/replay/runners.h"
#include "engine/base/number.h"
#include "engine/model/config_json.h"
#include "engine/ranks/launch.h"
#include "engine/base/path.h"
#include "reports/results/result_names.h"
#include "sim/profile_choice.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char summary[] =
	"Fits the cost model to a GPU: the engine computes planned steps (decode rows x\n"
	"context, prompts x prefix, both at once), prices of operations are fitted to two\n"
	"thirds and tried on the rest, then to all, and a profile with the errors of both is\n"
	"written. DIR gets NAME.json for `quire replay --runner sim --gpu DIR/NAME.json`, and\n"
	"points.tsv, from which the fit can be done again anywhere, without a GPU.\n"
	"\n"
	"It takes one to three minutes of an idle GPU, and says first how many scenes fit into\n"
	"--budget. A large model needs more than its default to be measured everywhere. --gpu\n"
	"names the GPU's data sheet, whose limits no price may beat: h200, h100, a100, b200,\n"
	"l40s, rtx4090, or a file of your own. Judge a profile by the errors of held-out steps,\n"
	"then by a real run beside the simulation of the same trace (`quire compare`).\n"
	"sim/profiles/README.md has these steps under \"A GPU of your own\".\n";

static const char examples[] =
	"  quire calibrate --runner cuda --model qwen3-0.6b --weights dummy:0 --name mine --out "
	"DIR\n"
	"  mpirun -n 2 quire calibrate --model qwen3-8b --name mine-x2 --out DIR\n"
	"  quire calibrate --points DIR/points.tsv --name again --out DIR --plot fit.svg\n"
	"  quire calibrate --points one/points.tsv,other/points.tsv --name both --out both\n"
	"  quire calibrate --from-steps steps.tsv.gz --model qwen3-8b --name mine-vllm --out DIR\n";

struct calibrate_request {
	struct replay_request replay;
	const char *name, *out, *points, *plot;
	struct from_steps_request steps;
	uint64_t budget_s;
	bool is_budget_given, is_measured, is_left_out_given, is_held_out_given;
};

static void print_errors(const char *side, const struct profile_errors *errors)
{
	printf("  %-9s %6u %s: mean %.2f %%, p50 %.2f, p90 %.2f, p99 %.2f, max %.2f; bias "
	       "%+.2f\n",
		side, errors->points, word_of_count(errors->points, "step", "steps"),
		errors->mean * 100, errors->p50 * 100, errors->p90 * 100, errors->p99 * 100,
		errors->max * 100, errors->bias * 100);
}

/* Steps that were measured before say which model they are of. One that is not built in is looked
   for where --model says (calibrate_setup_find()). */
static enum status check_model(const struct calibrate_request *request,
	const struct calibrate_points *points, struct error *error)
{
	const struct replay_config *config = &request->replay.run.config;
	struct model_config model;

	if (!config->given.model || (request->points == NULL && !request->is_measured) ||
		!model_config_builtin(points->origin.model, &model)) {
		return STATUS_OK;
	}
	TRY(model_config_find(config->model, &model, error));
	return strcmp(model.name, points->origin.model) == 0
		       ? STATUS_OK
		       : error_set(error, STATUS_USAGE,
				 "--model: found %s, expected %s as the steps' own", model.name,
				 points->origin.model);
}

static enum status fit_and_write(const struct calibrate_request *request,
	struct calibrate_points *points, struct gpu_profile *gpu, struct error *error)
{
	struct calibrate_fit fit;
	struct calibrate_setup setup;
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s.json", request->out, request->name));
	TRY(check_model(request, points, error));
	TRY(calibrate_setup_find(&setup, request->replay.run.config.model, points, gpu, error));
	TRY(from_steps_read_engine(&points->origin, gpu, error));
	TRY(calibrate_fit(&fit, points, &setup, request->replay.run.config.seed, error));
	TRY(calibrate_profile_write(path, &fit, points, gpu, error));
	printf("%s: %s on %s, absolute error of a step's predicted time\n", path,
		points->origin.model, points->origin.device);
	print_errors("fitted", &fit.fitted);
	print_errors("held out", &fit.held_out);
	if (setup.is_step_log && points->origin.engine_bytes[0] == '\0') {
		printf("  the points have no line '# engine_bytes': the profile says neither what "
		       "the engine holds of the memory nor what its process takes; quire calibrate "
		       "--from-steps writes them\n");
	}
	return request->plot == NULL
		       ? STATUS_OK
		       : calibrate_plot(&fit, points, request->name, request->plot, error);
}

/* ---- from a step log ---- */

static void print_phase(const char *name, const struct phase_errors *phase)
{
	if (phase->steps == 0) {
		printf("  no step of a phase %s: nothing but the steps above says how good the fit "
		       "is\n",
			name);
		return;
	}
	printf("  phase %s, %llu %s that nothing was fitted to: %.3f s measured, %.3f predicted "
	       "(%+.2f %%); median step %.3f ms, %.3f (%+.2f %%); mean error of a step %.2f %%\n",
		name, (unsigned long long)phase->steps,
		word_of_count(phase->steps, "step", "steps"), phase->measured_s, phase->predicted_s,
		100 * (phase->predicted_s / phase->measured_s - 1), phase->measured_median_ms,
		phase->predicted_median_ms,
		100 * (phase->predicted_median_ms / phase->measured_median_ms - 1),
		phase->each.mean * 100);
}

static enum status run_from_steps(
	struct calibrate_request *request, struct gpu_profile *gpu, struct error *error)
{
	struct from_steps_result result;
	char path[PATH_BYTES_MAX], points_path[PATH_BYTES_MAX];

	request->steps.config = &request->replay.run.config;
	TRY(path_format(path, error, "%s/%s.json", request->out, request->name));
	TRY(path_format(points_path, error, "%s/points.tsv", request->out));
	TRY(calibrate_refuse_old(points_path, request->replay.is_forced, error));
	enum status status = from_steps(&result, &request->steps, gpu, error);
	const struct calibrate_points *points = &result.log.fitted;
	if (status == STATUS_OK) {
		status = calibrate_points_write(points, points_path, error);
	}
	if (status == STATUS_OK) {
		status = calibrate_profile_write(path, &result.fit, points, gpu, error);
	}
	if (status == STATUS_OK) {
		printf("%s: %s on %s, absolute error of a step's predicted time\n", path,
			points->origin.model, points->origin.device);
		printf("  %zu %s of the log; %llu more of phase %s %s left out, and %llu noticed "
		       "late\n",
			result.step_count, word_of_count(result.step_count, "step", "steps"),
			(unsigned long long)result.log.left_out_count,
			request->steps.left_out_phase,
			word_of_count(result.log.left_out_count, "is", "are"),
			(unsigned long long)result.log.late_count);
		print_errors("fitted", &result.fit.fitted);
		print_errors("held out", &result.fit.held_out);
		print_phase(request->steps.held_out_phase, &result.phase);
	}
	if (status == STATUS_OK && request->plot != NULL) {
		status = calibrate_plot(&result.fit, points, request->name, request->plot, error);
	}
	step_log_free(&result.log);
	return status;
}

/* ---- from measured points ---- */

static void print_spread(const struct calibrate_pool *pool)
{
	printf("%llu calibrations", (unsigned long long)pool->calibrations);
	if (pool->calibrations > pool->count) {
		printf(" in %u files", pool->count);
	}
	printf(", %zu different %s\n", pool->points.count,
		word_of_count(pool->points.count, "step", "steps"));
	for (uint32_t i = 1; i < pool->count; i++) {
		const struct calibrate_spread *spread = &pool->spreads[i];
		if (spread->steps == 0) {
			printf("  %s has no step of %s\n", spread->path, pool->spreads[0].path);
			continue;
		}
		printf("  time of a step of %s over that of %s: %+.2f %% (median of the %zu %s "
		       "that "
		       "both have, nine of ten %+.2f to %+.2f)\n",
			spread->path, pool->spreads[0].path, 100 * (spread->median - 1),
			spread->steps, word_of_count(spread->steps, "step", "steps"),
			100 * (spread->low - 1), 100 * (spread->high - 1));
	}
}

static enum status check_pool(const struct calibrate_request *request,
	const struct calibrate_pool *pool, const struct gpu_profile *gpu, struct error *error)
{
	struct calibrate_setup setup;
	struct operation_floors floors;

	TRY(check_model(request, &pool->points, error));
	TRY(calibrate_setup_find(
		&setup, request->replay.run.config.model, &pool->points, gpu, error));
	operation_floors_of(&floors, &setup.limits, &setup.shape);
	return calibrate_pool_check(pool, &floors, gpu->name, error);
}

/* Points of an earlier calibration, or of several, whose means are written. */
static enum status read_points(const struct calibrate_request *request,
	const struct gpu_profile *gpu, struct calibrate_points *points, struct error *error)
{
	struct calibrate_pool pool;
	char path[PATH_BYTES_MAX];

	enum status status = calibrate_pool_read(&pool, request->points, error);
	status = status == STATUS_OK ? check_pool(request, &pool, gpu, error) : status;
	if (status == STATUS_OK && pool.count > 1) {
		print_spread(&pool);
		status = path_format(path, error, "%s/points.tsv", request->out);
		status = status == STATUS_OK
				 ? calibrate_refuse_old(path, request->replay.is_forced, error)
				 : status;
		status = status == STATUS_OK ? calibrate_points_write(&pool.points, path, error)
					     : status;
	}
	if (status == STATUS_OK) {
		*points = pool.points;
		pool.points = (struct calibrate_points){0};
	}
	calibrate_pool_free(&pool);
	return status;
}

/* The option that names steps measured before; NULL: they are to be measured. */
static const char *source_of(const struct calibrate_request *request)
{
	return request->steps.path != NULL ? "--from-steps"
	       : request->points != NULL   ? "--points"
	       : request->is_measured	   ? "--measured"
					   : NULL;
}

/* Options of a measurement, which decide nothing where none is made. A step log needs the limits of
   its engine, which find the memory beside the KV blocks. */
static enum status check_measurement(const struct calibrate_request *request, struct error *error)
{
	const struct replay_given *given = &request->replay.run.config.given;
	const char *source = source_of(request);
	bool is_log = request->steps.path != NULL;
	const struct {
		const char *name;
		bool is_given;
	} options[] = {
		{"runner", given->runner},
		{"weights", given->weights},
		{"budget", request->is_budget_given},
		{"kernels", given->kernels},
		{"tp-transport", given->tp_transport},
		{"tensor-parallel-size", given->tensor_parallel_size && !is_log},
		{"kv-blocks", given->kv_blocks && !is_log},
		{"block-size", given->block_size && !is_log},
		{"gpu-memory-utilization", given->gpu_memory_utilization && !is_log},
		{"max-num-seqs", given->max_num_seqs && !is_log},
		{"max-num-batched-tokens", given->max_num_batched_tokens && !is_log},
		{"max-model-len", given->max_model_len && !is_log},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && source != NULL; i++) {
		if (options[i].is_given) {
			return error_set(error, STATUS_USAGE,
				"%s measures nothing: --%s has no effect there", source,
				options[i].name);
		}
	}
	return STATUS_OK;
}

/* An older profile of that name is the one that this makes anew; another file is not. */
static enum status refuse_foreign(const char *profile, bool is_forced, struct error *error)
{
	bool is_there = false;

	TRY(path_is_there(profile, &is_there, error));
	return !is_there || is_forced ||
			       owned_folder_is_of_quire(profile, GPU_PROFILE_CALIBRATED_FORM)
		       ? STATUS_OK
		       : error_set(error, STATUS_FILE,
				 "%.200s is there and no profile of quire calibrate; --force "
				 "replaces it",
				 profile);
}

static enum status check_request(const struct calibrate_request *request, struct error *error)
{
	if (request->out == NULL || request->name == NULL) {
		return error_set(error, STATUS_USAGE, "expected --%s",
			request->out == NULL ? "out DIR" : "name NAME");
	}
	if (strchr(request->name, '/') != NULL) {
		return error_set(error, STATUS_USAGE,
			"--name: found '%s', expected a name without '/'", request->name);
	}
	if (request->steps.path != NULL && (request->points != NULL || request->is_measured)) {
		return error_set(error, STATUS_USAGE,
			"--from-steps has steps of its own: --points and --measured name others");
	}
	if (request->points != NULL && request->is_measured) {
		return error_set(error, STATUS_USAGE,
			"--points and --measured both name steps: expected one of them");
	}
	if (request->steps.path == NULL &&
		(request->is_left_out_given || request->is_held_out_given ||
			request->steps.source != NULL || request->steps.host_step_us > 0 ||
			request->steps.host_row_us > 0)) {
		return error_set(error, STATUS_USAGE,
			"--left-out-phase, --held-out-phase, --source, --host-step-us and "
			"--host-row-us belong to --from-steps");
	}
	const struct replay_config *config = &request->replay.run.config;
	char profile[PATH_BYTES_MAX];

	TRY(path_format(profile, error, "%s/%s.json", request->out, request->name));
	TRY(result_names_refuse("--name", profile, "mine.json", error));
	TRY(result_names_refuse("--plot", request->plot, "fit.svg", error));
	TRY(check_measurement(request, error));
	TRY(refuse_foreign(profile, request->replay.is_forced, error));
	return replay_config_transport_check(config, config->runner, error);
}

static enum status get_points(struct calibrate_request *request, const struct gpu_profile *gpu,
	struct calibrate_points *points, struct error *error)
{
	if (request->points != NULL) {
		return read_points(request, gpu, points, error);
	}
	if (request->is_measured) {
		return calibrate_collect(&request->replay, request->out, gpu, points, error);
	}
	return calibrate_run(&request->replay, request->out, gpu, request->budget_s, points, error);
}

/* Processes of mpirun are ranks of the runner that is measured. */
static enum status take_launch(struct calibrate_request *request, struct error *error)
{
	const struct runner_entry *entry;

	if (rank_launch_find().count <= 1) {
		return STATUS_OK;
	}
	if (source_of(request) != NULL) {
		return error_set(error, STATUS_USAGE, "%s measures nothing, expected no mpirun",
			source_of(request));
	}
	TRY(runner_find(request->replay.run.config.runner, &entry, error));
	return runner_take_launch(entry, &request->replay.run.config, error);
}

/* Before anything is opened. */
static enum status prepare(
	struct calibrate_request *request, struct gpu_profile_choice *choice, struct error *error)
{
	struct replay_config *config = &request->replay.run.config;

	TRY(take_launch(request, error));
	TRY(check_request(request, error));
	TRY(gpu_profile_choose(config->gpu, "", NULL, 1, choice, error));
	if (choice->profile.is_calibrated) {
		return error_set(error, STATUS_USAGE,
			"--gpu %s is a calibrated profile; memory and expected speed are taken "
			"from one of rates, as h200-datasheet",
			choice->profile.name);
	}
	if (strstr(config->gpu, ".json") == NULL) {
		config->gpu = choice->profile.name; /* for --runner sim: never a calibrated one */
	}
	return STATUS_OK;
}

/* The figure is drawn last; its folder may be DIR, which is there by now. */
static enum status check_plot(const char *plot, struct error *error)
{
	const char *slash = plot == NULL ? NULL : strrchr(plot, '/');
	char folder[PATH_BYTES_MAX];
	bool is_there = true;

	if (slash != NULL && slash > plot) {
		TRY(path_format(folder, error, "%.*s", (int)(slash - plot), plot));
		TRY(path_is_there(folder, &is_there, error));
	}
	return is_there ? STATUS_OK
			: error_set(error, STATUS_FILE,
				  "--plot %.200s: found no folder %.200s, expected one that is "
				  "there",
				  plot, folder);
}

static enum status run(struct command_line *line, struct error *error)
{
	struct calibrate_request *request = line->values;
	struct gpu_profile_choice choice;
	struct calibrate_points points = {0};
	struct owned_folder owned;
	bool is_first = rank_launch_find().rank == 0;

	request->replay.argc = line->argc;
	request->replay.argv = line->argv;
	request->replay.run.progress = progress_mode_of_stderr();
	if (prepare(request, &choice, error) != STATUS_OK ||
		(is_first && owned_folder_open(&owned, request->out, error) != STATUS_OK)) {
		return rank_launch_join(0, error); /* which carries the error */
	}
	enum status status = is_first ? check_plot(request->plot, error) : STATUS_OK;
	if (status != STATUS_OK) {
		status = rank_launch_join(0, error);
	} else if (request->steps.path != NULL) {
		status = run_from_steps(request, &choice.profile, error);
	} else {
		/* from which only rank 0 returns */
		status = get_points(request, &choice.profile, &points, error);
		if (status == STATUS_OK) {
			status = fit_and_write(request, &points, &choice.profile, error);
		}
	}
	calibrate_points_free(&points);
	owned_folder_close(&owned);
	return status;
}

#define REQUEST(field) offsetof(struct calibrate_request, field)

static const struct option options[] = {
	{"name", OPTION_TEXT, REQUEST(name), .argument = "NAME", .help = "of the profile"},
	{"out", OPTION_TEXT, REQUEST(out), .argument = "DIR", .help = "folder to write"},
	{"force", OPTION_FLAG, REQUEST(replay.is_forced), .help = "replace measurements in DIR"},
	{"points", OPTION_TEXT, REQUEST(points), .argument = "FILES",
		.help = "measure nothing, fit the points of an earlier calibration; of several, "
			"with commas between the files, the means of all calibrations in them"},
	{"measured", OPTION_FLAG, REQUEST(is_measured),
		.help = "measure nothing, use the steps measured earlier in DIR"},
	{"plot", OPTION_TEXT, REQUEST(plot), .argument = "FILE.svg",
		.help = "predicted and measured times, as a picture (needs gnuplot)"},

	{.kind = OPTION_HEADING, .help = "from the step log of another engine"},
	{"from-steps", OPTION_TEXT, REQUEST(steps.path), .argument = "FILE.tsv",
		.help = "measure nothing, fit the steps of a log (gzip and zstd too); "
			"bench/vllm/README.md has its columns"},
	{"left-out-phase", OPTION_TEXT, REQUEST(steps.left_out_phase), .argument = "PHASE",
		.given_offset = REQUEST(is_left_out_given), .initial = "warmup",
		.help = "phase of the log that is not read"},
	{"held-out-phase", OPTION_TEXT, REQUEST(steps.held_out_phase), .argument = "PHASE",
		.given_offset = REQUEST(is_held_out_given), .initial = "nano",
		.help = "phase that nothing is fitted to, to judge the fit by"},
	{"source", OPTION_TEXT, REQUEST(steps.source), .argument = "TEXT",
		.help = "what was recorded, for the profile's description"},
	{"host-step-us", OPTION_MILLIONTHS, REQUEST(steps.host_step_us), .argument = "US",
		.maximum = UINT64_C(1000000) * 1000000,
		.help = "what a step takes at least on the host of an engine in a process of its "
			"own, where the log's had none"},
	{"host-row-us", OPTION_MILLIONTHS, REQUEST(steps.host_row_us), .argument = "US",
		.maximum = UINT64_C(1000000) * 1000000, .help = "and each of its rows"},
	{FROM_TABLE("block-size"),
		.help = "of a KV block; with --from-steps of the log's engine, 16 unless given"},
	{FROM_TABLE("gpu-memory-utilization"),
		.help = "of the GPU's memory; with --from-steps of the log's engine, 0.92 unless "
			"given"},

	{.kind = OPTION_HEADING, .help = "measurement"},
	{FROM_TABLE("model")},
	{FROM_TABLE("runner"), .initial = "cuda", .help = "cuda; others only to try the command"},
	{FROM_TABLE("weights"), .initial = "dummy:0", .help = "times do not depend on them"},
	{FROM_TABLE("gpu"), .help = "profile for the plan's estimated time and the GPU's memory"},
	{"budget", OPTION_COUNT, REQUEST(budget_s), .given_offset = REQUEST(is_budget_given),
		.argument = "SECONDS", .initial = "160", .minimum = 1, .maximum = 3600,
		.help = "GPU time, approximately"},
	{FROM_TABLE("seed"), .help = "seed of the plan and of the choice of held-out steps"},
	{FROM_TABLE("tensor-parallel-size")},
	{FROM_TABLE("tp-transport")},
	{FROM_TABLE("kernels")},
	{FROM_TABLE("kv-blocks"), .help = "default: what fits into the GPU's memory; with "
					  "--from-steps: what the log's engine found"},
	{FROM_TABLE("max-num-seqs")},
	{FROM_TABLE("max-num-batched-tokens")},
	{FROM_TABLE("max-model-len"), .initial = "131072", .minimum = 2048,
		.help = "longest context that is measured"},
};

const struct command command_calibrate = {
	.name = "calibrate",
	.title = "fit the cost model to a GPU and report the errors",
	.arguments = "--name NAME --out DIR [options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(replay.run.config),
	.value_bytes = sizeof(struct calibrate_request),
	.takes_processes = true,
	.run = run,
};
