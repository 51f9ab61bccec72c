#include "bench/commands/commands.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/runners.h"
#include "reports/figures/plot.h"
#include "engine/base/input_file.h"
#include "engine/base/output_file.h"
#include "engine/ranks/launch.h"
#include "kernels/op/launch.h"

#ifdef QUIRE_HAS_CUDA
#include "bench/kernels/cuda_exchange_bench.h"
#include "bench/kernels/cuda_kernel_bench.h"
#include "bench/kernels/cuda_nccl_bench.h"
#include "bench/replay/cuda_open.h"
#endif

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
	"Times every GPU operation over the sizes of models that it meets, on the first GPU of\n"
	"this machine, and compares each with what was measured of the GPU in the same run: how\n"
	"fast it reads, how fast it multiplies matrices, and what an empty launch costs. NAME\n"
	"picks operations by a part of their names. With --tensor-parallel-size N the exchange\n"
	"between the first N GPUs is timed instead, in each of its ways, or the one by NCCL: with\n"
	"--tp-transport nccl, and between processes of mpirun.\n\n"
	"The table names the GPU and the date in its first line, which begins with #. Then it\n"
	"has one row a case, times in microseconds: kernel, case, rows, bytes, flops,\n"
	"launches, us, us_min, us_max, gb_per_s, tflop_per_s, floor_us, bound, share. floor_us "
	"is\n"
	"the longest of the three limits for the case, bound says which, share is floor_us / us\n"
	"in percent. Rows limit_* are the limits themselves.";

static const char examples[] = "  quire kernels --out kernels.tsv\n"
			       "  quire kernels decode_attention sampler\n"
			       "  quire kernels --from kernels.tsv --plot kernels.svg\n"
			       "  mpirun -n 2 quire kernels --out exchange.tsv\n";

struct kernels_request {
	const char *const *names; /* (name_count) */
	uint32_t name_count;
	struct replay_config config; /* which kernels */
	uint64_t repeats;
	const char *out, *from, *plot;
	bool is_warm;
};

#ifdef QUIRE_HAS_CUDA

/* By NCCL: ranks are processes. They are started before anything of CUDA is called and before there
   is an output, for only rank 0 comes back. It carries what is wrong to the others. */
static enum status measure_nccl(const struct kernels_request *request, struct error *error)
{
	const uint32_t count = (uint32_t)request->config.tensor_parallel_size;
	uint32_t repeats = (uint32_t)request->repeats;
	struct output_file output = {0};
	struct ranks *ranks = NULL;

	TRY(nccl_bench_start(&ranks, count, &repeats, error));
	/* Processes of mpirun may be on other hosts. */
	if (cuda_check_device(rank_launch_find().count > 1 ? 1 : count, error) == STATUS_OK) {
		(void)output_file_open(&output, request->out, error);
	}
	if (nccl_bench(ranks, repeats, output.file, error) == STATUS_OK) {
		(void)output_file_commit(&output, error);
	}
	output_file_abandon(&output);
	return error->status;
}

static enum status measure(const struct kernels_request *request, struct error *error)
{
	struct kernel_bench_options options = {
		.path = request->config.kernels == KERNELS_GENERAL ? KERNEL_PATH_GENERAL
								   : kernel_path_of_device(),
		.name_count = request->name_count,
		.repeats = (uint32_t)request->repeats,
		.is_warm = request->is_warm,
	};
	const uint32_t ranks = (uint32_t)request->config.tensor_parallel_size;
	struct output_file output = {0};

	static_assert(
		(int)POSITIONALS_MAX <= (int)KERNEL_BENCH_NAMES_MAX, "a name is a positional");
	TRY(cuda_check_device(ranks, error));
	memcpy(options.names, request->names, request->name_count * sizeof(*request->names));
	enum status status = output_file_open(&output, request->out, error);
	if (status == STATUS_OK) {
		bool shows_progress = isatty(STDERR_FILENO) && strcmp(request->out, "-") != 0;
		status = ranks > 1 ? exchange_bench(ranks, options.repeats, output.file, error)
				   : kernel_bench(&options, shows_progress, output.file, error);
	}
	if (status == STATUS_OK) {
		status = output_file_commit(&output, error);
	}
	output_file_abandon(&output);
	return status;
}

#else

static enum status measure(const struct kernels_request *request, struct error *error)
{
	(void)request;
	return error_set(error, STATUS_USAGE,
		"this quire was built without CUDA and cannot measure; --from TABLE --plot FILE "
		"draws what was measured elsewhere");
}

static enum status measure_nccl(const struct kernels_request *request, struct error *error)
{
	(void)measure(request, error);
	return rank_launch_fail(error);
}

#endif

static enum status draw(const char *from, const char *to, struct error *error)
{
	static const char columns[] = "kernel\tcase\trows\tbytes\tflops\tlaunches\tus\t";
	struct plot plot;
	char buffer[4096] = "", subject[256] = "";
	size_t bytes;
	FILE *file;

	TRY(input_file_open(&file, from, INPUT_FILE, error));
	bool has_line = fgets(buffer, sizeof(buffer), file) != NULL;
	bool has_subject = has_line && strncmp(buffer, "# ", 2) == 0;
	if (has_subject) {
		snprintf(subject, sizeof(subject), "%.*s", (int)strcspn(buffer + 2, "\r\n"),
			buffer + 2);
		has_line = fgets(buffer, sizeof(buffer), file) != NULL;
	}
	if (!has_line || strncmp(buffer, columns, strlen(columns)) != 0) {
		fclose(file);
		return error_set(error, STATUS_INPUT,
			"%.200s:%d: found other columns than kernel, case, rows, bytes, ..., "
			"expected a table of quire kernels",
			from, has_subject ? 2 : 1);
	}
	enum status status = plot_begin(&plot, error);
	if (status == STATUS_OK) {
		fputs(buffer, plot.table);
		plot_set_text(
			&plot, "subject", has_subject ? subject : "GPU and date are not known");
		while ((bytes = fread(buffer, 1, sizeof(buffer), file)) > 0) {
			fwrite(buffer, 1, bytes, plot.table);
		}
		status = ferror(file)
				 ? error_set(error, STATUS_FILE, "%.200s: cannot be read", from)
				 : plot_draw(&plot, "kernels.gp", to, error);
	}
	fclose(file);
	return status;
}

/* Refuses options that contradict each other. */
static enum status check_request(const struct kernels_request *request, struct error *error)
{
	const struct replay_config *config = &request->config;

	TRY(replay_config_transport_check(config, "cuda", error));
	TRY(replay_config_rank_count_check(config->tensor_parallel_size, error));
	if (config->tensor_parallel_size > 1 && request->plot != NULL) {
		return error_set(error, STATUS_USAGE,
			"--plot draws shares of the limits of one GPU, expected no "
			"--tensor-parallel-size above 1");
	}
	if (config->tensor_parallel_size > 1 && request->name_count > 0) {
		return error_set(error, STATUS_USAGE,
			"%.60s: --tensor-parallel-size %u times the exchange between GPUs, "
			"expected no name of an operation",
			request->names[0], (uint32_t)config->tensor_parallel_size);
	}
	return STATUS_OK;
}

/* Processes of mpirun are ranks, which may be on other hosts, so NCCL moves the bytes. */
static enum status take_launch(struct kernels_request *request, struct error *error)
{
	struct replay_config *config = &request->config;

	(void)launched_take_ranks(config, error);
	if (error->status == STATUS_OK && request->from != NULL) {
		(void)error_set(
			error, STATUS_USAGE, "--from TABLE measures nothing, expected no mpirun");
	}
	if (error->status == STATUS_OK && config->tp_transport == TP_TRANSPORT_PEER) {
		(void)error_set(error, STATUS_USAGE,
			"--tp-transport peer: a rank of mpirun cannot map another's memory");
	}
	if (error->status == STATUS_OK) {
		(void)check_request(request, error);
	}
	config->tp_transport = TP_TRANSPORT_NCCL;
	return launched_join(config, error); /* which carries the error */
}

static enum status run(struct command_line *line, struct error *error)
{
	struct kernels_request *request = line->values;
	bool is_stored = strcmp(request->out, "-") != 0;

	request->names = line->positionals;
	request->name_count = line->positional_count;
	TRY(rank_launch_find().count > 1 ? take_launch(request, error)
					 : check_request(request, error));
	if (request->from == NULL) {
		if (request->plot != NULL && !is_stored) {
			return error_set(error, STATUS_USAGE,
				"--plot FILE needs a table: --out TABLE to measure one, or --from "
				"TABLE");
		}
		TRY(request->config.tp_transport == TP_TRANSPORT_NCCL ? measure_nccl(request, error)
								      : measure(request, error));
		request->from = request->out;
	} else if (request->plot == NULL) {
		return error_set(error, STATUS_USAGE, "--from TABLE needs --plot FILE");
	}
	return request->plot == NULL ? STATUS_OK : draw(request->from, request->plot, error);
}

#define REQUEST(field) offsetof(struct kernels_request, field)

static const struct option options[] = {
	{"out", OPTION_TEXT, REQUEST(out), .argument = "FILE", .initial = "-",
		.help = "file of the table; - is the standard output"},
	{FROM_TABLE("tensor-parallel-size")},
	{FROM_TABLE("tp-transport"), .help = "how ranks exchange; auto: peer, under mpirun nccl"},
	{FROM_TABLE("kernels"),
		.help = "auto uses the kernels written for the GPU, where they exist"},
	{"repeats", OPTION_COUNT, REQUEST(repeats), .argument = "N", .initial = "5", .minimum = 1,
		.maximum = 101, .help = "number of graphs whose median is reported"},
	{"warm", OPTION_FLAG, REQUEST(is_warm),
		.help = "keep tensors in the L2 cache where they fit, as small ones are within a "
			"step"},
	{"from", OPTION_TEXT, REQUEST(from), .argument = "TABLE",
		.help = "a table measured before"},
	{"plot", OPTION_TEXT, REQUEST(plot), .argument = "FILE",
		.help = "draw the table as an SVG"},
};

const struct command command_kernels = {
	.name = "kernels",
	.title = "time the operations of the GPU engine",
	.arguments = "[NAME...] [options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(config),
	.value_bytes = sizeof(struct kernels_request),
	.positional_minimum = 0,
	.positional_maximum = POSITIONALS_MAX,
	.takes_processes = true,
	.run = run,
};
