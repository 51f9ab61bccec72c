#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/sweep_axes.h"
#include "tests/harness/require.h"

/* Over which parameters a sweep is drawn, and what its captions name. */

enum { VALUES_MOST = 20 };

/* A sweep of parameters a, b, ... with so many values each. */
struct made {
	struct sweep_file sweep;
	char names[SWEEP_PARAMETERS_MAX][2], texts[VALUES_MOST][4];
	const char *values[VALUES_MOST];
	struct sweep_run runs[VALUES_MOST];
	char run_names[VALUES_MOST][8];
};

static void make(struct made *made, const uint32_t *counts, uint32_t count)
{
	memset(made, 0, sizeof(*made));
	for (uint32_t i = 0; i < VALUES_MOST; i++) {
		snprintf(made->texts[i], sizeof(made->texts[i]), "%u", i + 1);
		snprintf(made->run_names[i], sizeof(made->run_names[i]), "run-%u", i + 1);
		made->values[i] = made->texts[i];
		made->runs[i].name = made->run_names[i];
		made->runs[i].status = SWEEP_RUN_COMPLETE;
	}
	made->sweep.parameter_count = count;
	made->sweep.runs = made->runs;
	for (uint32_t i = 0; i < count; i++) {
		made->names[i][0] = (char)('a' + i);
		made->sweep.parameters[i] = (struct sweep_parameter){
			.name = made->names[i], .value_count = counts[i], .values = made->values};
	}
}

static void set_rejected(struct made *made, uint32_t run, double rejected)
{
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		if (strcmp(sweep_metrics[i], "rejected") == 0) {
			made->runs[run].metrics[i] = (struct result_value){true, rejected};
		}
	}
}

static void require_text(struct text *text, const char *wanted)
{
	const char *found = text->bytes == NULL ? "" : text->bytes;

	require(strcmp(found, wanted) == 0, "'%s', not '%s'", found, wanted);
	text_deinit(text);
}

Test(sweep_axes, are_the_parameters_that_vary)
{
	struct made made;
	struct sweep_axes axes;
	struct text name = {0};

	make(&made, (const uint32_t[]){1, 3, 1, 2, 2}, 5);
	sweep_axes_find(&axes, &made.sweep);
	require_equal(axes.count, 3);
	require(strcmp(sweep_axis(&axes, 0)->name, "b") == 0, "x is not b");
	require(strcmp(sweep_axis(&axes, 1)->name, "d") == 0, "curves are not d");
	made.runs[0].values[1] = 2;
	made.runs[0].values[4] = 1;
	require_equal(sweep_axis_value(&axes, &made.runs[0], 0), 2);
	require_equal(sweep_panel_of(&axes, &made.runs[0]), 1);
	require_equal(sweep_panel_count(&axes), 2);
	sweep_panel_name(&axes, 1, &name);
	require_text(&name, "e 2");

	make(&made, (const uint32_t[]){1, 1}, 2);
	sweep_axes_find(&axes, &made.sweep);
	require_equal(axes.count, 1);
	require(strcmp(sweep_axis(&axes, 0)->name, "a") == 0, "x is not a");
}

/* A title that would be cut loses the names of parameters, which are equal in all. */
Test(sweep_axes, long_names_of_panels_are_values_alone)
{
	static const char *const models[] = {
		"/models/a/qwen3-0.6b.json", "/models/a/qwen3-8b.json"};
	struct made made;
	struct sweep_axes axes;
	struct text name = {0};

	make(&made, (const uint32_t[]){2, 2, 2, 2}, 4);
	made.sweep.parameters[2].name = "gpu-memory-utilization";
	made.sweep.parameters[3].values = (const char **)models;
	sweep_axes_find(&axes, &made.sweep);
	sweep_panel_name(&axes, 3, &name);
	require_text(&name, "2, qwen3-8b.json");
	require(strcmp(sweep_value_text(&made.sweep.parameters[3], 0), "qwen3-0.6b.json") == 0,
		"the folder is told");
	made.sweep.parameters[3].value_count = 1;
	require(sweep_value_text(&made.sweep.parameters[3], 0) == models[0], "a value is cut");
}

Test(sweep_axes, what_is_left_out_is_named)
{
	struct made made;
	struct sweep_axes axes;
	struct text text = {0};

	make(&made, (const uint32_t[]){2, 8, 12}, 3);
	sweep_axes_find(&axes, &made.sweep);
	sweep_say_left_out(&axes, &text);
	require_text(&text, "");
	make(&made, (const uint32_t[]){2, 11, 14}, 3);
	sweep_axes_find(&axes, &made.sweep);
	sweep_say_left_out(&axes, &text);
	require_text(&text,
		" Not drawn: 3 of 11 curves, of b 9, 10, 11; the table has their runs. Not drawn: "
		"2 of 14 panels, of c 13; c 14; the table has their runs.");
	make(&made, (const uint32_t[]){2, 21, 2}, 3); /* twelve of thirteen are named */
	sweep_axes_find(&axes, &made.sweep);
	sweep_say_left_out(&axes, &text);
	require_text(&text,
		" Not drawn: 13 of 21 curves, of b 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 "
		"and 1 more; the table has their runs.");
	make(&made, (const uint32_t[]){20, 20}, 2); /* a map has all */
	sweep_axes_find(&axes, &made.sweep);
	sweep_say_left_out(&axes, &text);
	require_text(&text, "");
}

Test(sweep_axes, runs_that_rejected_more_than_a_hundredth_are_named)
{
	struct made made;
	struct text text = {0};

	make(&made, (const uint32_t[]){6}, 1);
	made.sweep.run_count = 6;
	made.sweep.trace_requests = (struct result_value){true, 200};
	set_rejected(&made, 0, 2);
	sweep_say_rejecting(&made.sweep, &text);
	require_text(&text, "");
	set_rejected(&made, 1, 3);
	sweep_say_rejecting(&made.sweep, &text);
	require_text(&text,
		" Runs that rejected more than 1 % of the requests look better than they are, "
		"since only what they took counts: run-2 (1.5 %).");
	for (uint32_t i = 0; i < 6; i++) {
		set_rejected(&made, i, 150);
	}
	sweep_say_rejecting(&made.sweep, &text);
	require(strstr(text.bytes, "run-4 (75.0 %) and 2 more.") != NULL, "%s", text.bytes);
	text_deinit(&text);
	/* Runs that do not share the number of requests. */
	made.sweep.trace_requests.has_value = false;
	set_rejected(&made, 0, 1);
	require(sweep_is_rejecting(&made.sweep, &made.runs[0]), "one request is not said");
	set_rejected(&made, 0, 0);
	require(!sweep_is_rejecting(&made.sweep, &made.runs[0]), "none is said");
}

Test(sweep_axes, overloaded_runs_are_named)
{
	struct made made;
	struct text text = {0};

	make(&made, (const uint32_t[]){6}, 1);
	made.sweep.run_count = 6;
	made.runs[0].verdict = VERDICT_BACKLOGGED;
	sweep_say_overloaded(&made.sweep, &text);
	require_text(&text, "");
	made.runs[1].verdict = made.runs[2].verdict = VERDICT_OVERLOADED;
	made.runs[2].status = SWEEP_RUN_FAILED;
	sweep_say_overloaded(&made.sweep, &text);
	require_text(&text, " Overloaded: run-2; what these show of single requests only reflects "
			    "the length of "
			    "the trace.");
	for (uint32_t i = 0; i < 6; i++) {
		made.runs[i].verdict = VERDICT_OVERLOADED;
		made.runs[i].status = SWEEP_RUN_COMPLETE;
	}
	sweep_say_overloaded(&made.sweep, &text);
	require_text(&text,
		" Overloaded: run-1, run-2, run-3, run-4 and 2 more; what these show of single "
		"requests only reflects the length of the trace.");
}

/* Runs of one pool size are told apart by what else varies; the size alone makes no group. */
Test(sweep_axes, points_of_a_size_are_grouped_by_the_other_values)
{
	struct made made;
	struct sweep_groups groups;
	struct text name = {0};

	make(&made, (const uint32_t[]){4, 1}, 2);
	made.sweep.parameters[0].name = "kv-blocks";
	made.sweep.run_count = 4;
	made.runs[3].values[0] = 3;
	sweep_groups_find(&groups, &made.sweep);
	require_equal(groups.count, 1);
	sweep_group_name(&groups, 0, &name);
	require_text(&name, "runs");
	make(&made, (const uint32_t[]){2, 10, 2}, 3);
	made.sweep.parameters[0].name = "kv-blocks";
	made.sweep.run_count = 20;
	for (uint32_t i = 0; i < 20; i++) {
		made.runs[i].values[0] = i % 2;
		made.runs[i].values[1] = i / 2 % 4;
		made.runs[i].values[2] = 1;
	}
	made.runs[0].status = SWEEP_RUN_FAILED;
	sweep_groups_find(&groups, &made.sweep);
	require_equal(groups.count, 4);
	require(!groups.has_others, "others");
	require_equal(sweep_group_of(&groups, &made.runs[4]), 2);
	sweep_group_name(&groups, 2, &name);
	require_text(&name, "b 3, c 2");
	for (uint32_t i = 0; i < 20; i++) {
		made.runs[i].values[1] = i / 2;
	}
	sweep_groups_find(&groups, &made.sweep);
	require_equal(groups.count, SWEEP_GROUPS_MAX);
	require(groups.has_others, "no others");
	require_equal(sweep_group_of(&groups, &made.runs[13]), 6);
	require_equal(sweep_group_of(&groups, &made.runs[19]), 7);
	sweep_group_name(&groups, 7, &name);
	require_text(&name, "others");
	sweep_groups_say(&groups, &name);
	require_text(&name, " Markers tell apart b, c.");
	made.sweep.parameters[1].name = "max-num-batched-tokens"; /* no room for its name */
	sweep_groups_find(&groups, &made.sweep);
	sweep_group_name(&groups, 2, &name);
	require_text(&name, "3, 2");
}
