#include "bench/calibrate/fit.h"
#include "bench/calibrate/profile.h"
#include "bench/calibrate/run.h"
#include "bench/commands/commands.h"
#include "bench/options/options.h"
#include "engine/base/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char summary[] =
	"Fits the cost model to a GPU: makes the engine compute planned steps (decode rows x\n"
	"context, prompts x prefix, both at once), holds a third of them out, fits curves to the\n"
	"rest and writes a profile with the errors on both sides. DIR gets NAME.json for\n"
	"`quire replay --runner sim --gpu DIR/NAME.json`, and points.tsv, from which the fit can "
	"be\n"
	"done again anywhere, without a GPU.\n";

static const char examples[] =
	"  quire calibrate --runner cuda --model qwen3-0.6b --weights dummy:0 --name mine --out "
	"DIR\n"
	"  quire calibrate --points DIR/points.tsv --name again --out DIR --plot fit.svg\n";

struct order {
	struct replay_order replay;
	const char *name, *out, *points, *plot;
	uint64_t budget_s;
	bool is_measured;
};

static void print_errors(const char *side, const struct calibrate_errors *errors)
{
	printf("  %-9s %6u steps: mean %.2f %%, p50 %.2f, p90 %.2f, p99 %.2f, max %.2f; bias "
	       "%+.2f\n",
		side, errors->points, errors->mean * 100, errors->p50 * 100, errors->p90 * 100,
		errors->p99 * 100, errors->max * 100, errors->bias * 100);
}

static enum status fit_and_write(const struct order *order, struct calibrate_points *points,
	const struct gpu_profile *gpu, struct error *error)
{
	struct calibrate_fit fit;
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s.json", order->out, order->name));
	enum status status = calibrate_fit(&fit, points, order->replay.config.seed, error);
	if (status == STATUS_OK) {
		status = calibrate_profile_write(path, &fit, points, gpu, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	printf("%s: %s on %s, absolute error of a step's predicted time\n", path,
		points->origin.model, points->origin.device);
	print_errors("fitted", &fit.fitted);
	print_errors("held out", &fit.held_out);
	return order->plot == NULL ? STATUS_OK
				   : calibrate_plot(&fit, points, order->name, order->plot, error);
}

/* The fit alone, of points that lie in a file. */
static enum status read_points(
	const char *path, struct calibrate_points *points, struct error *error)
{
	enum status status = calibrate_points_read(points, path, 0, error);

	if (status == STATUS_OK && points->origin.model[0] == '\0') {
		status = error_set(error, STATUS_INPUT,
			"%s: no line '# model NAME' in front: a profile is for one model", path);
	}
	if (status == STATUS_OK) {
		calibrate_points_join(points);
	}
	return status;
}

static enum status check_order(const struct order *order, struct error *error)
{
	if (order->out == NULL || order->name == NULL) {
		return error_set(error, STATUS_USAGE, "expected --%s",
			order->out == NULL ? "out DIR" : "name NAME");
	}
	if (strchr(order->name, '/') != NULL) {
		return error_set(error, STATUS_USAGE,
			"--name: found '%s', expected a name without '/'", order->name);
	}
	return STATUS_OK;
}

static enum status run(struct order *order, struct error *error)
{
	struct gpu_profile gpu;
	struct calibrate_points points = {0};

	enum status status = check_order(order, error);
	if (status == STATUS_OK) {
		status = gpu_profile_find(order->replay.config.gpu, &gpu, error);
	}
	if (status == STATUS_OK && gpu.is_calibrated) {
		status = error_set(error, STATUS_USAGE,
			"--gpu %s is a calibrated profile; memory and expected speed are taken "
			"from one of rates, as h200",
			gpu.name);
	}
	if (status == STATUS_OK && order->points != NULL) {
		status = read_points(order->points, &points, error);
		mkdir(order->out, 0777); /* writing tells if there is still none */
	} else if (status == STATUS_OK && order->is_measured) {
		status = calibrate_collect(order->out, &points, error);
	} else if (status == STATUS_OK) {
		status = calibrate_run(
			&order->replay, order->out, &gpu, order->budget_s, &points, error);
	}
	if (status == STATUS_OK) {
		status = fit_and_write(order, &points, &gpu, error);
	}
	calibrate_points_free(&points);
	return status;
}

static void set_defaults(struct replay_config *config)
{
	replay_config_default(config);
	config->runner = "cuda";
	config->weights = "dummy:0";
	config->max_model_len = 131072;
}

int command_calibrate(int argc, char **argv)
{
	struct order order = {.replay = {.argc = argc, .argv = argv}, .budget_s = 90};
	struct replay_config *c = &order.replay.config;
	struct replay_given *g = &order.replay.given;
	struct error error = {0};
	bool wants_help;
	uint32_t positional_count;
	const struct option options[] = {
		{"name", OPTION_TEXT, &order.name, "NAME", "of the profile", 0, 0, NULL, NULL},
		{"out", OPTION_TEXT, &order.out, "DIR", "folder to write", 0, 0, NULL, NULL},
		{"force", OPTION_FLAG, &order.replay.is_forced, NULL,
			"replace what is measured there", 0, 0, NULL, NULL},
		{"points", OPTION_TEXT, &order.points, "FILE.tsv",
			"measure nothing, fit to the points of an earlier calibration", 0, 0, NULL,
			NULL},
		{"measured", OPTION_FLAG, &order.is_measured, NULL,
			"measure nothing, take the steps that lie in DIR from before", 0, 0, NULL,
			NULL},
		{"plot", OPTION_TEXT, &order.plot, "FILE.svg",
			"predicted against measured, as a picture (needs gnuplot)", 0, 0, NULL,
			NULL},
		{.kind = OPTION_HEADING, .help = "what is measured"},
		{"model", OPTION_TEXT, &c->model, "NAME|DIR", "default qwen3-0.6b", 0, 0, NULL,
			&g->model},
		{"runner", OPTION_TEXT, &c->runner, "NAME",
			"cuda (default), or another to try the way", 0, 0, NULL, &g->runner},
		{"weights", OPTION_TEXT, &c->weights, "DIR|dummy:SEED",
			"default dummy:0: times do not depend on them", 0, 0, NULL, &g->weights},
		{"gpu", OPTION_TEXT, &c->gpu, "NAME|FILE.json",
			"profile that says what time the plan may take and what memory there is, "
			"default h200",
			0, 0, NULL, &g->gpu},
		{"budget", OPTION_COUNT, &order.budget_s, "SECONDS",
			"of GPU time, roughly; default 90", 1, 3600, NULL, NULL},
		{"seed", OPTION_COUNT, &c->seed, "N",
			"of the plan and of what is held out, default 0", 0, UINT64_C(1) << 53,
			NULL, &g->seed},
		{"kernels", OPTION_TEXT, &c->kernels, "auto|general", "as in quire replay", 0, 0,
			NULL, &g->kernels},
		{"kv-blocks", OPTION_COUNT, &c->kv_blocks, "N",
			"default: what the GPU's memory leaves", 1, 1 << 28, NULL, &g->kv_blocks},
		{"max-num-seqs", OPTION_COUNT, &c->max_num_seqs, "N", "default 512", 1, 65536, NULL,
			&g->max_num_seqs},
		{"max-num-batched-tokens", OPTION_COUNT, &c->max_num_batched_tokens, "N",
			"default 16384", 1, 1 << 28, NULL, &g->max_num_batched_tokens},
		{"max-model-len", OPTION_COUNT, &c->max_model_len, "N",
			"longest context that is measured, default 131072", 2048, 1 << 28, NULL,
			&g->max_model_len},
	};
	const struct command command = {
		.name = "calibrate",
		.arguments = "--name NAME --out DIR [options]",
		.summary = summary,
		.examples = examples,
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
	};

	set_defaults(c);
	enum status status =
		options_parse(&command, argc, argv, NULL, &positional_count, &wants_help, &error);
	if (wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		status = run(&order, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
