#include "bench/commands/commands.h"
#include "bench/compare/compare.h"
#include "reports/results/fidelity.h"

#include <stddef.h>
#include <stdio.h>

/* Opens results, which the caller closes, and prints the errors of the simulated run, which may be
   either of the two. */
static enum status print_errors(
	struct result *results, const char *const *folders, struct error *error)
{
	struct fidelity fidelity;

	TRY(result_open(&results[0], folders[0], error));
	TRY(result_open(&results[1], folders[1], error));
	TRY(fidelity_open(&fidelity, &results[0], &results[1], error));
	fidelity_print(&fidelity, stdout);
	return STATUS_OK;
}

struct compare_request {
	bool is_json, wants_errors;
};

static enum status run(struct command_line *line, struct error *error)
{
	const struct compare_request *request = line->values;
	struct comparison comparison;

	if (request->is_json && request->wants_errors) {
		return error_set(error, STATUS_USAGE,
			"--errors is a table of its own and does not go with --json");
	}
	if (request->wants_errors) {
		struct result results[2] = {0};
		enum status status = print_errors(results, line->positionals, error);
		result_close(&results[0]);
		result_close(&results[1]);
		return status;
	}
	TRY(comparison_open(&comparison, line->positionals[0], line->positionals[1], error));
	if (request->is_json) {
		comparison_print_json(&comparison, stdout);
	} else {
		comparison_print(&comparison, stdout);
	}
	bool has_same_decisions = comparison.has_same_decisions;
	comparison_close(&comparison);
	return has_same_decisions ? STATUS_OK : error_set(error, STATUS_VERDICT, "%s", "");
}

static const struct option options[] = {
	{"json", OPTION_FLAG, offsetof(struct compare_request, is_json),
		.help = "one JSON object instead of a table"},
	{"errors", OPTION_FLAG, offsetof(struct compare_request, wants_errors),
		.help = "errors of a simulated run relative to a real one of the same trace, in "
			"either order, as tab-separated metric, real, sim, error; of two runs of "
			"one kind A counts as the real one"},
};

const struct command command_compare = {
	.name = "compare",
	.title = "show where two results differ, and from which step on",
	.arguments = "A B [--json|--errors]",
	.summary =
		"Shows how the results in folder B differ from those in folder A: configuration,\n"
		"every number of their summaries, and, where both have a steps.tsv, the first\n"
		"step and column in which they differ.\n\n"
		"Exit code 0: both runs made the same decisions, though their times may differ.\n"
		"1: the decisions differ. 2: a folder holds no result. With --errors the code is\n"
		"0 whatever the errors are.",
	.examples = "  quire compare result-a result-b\n"
		    "  quire compare result-a result-b --json\n"
		    "  quire compare measured simulated --errors\n",
	OPTIONS(options),
	.value_bytes = sizeof(struct compare_request),
	.positional_minimum = 2,
	.positional_maximum = 2,
	.run = run,
};
