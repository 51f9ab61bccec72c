#include "bench/gate/case_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/require.h"

/* Which runs a case has, in which order, and where their results stand. */

static struct suite_case rules;
static struct case_run run;

static void set_up(void)
{
	memset(&rules, 0, sizeof(rules));
	memset(&run, 0, sizeof(run));
	snprintf(rules.name, sizeof(rules.name), "one");
	rules.repeats = 3;
	run.rules = &rules;
	run.out = "out";
}

TestSuite(case_run, .init = set_up);

/* The last --runner of the options counts; that of a recording comes behind them. */
Test(case_run, runners_that_compute_measure_time)
{
	static const struct {
		const char *options[3], *recorded[2];
		bool measures, measures_recorded;
	} cases[] = {
		{{"--seed", "1"}, {NULL}, false, false},
		{{"--runner", "reference"}, {NULL}, true, true},
		{{"--runner=cuda"}, {NULL}, true, true},
		{{"--runner=tape"}, {NULL}, false, false},
		{{"--runner=cuda", "--runner", "sim"}, {NULL}, false, false},
		{{"--runner"}, {NULL}, false, false},
		{{"--seed", "1"}, {"--runner", "cuda"}, false, true},
		{{"--runner=cuda"}, {"--runner=sim"}, true, false},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up();
		for (; rules.option_count < 3 && cases[i].options[rules.option_count] != NULL;
			rules.option_count++) {
			rules.options[rules.option_count] = cases[i].options[rules.option_count];
		}
		for (; rules.recorded_count < 2 && cases[i].recorded[rules.recorded_count] != NULL;
			rules.recorded_count++) {
			rules.recorded[rules.recorded_count] =
				cases[i].recorded[rules.recorded_count];
		}
		require(case_measures_time(&rules, false) == cases[i].measures &&
				case_measures_time(&rules, true) == cases[i].measures_recorded,
			"case %u", i);
		rules.measures[COST_CPU_TIME] = true;
		require(case_measures_time(&rules, false), "case %u: the program's time", i);
	}
}

/* The folders of all planned runs, in their order. */
static void require_plan(const char *expected)
{
	char folder[PATH_BYTES_MAX];
	struct text found = {0};
	struct error error = {0};

	run.plan_count = 0;
	case_run_plan(&run);
	for (uint32_t i = 0; i < run.plan_count; i++) {
		bool is_made = run.plan[i].kind == PLAN_MAKE;
		require_equal(case_run_folder(&run, &run.plan[i], folder, &error), STATUS_OK);
		text_add(&found, i == 0 ? "" : " ");
		text_add(&found, is_made ? "make" : folder);
	}
	cr_assert_str_eq(found.bytes, expected);
	text_deinit(&found);
}

Test(case_run, runs_alternate_and_have_folders_of_their_own)
{
	require_plan("out/one");
	run.against = "other";
	require_plan("out/one out/one.base");
	rules.make_count = 1;
	rules.measures[COST_STEP_INSTRUCTIONS] = true;
	require_plan("make out/one out/one.base");
	run.counts_instructions = true;
	require_plan("make out/one out/one.base out/one.counted out/one.base.counted");
	run.against = NULL;
	require_plan("make out/one out/one.counted");
	rules.measures[COST_STEP_INSTRUCTIONS] = false;
	rules.measures[COST_CPU_TIME] = true;
	rules.make_count = 0;
	require_plan("out/one out/one.2 out/one.3");
	run.against = "other";
	require_plan("out/one out/one.base out/one.base.2 out/one.2 out/one.3 out/one.base.3");
}
