#include "bench/commands/case_inputs.h"
#include "bench/commands/commands.h"
#include "bench/gate/gate.h"
#include "bench/gate/gate_print.h"
#include "bench/gate/github.h"
#include "bench/gate/gate_history.h"
#include "bench/gate/ratio.h"
#include "engine/base/interrupt.h"
#include "engine/base/number.h"
#include "engine/base/output_file.h"
#include "reports/results/result_names.h"

#include <stddef.h>
#include <unistd.h>

struct gate_command {
	const char *baseline, *against, *out, *only, *recorded;
	const char *markdown, *junit, *json, *history; /* files to write; NULL: none */
	uint64_t jobs, null_runs;
	bool updates, adds, keeps_steps, annotates;
};

/* ---- files to write ---- */

static bool adds_to_summary(const struct gate_command *command)
{
	return gate_is_on_github() && command->markdown == NULL;
}

/* Each is a file of its own, and none that the runs or the gate read. What runs read follows from
   their options, which are checked first. */
static enum status check_files(
	const struct gate *gate, const struct gate_command *command, struct error *error)
{
	const char *const paths[] = {command->history, command->markdown, command->junit,
		command->json, adds_to_summary(command) ? gate_summary_path() : NULL};

	TRY(case_inputs_check(&gate->suite, error));
	case_inputs_note(&gate->suite, command->updates && command->recorded == NULL);
	TRY(result_names_refuse("--markdown", command->markdown, "gate.md", error));
	TRY(result_names_refuse("--junit", command->junit, "gate.xml", error));
	TRY(result_names_refuse("--json", command->json, "gate.json", error));
	TRY(gate_check_outputs(gate, paths, sizeof(paths) / sizeof(paths[0]), error));
	return command->history == NULL ? STATUS_OK : gate_history_check(command->history, error);
}

static enum status write_one(const struct gate *gate, const char *path,
	void (*print)(const struct gate *gate, FILE *out), struct error *error)
{
	struct output_file file = {.file = NULL};

	if (path == NULL) {
		return STATUS_OK;
	}
	TRY(output_file_open(&file, path, error));
	print(gate, file.file);
	enum status status = output_file_commit(&file, error);
	output_file_abandon(&file);
	return status;
}

/* Cases of other settings have no verdict: tells how they are compared on purpose. */
static enum status refuse_invalid(
	const struct gate *gate, const struct gate_command *command, struct error *error)
{
	uint32_t count = gate->counts[GATE_INVALID];
	const char *cases = word_of_count(gate->count, "case", "cases");

	if (command->against != NULL) {
		return error_set(error, STATUS_INPUT,
			"%u of %u %s cannot be compared with the other program's: see INVALID "
			"above "
			"(quire compare shows what a setting changes)",
			count, gate->count, cases);
	}
	return error_set(error, STATUS_INPUT,
		"%u of %u %s cannot be compared with the baseline: see INVALID above (quire "
		"compare shows what a setting changes, --against PROGRAM judges a program with the "
		"present settings, --update makes the present %s the baseline)",
		count, gate->count, cases, word_of_count(count, "case", "cases"));
}

static enum status write_all(
	const struct gate *gate, const struct gate_command *command, struct error *error)
{
	gate_print_text(gate, stdout);
	if (command->updates) {
		uint32_t failed = gate->counts[GATE_FAILED];
		if (failed == gate->count) {
			printf("no case ran, so %s is as it was\n", gate->baseline);
		} else {
			printf("%s has these runs%s: commit it\n", gate->baseline,
				failed > 0 ? ", but none that failed" : "");
		}
	}
	if (gate_is_on_github() || command->annotates) {
		gate_print_annotations(gate, stdout);
	}
	if (adds_to_summary(command)) {
		TRY(gate_add_to_summary(gate, error));
	}
	TRY(write_one(gate, command->markdown, gate_print_markdown, error));
	TRY(write_one(gate, command->junit, gate_print_junit, error));
	TRY(write_one(gate, command->json, gate_print_json, error));
	if (command->history != NULL) {
		TRY(gate_history_add(gate, command->history, error));
		TRY(gate_history_print(command->history, stdout, error));
	}
	int cost = 0;
	for (uint32_t i = 0; i < GATE_STATUS_COUNT; i++) {
		bool is_updated = command->updates && i != GATE_FAILED;
		if (gate->counts[i] > 0 && !is_updated && gate_status_costs[i] > cost) {
			cost = gate_status_costs[i];
		}
	}
	if (cost == 2) {
		return refuse_invalid(gate, command, error);
	}
	return cost == 1 ? error_set(error, STATUS_VERDICT, "%s", "") : STATUS_OK;
}

/* Whether a case's times were measured, so that its figures are uncertain. */
static bool is_measured(const struct gate_verdict *verdict)
{
	bool is_measured = false;

	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		is_measured |= verdict->figures[i].ratio.is_known;
	}
	return is_measured;
}

/* Whatever a gate flags when a program is compared with itself is a false alarm, an improvement
   too. */
static enum status run_null(
	struct gate_request *request, const struct gate_command *command, struct error *error)
{
	uint64_t runs = command->null_runs, flagged = 0, cases = 0;

	request->against_itself = true;
	for (uint64_t i = 0; i < runs; i++) {
		struct gate gate;
		enum status status = gate_open(&gate, request, error);
		if (status == STATUS_OK && i == 0) { /* later rounds replace its results */
			status = check_files(&gate, command, error);
		}
		if (status == STATUS_OK) {
			status = gate_run(&gate, error);
		}
		for (uint32_t j = 0; status == STATUS_OK && j < gate.count; j++) {
			const struct gate_verdict *verdict = &gate.verdicts[j];
			bool is_flagged = verdict->status != GATE_PASS;
			cases++;
			flagged += is_flagged;
			if (is_flagged || is_measured(verdict)) {
				printf("run %llu: ", (unsigned long long)i + 1);
				gate_print_case(verdict, stdout);
			}
		}
		gate_close(&gate);
		TRY(status);
	}
	printf("%llu %s of a program against itself: %llu of %llu %s flagged; by 95 %% "
	       "confidence at most %.2f %% of cases are false alarms\n",
		(unsigned long long)runs, word_of_count(runs, "run", "runs"),
		(unsigned long long)flagged, (unsigned long long)cases,
		word_of_count(cases, "case", "cases"), 100 * share_at_most(flagged, cases));
	return flagged > 0 ? error_set(error, STATUS_VERDICT, "%s", "") : STATUS_OK;
}

static enum status run(struct command_line *line, struct error *error)
{
	const struct gate_command *command = line->values;
	struct gate_request request = {
		.suite = line->positionals[0],
		.baseline = command->baseline,
		.against = command->against,
		.out = command->out,
		.only = command->only,
		.recorded = command->recorded,
		.jobs = (uint32_t)command->jobs,
		.updates = command->updates,
		.adds = command->adds,
		.keeps_steps = command->keeps_steps,
		.shows_progress = isatty(STDERR_FILENO) != 0,
	};
	struct gate gate;

	if (command->updates + (command->against != NULL) + (command->null_runs > 0) > 1) {
		return error_set(error, STATUS_USAGE,
			"--update writes what this program does, --against compares it with "
			"another, --null-runs with itself: give one of them");
	}
	if (command->recorded != NULL && (!command->updates || command->keeps_steps)) {
		return error_set(error, STATUS_USAGE,
			"--recorded names runs that --update makes the baseline; it goes without "
			"--keep-steps");
	}
	if (command->adds && !command->updates) {
		return error_set(
			error, STATUS_USAGE, "--missing says which cases --update runs: give both");
	}
	if (command->null_runs > 0) {
		return run_null(&request, command, error);
	}
	interrupt_hold(); /* verdicts that are known are written, all of them */
	enum status status = gate_open(&gate, &request, error);
	if (status == STATUS_OK) {
		status = check_files(&gate, command, error);
	}
	if (status == STATUS_OK) {
		status = gate_run(&gate, error);
	}
	if (status == STATUS_OK) {
		status = write_all(&gate, command, error);
	}
	interrupt_release();
	gate_close(&gate);
	return status;
}

static const struct option options[] = {
	{"baseline", OPTION_TEXT, offsetof(struct gate_command, baseline), .argument = "DIR",
		.help = "folder with what the cases did before; SUITE-baseline unless given"},
	{"update", OPTION_FLAG, offsetof(struct gate_command, updates),
		.help = "write what the cases do to the baseline, which is meant to be committed"},
	{"missing", OPTION_FLAG, offsetof(struct gate_command, adds),
		.help = "with --update: run only the cases that the baseline lacks, so that an "
			"update that was cut short goes on"},
	{"keep-steps", OPTION_FLAG, offsetof(struct gate_command, keeps_steps),
		.help = "with --update: keep every step in the baseline, so that the first one to "
			"differ is named"},
	{"recorded", OPTION_TEXT, offsetof(struct gate_command, recorded), .argument = "DIR",
		.help = "with --update: of cases that have `recorded`, take the results DIR/CASE, "
			"DIR/CASE.2, ... that were made on another machine"},
	{"against", OPTION_TEXT, offsetof(struct gate_command, against), .argument = "PROGRAM",
		.help = "another quire that runs the same cases and takes the baseline's place; "
			"runs that measure time alternate with its own"},
	{"out", OPTION_TEXT, offsetof(struct gate_command, out), .argument = "DIR",
		.initial = "gate-results", .help = "folder for the results of the cases"},
	{"only", OPTION_TEXT, offsetof(struct gate_command, only), .argument = "CASE",
		.help = "run one case"},
	{"jobs", OPTION_COUNT, offsetof(struct gate_command, jobs), .argument = "N", .initial = "2",
		.minimum = 1, .maximum = 256,
		.help = "cases at once; those that measure time run alone"},
	{"null-runs", OPTION_COUNT, offsetof(struct gate_command, null_runs), .argument = "N",
		.maximum = 1000,
		.help = "run the suite N times against this very program instead, and tell how "
			"often a case was flagged: its false alarms on this machine"},
	{"markdown", OPTION_TEXT, offsetof(struct gate_command, markdown), .argument = "FILE",
		.help = "write the verdicts for a pull request; unasked to $GITHUB_STEP_SUMMARY, "
			"where GITHUB_ACTIONS is true"},
	{"junit", OPTION_TEXT, offsetof(struct gate_command, junit), .argument = "FILE",
		.help = "write the verdicts as JUnit's XML"},
	{"json", OPTION_TEXT, offsetof(struct gate_command, json), .argument = "FILE",
		.help = "write the verdicts as JSON"},
	{"history", OPTION_TEXT, offsetof(struct gate_command, history), .argument = "FILE",
		.help = "add a line with the figures to a file, and tell since which commits their "
			"levels have changed"},
	{"annotations", OPTION_FLAG, offsetof(struct gate_command, annotates),
		.help = "print GitHub's annotations; unasked where GITHUB_ACTIONS is true"},
};

const struct command command_gate = {
	.name = "gate",
	.title = "judge a program by a suite of runs and a baseline",
	.arguments = "SUITE.json [options]",
	.summary = "Runs the cases of a suite and compares each with the baseline: the decisions\n"
		   "exactly, figures and costs within the suite's limits. bench/gate/README.md has "
		   "the\n"
		   "suite's fields. The verdicts are:\n"
		   "  PASS              same decisions, figures within their limits\n"
		   "  IMPROVED          better by more than the limits allow to be worse\n"
		   "  NEW               the baseline does not have this case, or the program of\n"
		   "                    --against refuses its options\n"
		   "  REGRESSED         a figure or a cost is beyond its limit\n"
		   "  BEHAVIOR_CHANGED  other decisions for the same trace\n"
		   "  MISSING           the baseline has a case that the suite lacks\n"
		   "  FAILED            the run failed\n"
		   "  INVALID           trace, model, profile or option is not the baseline's\n\n"
		   "Exit code 0: PASS, IMPROVED and NEW. 1: one of the others. 2: INVALID, wrong\n"
		   "use, or a file that cannot be read or written.",
	.examples =
		"  quire gate bench/suites/quire.json\n"
		"  quire gate bench/suites/quire.json --update\n"
		"  quire gate bench/suites/quire.json --against ./quire-of-main --junit g.xml\n",
	OPTIONS(options),
	.value_bytes = sizeof(struct gate_command),
	.positional_minimum = 1,
	.positional_maximum = 1,
	.run = run,
};
