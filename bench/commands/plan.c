#include "bench/commands/commands.h"
#include "bench/commands/trace/made_trace.h"
#include "bench/commands/trace/trace_request.h"

#include "bench/plan/answer.h"
#include "bench/plan/plan.h"
#include "bench/plan/plan_folder.h"
#include "bench/plan/plan_print.h"
#include "bench/replay/runners.h"
#include "bench/replay/slo_options.h"
#include "bench/jobs/jobs.h"

#include <stddef.h>
#include <stdio.h>

static const char summary[] =
	"Finds how much load a configuration carries within a service level, by simulation: the\n"
	"trace is replayed at load after load until one passes and the next fails. Or how many\n"
	"replicas a load needs, or how few KV blocks. Prints the answer in a sentence and, with\n"
	"--out, writes plan.json and, with every run, plan.tsv, for `quire report`. Every run can\n"
	"be repeated by `quire replay` with the same options.\n";

static const char examples[] =
	"  quire plan chat.jsonl --slo-ttft-ms 2000 --slo-tpot-ms 50 --out plan\n"
	"  quire plan chat.jsonl --slo 'ttft.p99<=2000,tpot.p95<=50' --vary rate\n"
	"  quire plan chat.jsonl --slo-ttft-ms 2000 --target-speedup 3 --spare 1 --router prefix\n"
	"  quire plan chat.jsonl --slo-e2e-ms 20000 --grid 'gpu=h200,h100;max-num-seqs=128,512'\n"
	"  quire plan --input 200:2000 --output 100:400 --prefix 1024:4 --slo-ttft-ms 500\n"
	"  quire report plan --out plan.html\n";

struct plan_command {
	struct plan_request plan;
	struct made_trace_options made; /* the trace, where no file is given */
};

#define REQUEST(field) offsetof(struct plan_command, plan.field)
#define MADE(field) offsetof(struct plan_command, made.field)

#define MILLION UINT64_C(1000000)

/* An exact answer in millionths of a load takes hundreds of runs. Counts below 10,000 are exact at
   this one. */
enum { PRECISION_MIN = 100 }; /* millionths */

static const char *preset_word(uint32_t index)
{
	const struct trace_preset *preset = trace_preset_at(index);

	return preset == NULL ? NULL : preset->name;
}

static const struct option options[] = {
	{.kind = OPTION_HEADING, .help = "service level"},
	SLO_OPTIONS(REQUEST(run.slo)),
	{"attain", OPTION_MILLIONTHS, REQUEST(objective.attain), .argument = "SHARE",
		.initial = "0.99", .minimum = 1, .maximum = MILLION,
		.help = "share of all measured requests that must be within these limits; "
			"rejected, failed and unfinished ones are not"},
	{"slo", OPTION_TEXT, REQUEST(objective.limits_text), .argument = "LIMITS",
		.help = "limits on figures of a run, by name (reports/README.md): "
			"ttft.p99<=2000,tpot.p95<=50"},

	{.kind = OPTION_HEADING, .help = "search"},
	{"vary", OPTION_WORD, REQUEST(vary), REQUEST(has_vary), .argument = "OPTION",
		.initial = "speedup", .word_at = knob_word,
		.help = "the option that is varied; of kv-blocks and replicas the least that "
			"passes is found, of the others the most"},
	{"precision", OPTION_MILLIONTHS, REQUEST(precision), .argument = "SHARE", .initial = "0.01",
		.minimum = PRECISION_MIN, .maximum = MILLION,
		.help = "how far the load that fails may be above the one that passes; at "
			"least 0.0001"},
	{"replicates", OPTION_COUNT, REQUEST(replicates), .argument = "N", .initial = "40",
		.minimum = 0, .maximum = 10000,
		.help = "traces that are searched again for the sampling interval, drawn from the "
			"trace, with --rate with arrivals of other seeds; without a TRACE, made "
			"from other seeds; at least 8, 39 for 95 %; 0: no intervals"},
	{"jobs", OPTION_COUNT, REQUEST(jobs), .argument = "N", .minimum = 1,
		.maximum = JOBS_WORKERS_MAX,
		.help = "runs at once; default: as many as there are processors; the answer does "
			"not depend on it"},

	{.kind = OPTION_HEADING, .help = "how many replicas"},
	{"target-rate", OPTION_MILLIONTHS, REQUEST(target_rate), .argument = "R", .minimum = 1,
		.maximum = MILLION * MILLION,
		.help = "requests/s that the replicas behind --router must carry together; their "
			"arrivals are drawn (--arrivals, default poisson)"},
	{"target-speedup", OPTION_MILLIONTHS, REQUEST(target_speedup), .argument = "X",
		.minimum = 1, .maximum = UINT64_C(1000000000) * MILLION,
		.help = "the load as a multiple of the trace's traffic, whose times it divides, so "
			"that bursts stay bursts"},
	{"spare", OPTION_COUNT, REQUEST(spare), .argument = "K", .minimum = 0,
		.maximum = PROBE_LOST_MAX,
		.help = "the service level must hold with K of the replicas lost from the start"},
	{"cost-per-gpu-hour", OPTION_MILLIONTHS, REQUEST(cost_per_gpu_hour), .argument = "PRICE",
		.minimum = 1, .maximum = MILLION * MILLION,
		.help = "also say what a million output tokens cost, in the unit of PRICE"},

	{.kind = OPTION_HEADING,
		.help = "a load without a trace, as `quire trace make` makes it from --seed"},
	{"preset", OPTION_WORD, MADE(preset), .argument = "NAME", .word_at = preset_word,
		.help = "a workload to start from, which the options below override: chat, agent, "
			"rag or batch"},
	{"requests", OPTION_COUNT, MADE(requests), .argument = "N", .minimum = 1,
		.maximum = 1 << 28,
		.help = "requests of the trace; default: 10000, or the preset's"},
	{"input", OPTION_TEXT, MADE(input), .argument = "LEN",
		.help = "prompt tokens behind the prefix: N, LOW:HIGH or lognormal:MEDIAN:SIGMA"},
	{"output", OPTION_TEXT, MADE(output), .argument = "LEN", .help = "output tokens"},
	{"prefix", OPTION_TEXT, MADE(prefix), .argument = "TOKENS:COUNT[,...]",
		.help = "tree of prefixes in front of every prompt"},
	{"turns", OPTION_TEXT, MADE(turns), .argument = "LEN", .help = "turns of a session"},
	{"session-rate", OPTION_MILLIONTHS, MADE(session_rate), .argument = "R", .minimum = 1,
		.maximum = MILLION * MILLION,
		.help = "sessions that begin a second, where they have turns; --rate is then the "
			"same, and --vary rate and --target-rate are of requests"},
	{"follow-up", OPTION_TEXT, MADE(follow_up), .argument = "LEN",
		.help = "new prompt tokens of later turns; default: as --input"},
	{"think", OPTION_MILLIONTHS, MADE(think), MADE(has_think), .argument = "S", .unit = "s",
		.maximum = MILLION * MILLION, .help = "mean pause before a later turn"},

	{.kind = OPTION_HEADING, .help = "which configuration"},
	{"grid", OPTION_TEXT, REQUEST(grid), .argument = "GRID",
		.help = "plan for every combination of options and rank them: "
			"'gpu=h200,h100;max-num-seqs=128,512'"},
	{"try", OPTION_TEXTS, REQUEST(tries), .argument = "OPTIONS",
		.help = "plan for this configuration, such as '--policy vllm', and for each "
			"other that --try names; '--try base' for the one without"},

	{.kind = OPTION_HEADING, .help = "what is simulated"},
	{GROUP_OF_TABLE("simulated")},
	{.kind = OPTION_HEADING, .help = "engine"},
	{GROUP_OF_TABLE("engine")},
	{.kind = OPTION_HEADING, .help = "fleet"},
	{GROUP_OF_TABLE("fleet")},
	{.kind = OPTION_HEADING, .help = "load"},
	{GROUP_OF_TABLE("load")},
	{GROUP_OF_TABLE("tokens")},

	{.kind = OPTION_HEADING, .help = "results"},
	{"out", OPTION_TEXT, REQUEST(out), .argument = "DIR",
		.help = "folder to write, made with those above it; must hold no plan yet"},
	{"json", OPTION_FLAG, REQUEST(prints_json),
		.help = "print plan.json on stdout, and nothing else there"},
	{"force", OPTION_FLAG, REQUEST(is_forced), .help = "replace an existing plan"},
};

static const char *const main_options[] = {"slo-ttft-ms", "slo-tpot-ms", "slo-e2e-ms", "attain",
	"slo", "vary", "target-rate", "target-speedup", "spare", "grid", "model", "gpu", "out",
	NULL};

/* Writes the files, then prints what was made before: so that no error can come between
   the two. */
static enum status write_and_print(
	const struct answers *answers, struct plan_folder *folder, struct error *error)
{
	const struct plan_request *request = answers->plan->request;
	struct text text = {0};
	enum status status = STATUS_OK;

	if (!request->prints_json) {
		plan_print(&text, answers);
	}
	if (request->out != NULL) {
		status = plan_folder_write(folder, answers, error);
	}
	if (status == STATUS_OK && request->prints_json) {
		plan_json_write(answers, stdout);
	} else if (status == STATUS_OK) {
		fwrite(text.bytes, 1, text.byte_count, stdout);
	}
	fflush(stdout);
	text_deinit(&text);
	return status;
}

/* Writes and prints what is known, and returns its verdict. */
static enum status conclude(struct plan *plan, struct plan_folder *folder, struct error *error)
{
	const struct plan_request *request = plan->request;
	struct answers answers;

	TRY(plan_refusal(plan, error));
	answers_open(&answers, plan);
	bool is_found = answers.list[answers.by_rank[0]].is_found;
	enum status status = write_and_print(&answers, folder, error);
	answers_close(&answers);
	TRY(status);
	if (plan->is_interrupted) {
		return error_set(error, STATUS_VERDICT, "interrupted; %s%s%.200s",
			plan_mains_have_ended(plan) ? "the answer is whole, but error bars are "
						      "missing or of fewer replicates"
						    : "what is known so far is a bound",
			request->out == NULL ? "" : ", and in ",
			request->out == NULL ? "" : request->out);
	}
	if (plan->ended.status != STATUS_OK) {
		return error_set(error, plan->ended.status, "%s", plan->ended.text);
	}
	return is_found ? STATUS_OK : error_set(error, STATUS_VERDICT, "%s", "");
}

static enum status run_plan(struct plan_request *request, struct error *error)
{
	struct plan_folder folder = {.is_owned = false};
	struct plan plan;
	enum status status = plan_open(&plan, request, error);

	if (status == STATUS_OK) {
		plan_warn_of_memory(&plan);
		plan_note_positions(&plan);
	}
	if (status == STATUS_OK && request->out != NULL) {
		status = plan_folder_open(&folder, request->out, request->is_forced, error);
	}
	if (status == STATUS_OK) {
		plan_run(&plan);
		status = conclude(&plan, &folder, error);
	}
	plan_folder_close(&folder);
	plan_close(&plan);
	return status;
}

/* Makes the traces of replicates. */
struct plan_maker {
	const struct made_trace_options *options;
	struct replay_config config; /* as given, with the arrivals */
	struct made_trace made;
};

static enum status maker_open(void *context, uint64_t seed, struct error *error)
{
	struct plan_maker *maker = context;
	struct replay_config config = maker->config;

	config.seed = seed;
	return made_trace_open(&maker->made, maker->options, &config, error);
}

static const char *maker_path(void *context)
{
	const struct plan_maker *maker = context;

	return maker->made.path;
}

static void maker_close(void *context)
{
	struct plan_maker *maker = context;

	made_trace_close(&maker->made);
}

static enum status run(struct command_line *line, struct error *error)
{
	struct plan_command *command = line->values;
	struct plan_request *request = &command->plan;
	struct plan_maker maker = {.options = &command->made, .config = request->run.config};
	const struct trace_maker traces = {maker_open, maker_path, maker_close, &maker};
	struct made_trace made = {.path = ""};
	struct text made_by = {0};
	bool has_trace = line->positional_count > 0;
	bool is_made = made_trace_is_wanted(&command->made);

	if (has_trace == is_made) {
		return error_set(error, STATUS_USAGE,
			has_trace
				? "a trace is given, and --input, --output and the like make one: "
				  "give one of them"
				: "no load to plan for: give a TRACE, or --input, --output and "
				  "--rate");
	}
	request->argc = line->argc;
	request->argv = line->argv;
	request->run.progress = progress_mode_of_stderr();
	enum status status = STATUS_OK;
	if (is_made) {
		made_trace_add_command(&command->made, &request->run.config, &made_by);
		status = made_trace_open(&made, &command->made, &request->run.config, error);
	}
	request->maker = is_made ? &traces : NULL;
	request->made_by = made_by.bytes;
	request->run.trace_path = is_made ? made.path : line->positionals[0];
	if (status == STATUS_OK) {
		status = run_plan(request, error);
	}
	if (status == STATUS_OK) {
		runner_tell_idle_options(&request->run.config);
	}
	made_trace_close(&made);
	text_deinit(&made_by);
	return status;
}

const struct command command_plan = {
	.name = "plan",
	.title = "find the load a configuration carries within a service level",
	.arguments = "[TRACE] --slo-ttft-ms MS [options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(run.config),
	.value_bytes = sizeof(struct plan_command),
	.main_options = main_options,
	.positional_minimum = 0,
	.positional_maximum = 1,
	.takes_processes = true,
	.run = run,
};
