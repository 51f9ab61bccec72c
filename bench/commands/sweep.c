#include "bench/commands/commands.h"
#include "bench/jobs/jobs.h"
#include "bench/replay/runners.h"
#include "bench/replay/slo_options.h"
#include "bench/sweep/sweep.h"

#include <stddef.h>

static const char summary[] =
	"Replays a trace under every configuration of a grid, several at once. Each run has a\n"
	"folder DIR/NAME, the same as `quire replay --out` writes, and DIR/sweep.tsv has a row\n"
	"for each: its parameters and its main figures. `quire report DIR` draws them.\n"
	"A run that is whole is not done again: a sweep that was interrupted, or killed, goes on\n"
	"when it is started again, and a grid can be extended. A configuration that cannot be\n"
	"run has a row that says why.\n"
	"In --grid, semicolons part options and commas their values; numbers may be a range:\n"
	"FROM:TO:xFACTOR or FROM:TO:+STEP. Under mpirun the processes but the first do the runs.\n"
	"Exit code 0: every run is complete. 1: one failed, or the sweep was interrupted. 2: its\n"
	"options or the trace let no run be done.\n";

static const char examples[] =
	"  quire sweep chat.jsonl --grid 'max-num-seqs=64,128,256;policy=mixed,vllm' --out seats\n"
	"  quire sweep chat.jsonl --grid 'kv-blocks=500:8000:x2' --slo-ttft-ms 2000 --out blocks\n"
	"  quire sweep chat.jsonl --grid 'speedup=1:4:+0.5;gpu=h200,h100' --jobs 8 --out load\n"
	"  mpirun -n 64 quire sweep chat.jsonl --grid 'resample-seed=1:1000:+1' --out draws\n";

#define REQUEST(field) offsetof(struct sweep_request, field)

static const struct option options[] = {
	{.kind = OPTION_HEADING, .help = "the sweep"},
	{"grid", OPTION_TEXT, REQUEST(grid), .argument = "OPTION=VALUE,...;...",
		.help = "options of the runs and their values, of which every combination is run; "
			"at most 8 options and 10,000 runs"},
	{"out", OPTION_TEXT, REQUEST(out), .argument = "DIR",
		.help = "folder of the sweep, made with those above it; must be empty or a "
			"sweep's"},
	{"jobs", OPTION_COUNT, REQUEST(jobs), .argument = "N", .minimum = 1,
		.maximum = JOBS_WORKERS_MAX,
		.help = "runs at once; default: as many as there are processors, and one for a "
			"runner that computes"},
	{"force", OPTION_FLAG, REQUEST(is_forced),
		.help = "do every run again, and replace results that no sweep has made; a folder "
			"with other files is taken too"},

	{.kind = OPTION_HEADING, .help = "what is simulated"},
	{GROUP_OF_TABLE("simulated")},

	{.kind = OPTION_HEADING, .help = "engine"},
	{GROUP_OF_TABLE("engine")},

	{.kind = OPTION_HEADING, .help = "fleet"},
	{GROUP_OF_TABLE("fleet")},

	{.kind = OPTION_HEADING, .help = "load"},
	{GROUP_OF_TABLE("load")},
	{GROUP_OF_TABLE("tokens")},

	{.kind = OPTION_HEADING, .help = "service level (for attainment and goodput)"},
	SLO_OPTIONS(REQUEST(run.slo)),
};

static const char *const main_options[] = {
	"grid", "out", "jobs", "force", "model", "gpu", "slo-ttft-ms", "slo-tpot-ms", NULL};

static enum status run(struct command_line *line, struct error *error)
{
	struct sweep_request *request = line->values;

	request->argc = line->argc;
	request->argv = line->argv;
	request->run.trace_path = line->positionals[0];
	request->run.is_checking = RUN_CHECKS_UNASKED;
	request->run.progress = PROGRESS_NONE;
	TRY(sweep_run(request, error));
	runner_tell_idle_options(&request->run.config);
	return STATUS_OK;
}

const struct command command_sweep = {
	.name = "sweep",
	.title = "run a trace under every configuration of a grid",
	.arguments = "TRACE --grid 'OPTION=VALUE,...;...' --out DIR [options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(run.config),
	.value_bytes = sizeof(struct sweep_request),
	.main_options = main_options,
	.positional_minimum = 1,
	.positional_maximum = 1,
	.takes_processes = true,
	.run = run,
};
