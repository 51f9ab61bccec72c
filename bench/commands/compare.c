#include "bench/commands/commands.h"
#include "bench/compare/compare.h"
#include "bench/options/options.h"
#include "reports/results/fidelity.h"

/* The errors of one run against the other; which of them is the real one, its configuration
   tells. */
static enum status print_errors(const char *const *folders, struct error *error)
{
	struct result results[2];
	struct fidelity fidelity;

	enum status status = result_open(&results[0], folders[0], error);
	enum status second = result_open(
		&results[1], folders[1], status == STATUS_OK ? error : &(struct error){0});
	if (status == STATUS_OK) {
		status = second;
	}
	if (status == STATUS_OK) {
		status = fidelity_open(&fidelity, &results[0], &results[1], error);
	}
	if (status == STATUS_OK) {
		fidelity_print(&fidelity, stdout);
	}
	result_close(&results[0]);
	result_close(&results[1]);
	return status;
}

int command_compare(int argc, char **argv)
{
	bool is_json = false, wants_errors = false, wants_help = false;
	const struct option options[] = {
		{"json", OPTION_FLAG, &is_json, NULL, "one JSON object instead of a table", 0, 0,
			NULL, NULL},
		{"errors", OPTION_FLAG, &wants_errors, NULL,
			"how far a simulated run is from a real one of the same trace, as "
			"tab-separated metric, real, sim, error, in either order of the folders; "
			"of "
			"two runs of one kind A is taken for the real one",
			0, 0, NULL, NULL},
	};
	const struct command command = {
		.name = "compare",
		.arguments = "A B [--json|--errors]",
		.summary =
			"Says how the results in folder B differ from those in folder A: "
			"configuration,\n"
			"every number of their summaries, and, where both have a steps.tsv, the "
			"first\n"
			"step and column in which they part.\n\n"
			"Exit code 0: both runs took the same decisions, though their times may "
			"differ.\n"
			"1: the decisions differ. 2: a folder holds no result. With --errors the "
			"code is\n"
			"0 whatever they are.",
		.examples = "  quire compare result-a result-b\n"
			    "  quire compare result-a result-b --json\n"
			    "  quire compare measured simulated --errors\n",
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
		.positional_minimum = 2,
		.positional_maximum = 2,
	};
	const char *folders[2] = {NULL, NULL};
	uint32_t folder_count = 0;
	struct error error = {0};
	struct comparison comparison;

	enum status status =
		options_parse(&command, argc, argv, folders, &folder_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK && is_json && wants_errors) {
		status = error_set(&error, STATUS_USAGE,
			"--errors is a table of its own and does not go with --json");
	}
	if (status == STATUS_OK && wants_errors) {
		status = print_errors(folders, &error);
		return status == STATUS_OK ? 0 : command_fail(&command, &error);
	}
	if (status == STATUS_OK) {
		status = comparison_open(&comparison, folders[0], folders[1], &error);
	}
	if (status != STATUS_OK) {
		return command_fail(&command, &error);
	}
	if (is_json) {
		comparison_print_json(&comparison, stdout);
	} else {
		comparison_print(&comparison, stdout);
	}
	bool has_same_decisions = comparison.has_same_decisions;
	comparison_close(&comparison);
	return has_same_decisions ? 0 : 1;
}
