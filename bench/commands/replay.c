#include "bench/commands/commands.h"
#include "bench/replay/run_to_folder.h"
#include "bench/replay/slo_options.h"

#include "engine/base/number.h"
#include "reports/results/result_names.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
	"Replays a trace through the engine: every request goes through the scheduler and the "
	"block\n"
	"manager, and a runner says how long each step takes. Prints a summary and, with --out,\n"
	"writes a result folder (requests, timeline, latencies, summary) for `quire report` and\n"
	"`quire compare`. TRACE may be packed by gzip or zstd; - is the standard input.\n"
	"The same trace, options and seed give the same bytes everywhere. The exit code is 0 when\n"
	"the whole trace was replayed, 1 when an interrupt ended it: requests that were rejected\n"
	"or that no replica was left to serve are figures of the run, not its failure.\n";

static const char examples[] =
	"  quire replay chat.jsonl --model qwen3-0.6b --gpu h200\n"
	"  head -1000 chat.jsonl | quire replay - --json --out result\n"
	"  quire replay chat.jsonl --slo-ttft-ms 500 --slo-tpot-ms 25 --speedup 2 --out twice\n"
	"  quire replay chat.jsonl --concurrency 64 --max-num-seqs 64 --out closed\n"
	"  quire replay chat.jsonl --kv-blocks 800 --policy prefill-first --out small\n";

#define REQUEST(field) offsetof(struct replay_request, field)

#define WINDOW_MAX UINT64_C(1000000000000000) /* microseconds */

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
	SLO_OPTIONS(REQUEST(run.slo)),

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
	{"timeline-window", OPTION_TEXT, REQUEST(timeline_window_text), .argument = "FROM:TO",
		.help = "the seconds of --timeline, from the first arrival: 600:660, or 600: to "
			"the end"},
	{"check", OPTION_FLAG, REQUEST(run.is_checking),
		.help = "verify every invariant of the engine after each step (slow)"},
};

static const char *const main_options[] = {
	"model", "gpu", "runner", "rate", "speedup", "slo-ttft-ms", "slo-tpot-ms", "out", NULL};

/* "600:660", "600:" or ":60". */
static enum status parse_window(struct replay_request *request, struct error *error)
{
	struct perfetto_window *window = &request->timeline_window;
	const char *text = request->timeline_window_text;
	char from[NUMBER_TEXT_BYTES] = "";
	uint64_t from_us = 0, to_us = 0;

	if (text == NULL) {
		return STATUS_OK;
	}
	if (request->timeline == NULL) {
		return error_set(error, STATUS_USAGE, "--timeline-window belongs to --timeline");
	}
	const char *colon = strchr(text, ':');
	size_t bytes = colon == NULL ? 0 : (size_t)(colon - text);
	bool is_good = colon != NULL && bytes < sizeof(from);
	if (is_good) {
		memcpy(from, text, bytes);
		is_good = (bytes == 0 || text_to_millionths(from, &from_us)) &&
			  (colon[1] == '\0' || text_to_millionths(colon + 1, &to_us));
	}
	if (!is_good || from_us > WINDOW_MAX || to_us > WINDOW_MAX ||
		(colon[1] != '\0' && to_us <= from_us)) {
		return error_set(error, STATUS_USAGE,
			"--timeline-window: found '%s', expected FROM:TO, seconds of at most 6 "
			"places, rising to 10^9",
			text);
	}
	*window = (struct perfetto_window){from_us * 1000, to_us * 1000};
	return STATUS_OK;
}

/* Refuses options of files where none is written, and a timeline in place of a table. */
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
	return result_names_refuse("--timeline", request->timeline, "perfetto.json", error);
}

static enum status run(struct command_line *line, struct error *error)
{
	struct replay_request *request = line->values;

	request->argc = line->argc;
	request->argv = line->argv;
	request->prints_summary = true;
	request->run.trace_path = line->positionals[0];
	request->run.is_checking |= RUN_CHECKS_UNASKED;
	request->run.progress = progress_mode_of_stderr();
	TRY(check_files(request, error));
	TRY(parse_window(request, error));
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
	.takes_processes = true,
	.run = run,
};
