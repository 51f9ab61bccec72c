#include "bench/commands/commands.h"
#include "bench/options/options.h"
#include "reports/figures/plot.h"
#include "engine/base/output_file.h"

#ifdef QUIRE_HAS_CUDA
#include "bench/kernels/cuda_kernel_bench.h"
#endif

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
	"Times every GPU operation over the sizes of models that it meets, on the first GPU of\n"
	"this machine, and holds each against what was measured of the GPU in the same run: how\n"
	"fast it reads, how fast it multiplies matrices, and what an empty launch costs. NAME\n"
	"picks operations by a part of their names.\n\n"
	"The table has one row a case, times in microseconds: kernel, case, rows, bytes, flops,\n"
	"launches, us, us_min, us_max, gb_per_s, tflop_per_s, floor_us, bound, share. floor_us "
	"is\n"
	"the longest of the three limits for the case, bound says which, share is floor_us / us\n"
	"in percent. Rows limit_* are the limits themselves.";

static const char examples[] = "  quire kernels --out kernels.tsv\n"
			       "  quire kernels decode_attention sampler\n"
			       "  quire kernels --from kernels.tsv --plot kernels.svg\n";

enum { NAMES_MAX = 16 };

/* What the command line asks for. */
struct order {
	const char *names[NAMES_MAX];
	uint32_t name_count;
	uint32_t kernels; /* 0: auto, 1: general */
	uint64_t repeats;
	const char *out, *from, *plot;
	bool is_warm;
};

#ifdef QUIRE_HAS_CUDA

static enum status measure(const struct order *order, struct error *error)
{
	struct kernel_bench_options options = {
		.path = order->kernels == 0 ? kernel_path_of_device() : KERNEL_PATH_GENERAL,
		.name_count = order->name_count,
		.repeats = (uint32_t)order->repeats,
		.is_warm = order->is_warm,
	};
	struct output_file output = {0};

	memcpy(options.names, order->names, sizeof(options.names));
	enum status status = output_file_open(&output, order->out, error);
	if (status == STATUS_OK) {
		bool shows_progress = isatty(STDERR_FILENO) && strcmp(order->out, "-") != 0;
		status = kernel_bench(&options, shows_progress, output.file, error);
	}
	if (status == STATUS_OK) {
		status = output_file_commit(&output, error);
	}
	output_file_abandon(&output);
	return status;
}

#else

static enum status measure(const struct order *order, struct error *error)
{
	(void)order;
	return error_set(error, STATUS_USAGE,
		"this quire was built without CUDA and cannot measure; --from TABLE --plot FILE "
		"draws what was measured elsewhere");
}

#endif

static enum status draw(const char *from, const char *to, struct error *error)
{
	static const char columns[] = "kernel\tcase\trows\tbytes\tflops\tlaunches\tus\t";
	struct plot plot;
	char buffer[4096] = "";
	size_t bytes;
	FILE *file = fopen(from, "r");

	if (file == NULL) {
		return error_set(error, STATUS_FILE, "%.200s: %s", from, strerror(errno));
	}
	if (fgets(buffer, sizeof(buffer), file) == NULL ||
		strncmp(buffer, columns, strlen(columns)) != 0) {
		fclose(file);
		return error_set(error, STATUS_INPUT,
			"%.200s:1: found other columns than kernel, case, rows, bytes, ..., "
			"expected a table of quire kernels",
			from);
	}
	rewind(file);
	enum status status = plot_begin(&plot, error);
	if (status == STATUS_OK) {
		while ((bytes = fread(buffer, 1, sizeof(buffer), file)) > 0) {
			fwrite(buffer, 1, bytes, plot.table);
		}
		status = plot_draw(&plot, "kernels.gp", NULL, to, error);
	}
	fclose(file);
	return status;
}

static enum status run(struct order *order, struct error *error)
{
	bool is_stored = strcmp(order->out, "-") != 0;
	enum status status = STATUS_OK;

	if (order->from == NULL) {
		if (order->plot != NULL && !is_stored) {
			return error_set(error, STATUS_USAGE,
				"--plot FILE needs a table: --out TABLE to measure one, or --from "
				"TABLE");
		}
		status = measure(order, error);
		order->from = order->out;
	} else if (order->plot == NULL) {
		return error_set(error, STATUS_USAGE, "--from TABLE needs --plot FILE");
	}
	return status == STATUS_OK && order->plot != NULL ? draw(order->from, order->plot, error)
							  : status;
}

int command_kernels(int argc, char **argv)
{
	static const char *const paths[] = {"auto", "general", NULL};
	struct order order = {.out = "-", .repeats = 5};
	bool wants_help = false;
	const struct option options[] = {
		{"out", OPTION_TEXT, &order.out, "FILE", "where the table goes; - is the terminal",
			0, 0, NULL, NULL},
		{"kernels", OPTION_CHOICE, &order.kernels, "SET",
			"auto takes the GPU's own kernels where there are any", 0, 0, paths, NULL},
		{"repeats", OPTION_COUNT, &order.repeats, "N", "graphs to take the median of", 1,
			101, NULL, NULL},
		{"warm", OPTION_FLAG, &order.is_warm, NULL,
			"leave tensors in the cache where they fit, as a step leaves small ones", 0,
			0, NULL, NULL},
		{"from", OPTION_TEXT, &order.from, "TABLE", "a table measured before", 0, 0, NULL,
			NULL},
		{"plot", OPTION_TEXT, &order.plot, "FILE", "draw the table as an SVG", 0, 0, NULL,
			NULL},
	};
	const struct command command = {
		.name = "kernels",
		.arguments = "[NAME...] [options]",
		.summary = summary,
		.examples = examples,
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
		.positional_minimum = 0,
		.positional_maximum = NAMES_MAX,
	};
	struct error error = {0};

	enum status status = options_parse(
		&command, argc, argv, order.names, &order.name_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		status = run(&order, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
