#include "bench/commands/commands.h"
#include "bench/compare/compare.h"
#include "bench/compare/compare_limits.h"
#include "engine/base/number.h"
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
	for (uint32_t i = 0; i < 2; i++) {
		const char *run_status = comparison_part_status(&results[i].summary);
		if (run_status != NULL) {
			fprintf(stderr,
				"warning: the run of %s is %s: its figures are of what was done "
				"until then\n",
				folders[i], run_status);
		}
	}
	return STATUS_OK;
}

struct compare_request {
	bool is_json, is_markdown, wants_errors, shows_changes_only, wants_same_decisions;
	const char *gate, *limits; /* an expression, a file; NULL: none */
};

static enum status check_request(const struct compare_request *request, struct error *error)
{
	bool has_limits = request->gate != NULL || request->limits != NULL;

	if (request->wants_errors && (request->is_json || request->wants_same_decisions)) {
		return error_set(error, STATUS_USAGE,
			"--errors is a table of its own and does not go with --json or "
			"--same-decisions");
	}
	if (has_limits && (request->is_json || request->wants_errors)) {
		return error_set(error, STATUS_USAGE,
			"--gate and --limits print a table of their own, which does not go with "
			"--json or --errors");
	}
	if (request->is_markdown && !has_limits) {
		return error_set(error, STATUS_USAGE,
			"--markdown needs --gate or --limits, whose table it is");
	}
	return STATUS_OK;
}

/* Says of which limits neither result has the figure. Where that is all of them nothing was judged,
   and a gate that judges nothing must not be green. */
static enum status tell_unknown(const struct comparison *comparison, const struct limit_list *list,
	const struct limit_counts *counts, struct error *error)
{
	struct text options = {0};

	text_add(&options, "");
	limits_add_options(&options, list, counts->has_figure);
	if (counts->without_both == list->count) {
		error_set(error, STATUS_INPUT,
			"no limit can be judged: neither %.100s nor %.100s has %s%.200s; "
			"quire compare without limits shows the figures that they have",
			comparison->a, comparison->b,
			list->count == 1 ? list->limits[0].metric->name
					 : "a figure that the limits name",
			options.bytes);
	} else if (counts->without_both > 0) {
		printf("\n%u of %u %s %s nothing: neither run has the figure%s\n",
			counts->without_both, list->count,
			word_of_count(list->count, "limit", "limits"),
			word_of_count(counts->without_both, "says", "say"), options.bytes);
	}
	text_deinit(&options);
	return error->status;
}

/* The limits hold between runs of one trace. Another GPU or option is named and compared. */
static enum status judge(const struct comparison *comparison, const struct compare_request *request,
	struct error *error)
{
	struct limit_list list = {.count = 0};
	struct json_object a, b;

	if (request->gate != NULL) {
		TRY(limit_list_add(&list, "--gate", request->gate, error));
	}
	if (request->limits != NULL) {
		TRY(limit_list_add_file(&list, request->limits, error));
	}
	TRY(json_root(&a, &comparison->a_summary, error));
	TRY(json_root(&b, &comparison->b_summary, error));
	TRY(comparison_require_whole(comparison, error));
	if (!comparison->has_same_trace) {
		return error_set(error, STATUS_INPUT,
			"%s and %s are runs of different traces, whose figures cannot be judged by "
			"one another",
			comparison->a, comparison->b);
	}
	if (request->is_markdown) {
		comparison_print_markdown(comparison, stdout);
	} else {
		comparison_print_head(comparison, stdout);
	}
	const struct limit_counts counts =
		limits_print(&list, &a, &b, request->is_markdown, stdout);
	if (counts.broken > 0) {
		printf("\n%u of %u %s %s broken\n", counts.broken, list.count,
			word_of_count(list.count, "limit", "limits"),
			word_of_count(counts.broken, "is", "are"));
	}
	TRY(tell_unknown(comparison, &list, &counts, error));
	if (counts.without_base > 0) {
		return error_set(error, STATUS_INPUT,
			"%u of %u %s cannot be judged: %s lacks the figure", counts.without_base,
			list.count, word_of_count(list.count, "limit", "limits"), comparison->a);
	}
	return counts.broken > 0 ? error_set(error, STATUS_VERDICT, "%s", "") : STATUS_OK;
}

static enum status show(
	struct comparison *comparison, const struct compare_request *request, struct error *error)
{
	enum status status = STATUS_OK;

	if (request->gate != NULL || request->limits != NULL) {
		status = judge(comparison, request, error);
	} else if (request->is_json) {
		comparison_print_json(comparison, stdout);
	} else {
		comparison->shows_changes_only = request->shows_changes_only;
		comparison_print(comparison, stdout);
	}
	bool differs = request->wants_same_decisions && !comparison->has_same_decisions;
	return status == STATUS_OK && differs ? error_set(error, STATUS_VERDICT, "%s", "") : status;
}

static enum status run(struct command_line *line, struct error *error)
{
	const struct compare_request *request = line->values;
	struct comparison comparison;

	TRY(check_request(request, error));
	if (request->wants_errors) {
		struct result results[2] = {0};
		enum status status = print_errors(results, line->positionals, error);
		result_close(&results[0]);
		result_close(&results[1]);
		return status;
	}
	TRY(comparison_open(&comparison, line->positionals[0], line->positionals[1], error));
	enum status status = show(&comparison, request, error);
	comparison_close(&comparison);
	return status;
}

static const struct option options[] = {
	{"gate", OPTION_TEXT, offsetof(struct compare_request, gate), .argument = "LIMITS",
		.help = "limits on B, relative to A, separated by commas: "
			"'ttft.p99<=+5%,output_tokens_per_s>=-2%,hit_rate>=-0.5pt'; exit code 1 "
			"when "
			"one is broken"},
	{"limits", OPTION_TEXT, offsetof(struct compare_request, limits), .argument = "FILE",
		.help = "the same from a file, one or more a line; # begins a remark"},
	{"same-decisions", OPTION_FLAG, offsetof(struct compare_request, wants_same_decisions),
		.help = "exit code 1 when the decisions differ, though times may"},
	{"changed-only", OPTION_FLAG, offsetof(struct compare_request, shows_changes_only),
		.help = "leave out what is equal"},
	{"json", OPTION_FLAG, offsetof(struct compare_request, is_json),
		.help = "one JSON object instead of a table"},
	{"markdown", OPTION_FLAG, offsetof(struct compare_request, is_markdown),
		.help = "the table of limits in Markdown, for a comment on a pull request"},
	{"errors", OPTION_FLAG, offsetof(struct compare_request, wants_errors),
		.help = "errors of a simulated run relative to a real one of the same trace, in "
			"either order, as tab-separated metric, real, sim, error; of two runs of "
			"one kind A counts as the real one"},
};

const struct command command_compare = {
	.name = "compare",
	.title = "show where two results differ, and judge the difference",
	.arguments = "A B [options]",
	.summary =
		"Shows how the results in folder B differ from those in folder A: configuration,\n"
		"every number of their summaries, and, where both have a steps.tsv, the first\n"
		"step and column in which they differ. With limits it judges B.\n\n"
		"Exit code 0: B is within the limits, or there are none. 1: a limit is broken, or\n"
		"with --same-decisions a decision differs. 2: a folder holds no result, or limits\n"
		"were given for a run that failed or was interrupted, for runs of different\n"
		"traces or on figures that the results lack.",
	.examples = "  quire compare result-a result-b\n"
		    "  quire compare result-a result-b --same-decisions\n"
		    "  quire compare base new --gate 'ttft.p99<=+5%,output_tokens_per_s>=-2%'\n"
		    "  quire compare measured simulated --errors\n",
	OPTIONS(options),
	.value_bytes = sizeof(struct compare_request),
	.positional_minimum = 2,
	.positional_maximum = 2,
	.run = run,
};
