#include "bench/commands/commands.h"
#include "bench/replay/run_to_folder.h"

#include <stddef.h>
#include <unistd.h>

#ifndef QUIRE_CHECK_STEPS
#define QUIRE_CHECK_STEPS 0
#endif

static const char summary[] =
	"Replays a trace through the engine: every request goes through the scheduler and the "
	"block\n"
	"manager, and a runner says how long each step takes. Prints a summary and, with --out,\n"
	"writes a result folder (requests, timeline, latencies, summary) for `quire report` and\n"
	"`quire compare`. TRACE may be packed by gzip or zstd; - is the standard input.\n"
	"The same trace, options and seed give the same bytes everywhere.\n";

static const char examples[] =
	"  quire replay chat.jsonl --model qwen3-0.6b --gpu h200\n"
	"  head -1000 chat.jsonl | quire replay - --json --out result\n"
	"  quire replay chat.jsonl --slo-ttft-ms 500 --slo-tpot-ms 25 --speedup 2 --out twice\n"
	"  quire replay chat.jsonl --concurrency 64 --max-num-seqs 64 --out closed\n"
	"  quire replay chat.jsonl --kv-blocks 800 --policy prefill-first --out small\n";

#define REQUEST(field) offsetof(struct replay_request, field)

enum { BILLION = 1000 * 1000 * 1000 };

static const struct option options[] = {
	{.kind = OPTION_HEADING, .help = "what is simulated"},
	{GROUP_OF_TABLE("simulated")},
	{"tape", OPTION_TEXT, REQUEST(run.tape), .argument = "DIR",
		.help = "the recorded run of --runner tape; its configuration is taken over, and "
			"options given again must agree"},

	{.kind = OPTION_HEADING, .help = "engine"},
	{GROUP_OF_TABLE("engine")},

	{.kind = OPTION_HEADING, .help = "fleet"},
	{GROUP_OF_TABLE("fleet")},

	{.kind = OPTION_HEADING, .help = "load"},
	{GROUP_OF_TABLE("load")},
	{GROUP_OF_TABLE("tokens")},

	{.kind = OPTION_HEADING, .help = "service level (for attainment and goodput)"},
	{"slo-ttft-ms", OPTION_MILLIONTHS, REQUEST(run.slo_ttft_ns), .argument = "MS", .unit = "ms",
		.minimum = 1, .maximum = UINT64_C(1000000) * BILLION,
		.help = "time to the first token, from arrival"},
	{"slo-tpot-ms", OPTION_MILLIONTHS, REQUEST(run.slo_tpot_ns), .argument = "MS", .unit = "ms",
		.minimum = 1, .maximum = UINT64_C(1000000) * BILLION,
		.help = "time per output token after the first"},

	{.kind = OPTION_HEADING, .help = "results"},
	{"out", OPTION_TEXT, REQUEST(out), .argument = "DIR",
		.help = "folder to write, made with those above it; must hold no result yet; "
			"default: only the summary is shown"},
	{"json", OPTION_FLAG, REQUEST(prints_json),
		.help = "print summary.json on stdout, and nothing else there"},
	{"force", OPTION_FLAG, REQUEST(is_forced), .help = "replace an existing result"},
	{"steps", OPTION_FLAG, REQUEST(wants_steps),
		.help = "also write steps.tsv, a row for each step"},
	{"kernel-times", OPTION_FLAG, REQUEST(run.wants_kernel_times),
		.help = "CUDA runner only: measure every kernel, by operation and layer, into "
			"kernels.tsv (makes steps a little longer)"},
	{"timeline", OPTION_TEXT, REQUEST(timeline), .argument = "FILE",
		.help = "also write steps, requests and, with --kernel-times, kernels for "
			"Perfetto (ui.perfetto.dev) or chrome://tracing"},
	{"check", OPTION_FLAG, REQUEST(run.is_checking),
		.help = "verify every invariant of the engine after each step (slow)"},
};

static const char *const main_options[] = {
	"model", "gpu", "runner", "rate", "speedup", "slo-ttft-ms", "slo-tpot-ms", "out", NULL};

/* Refuses options of files where none is written. */
static enum status check_files(const struct replay_request *request, struct error *error)
{
	const char *option = request->wants_steps	       ? "--steps"
			     : request->timeline != NULL       ? "--timeline"
			     : request->run.wants_kernel_times ? "--kernel-times"
			     : request->is_forced	       ? "--force"
							       : NULL;

	if (request->out == NULL && option != NULL) {
		return error_set(error, STATUS_USAGE,
			"%s belongs to a result that is written: give --out DIR", option);
	}
	return STATUS_OK;
}

static enum status run(struct command_line *line, struct error *error)
{
	struct replay_request *request = line->values;

	request->argc = line->argc;
	request->argv = line->argv;
	request->prints_summary = true;
	request->run.trace_path = line->positionals[0];
	request->run.is_checking |= QUIRE_CHECK_STEPS != 0;
	request->run.progress = progress_mode_of_stderr();
	TRY(check_files(request, error));
	return run_to_folder(request, error);
}

const struct command command_replay = {
	.name = "replay",
	.title = "run a trace through the engine and write a result folder",
	.arguments = "TRACE [--out DIR] [options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(run.config),
	.value_bytes = sizeof(struct replay_request),
	.main_options = main_options,
	.positional_minimum = 1,
	.positional_maximum = 1,
	.run = run,
};
