#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gate/gate_print.h"
#include "engine/base/text.h"
#include "tests/harness/require.h"

/* Every form of a gate's verdicts, byte by byte: a figure judged by its ratio, a new one, a cost, a
   simulation, and texts with characters that a form must write otherwise. */

static struct gate_verdict verdicts[4];
static struct gate gate;

static struct gate_figure figure_of(const char *name, double value, double base)
{
	return (struct gate_figure){.name = name,
		.metric = metric_find(name),
		.value = value,
		.has_base = true,
		.base = base};
}

static void set_up(void)
{
	struct gate_verdict *slow = &verdicts[0], *fresh = &verdicts[1], *real = &verdicts[2];

	memset(verdicts, 0, sizeof(verdicts));
	snprintf(slow->name, sizeof(slow->name), "slow");
	text_add(verdict_add(slow, GATE_REGRESSED), "a | b < 5 %");
	text_add(verdict_add(slow, GATE_PASS), "then \"c\" & d");
	slow->figures[0] = figure_of("tpot.p50", 3.5, 3.25);
	slow->figures[0].ratio = (struct ratio){true, 1.0625, 1.09375, 1.078125};
	slow->figures[0].least_seen = 0.015625;
	slow->figures[1] = figure_of("ttft.p99", 80, 80);
	slow->figure_count = 2;
	slow->elapsed_ns = 12034567890;
	snprintf(fresh->name, sizeof(fresh->name), "fresh");
	fresh->status = GATE_NEW;
	fresh->figures[0] = (struct gate_figure){.name = "cpu_ms", .value = 12.34567};
	fresh->figures[1] = (struct gate_figure){.name = "bytes_written", .value = 1234567};
	fresh->figure_count = 2;
	fresh->elapsed_ns = 7000000;
	snprintf(real->name, sizeof(real->name), "real");
	real->is_simulation = true;
	real->figures[0] = figure_of("ttft.p50", 110, 100);
	real->figures[0].has_spread = true;
	real->figures[0].spread = 0.00125;
	real->figures[1] = figure_of("ttft.p99", 75, 100);
	real->figures[1].is_broken = true;
	real->figures[2] = figure_of("preemptions", 2, 0);
	real->figure_count = 3;
	snprintf(verdicts[3].name, sizeof(verdicts[3].name), "other");
	verdicts[3].is_simulation = true;
	verdicts[3].figures[0] = figure_of("ttft.p99", 50, 40);
	verdicts[3].figure_count = 1;
	gate = (struct gate){.verdicts = verdicts, .count = 4, .elapsed_ns = 65987654321};
	snprintf(gate.suite.path, sizeof(gate.suite.path), "s.json");
	gate.counts[GATE_REGRESSED] = 1;
	gate.counts[GATE_PASS] = 2;
	gate.counts[GATE_NEW] = 1;
}

static void tear_down(void)
{
	for (uint32_t i = 0; i < 4; i++) {
		verdict_close(&verdicts[i]);
	}
}

TestSuite(gate_print, .init = set_up, .fini = tear_down);

static void require_printed(void (*print)(const struct gate *gate, FILE *out), const char *expected)
{
	char *bytes = NULL;
	size_t count = 0;
	FILE *out = open_memstream(&bytes, &count);

	print(&gate, out);
	fclose(out);
	require(strcmp(bytes, expected) == 0, "found\n%s\nexpected\n%s", bytes, expected);
	free(bytes);
}

#define SLOW_FIGURE                                                                                \
	"tpot.p50 3.50\u00a0ms: +7.81 % (99 % interval +6.25 to +9.38 %); a change of +1.56 % "    \
	"would have been flagged"
#define ERRORS                                                                                     \
	"| error, % | ttft p50, p99 | preemptions |\n|---|---|---|\n"                              \
	"| real | +10.00, **-25.00** | 2 for 0 |\n"                                                \
	"| real, its runs apart | 0.12, - | - |\n| other | -, +25.00 | - |\n\n"

Test(gate_print, text_is_for_people)
{
	require_printed(gate_print_text, "slow                     REGRESSED\n"
					 "    a | b < 5 %\n"
					 "    then \"c\" & d\n"
					 "    " SLOW_FIGURE "\n"
					 "fresh                    NEW\n"
					 "    cpu_ms 12.346\n"
					 "    bytes_written 1234567\n"
					 "real                     PASS\n"
					 "other                    PASS\n"
					 "\n" ERRORS "2 PASS, 1 NEW, 1 REGRESSED; 65.9 s\n");
}

Test(gate_print, markdown_escapes_what_ends_a_cell)
{
	require_printed(gate_print_markdown,
		"### quire gate: 2 PASS, 1 NEW, 1 REGRESSED\n\n"
		"| case | verdict | found |\n|---|---|---|\n"
		"| slow | **REGRESSED** | a \\| b &lt; 5 %<br>then \"c\" & d<br>" SLOW_FIGURE " |\n"
		"| fresh | NEW | cpu_ms 12.346<br>bytes_written 1234567 |\n"
		"| real | PASS |  |\n| other | PASS |  |\n\n" ERRORS);
}

Test(gate_print, junit_has_times_and_failures)
{
	require_printed(gate_print_junit,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"quire gate\" tests=\"4\" failures=\"1\">\n"
		"  <testcase name=\"slow\" time=\"12.034\">\n"
		"    <failure message=\"REGRESSED\">a | b &lt; 5 %; then &quot;c&quot; &amp; "
		"d; " SLOW_FIGURE "</failure>\n  </testcase>\n"
		"  <testcase name=\"fresh\" time=\"0.007\">\n"
		"    <system-out>NEW: cpu_ms 12.346; bytes_written 1234567</system-out>\n"
		"  </testcase>\n"
		"  <testcase name=\"real\" time=\"0.000\"/>\n"
		"  <testcase name=\"other\" time=\"0.000\"/>\n</testsuite>\n");
}

/* Of other settings the figures of both sides are shown, wherever findings are. */
Test(gate_print, figures_of_other_settings_are_shown_unjudged)
{
#define FINDING "seed is 2"
#define TIME "ttft.p99 40.0\u00a0ms to 50.0\u00a0ms (+25.0\u00a0%), not judged"
#define COST "peak_memory 3000000 to 4500000 (+50.0\u00a0%), not judged"
	gate.verdicts = &verdicts[3];
	gate.count = 1;
	memset(gate.counts, 0, sizeof(gate.counts));
	gate.counts[GATE_INVALID] = 1;
	verdicts[3].is_simulation = false;
	verdicts[3].figures[1] = figure_of("peak_memory", 4500000, 3000000);
	verdicts[3].figures[2] = (struct gate_figure){
		.name = "preemptions", .metric = metric_find("preemptions"), .value = 7};
	verdicts[3].figure_count = 3;
	text_add(verdict_add(&verdicts[3], GATE_INVALID), FINDING);
	require_printed(gate_print_text,
		"other                    INVALID\n    " FINDING "\n    " TIME "\n    " COST
		"\n    preemptions 7, not judged\n\n1 INVALID; 65.9 s\n");
	require_printed(gate_print_markdown,
		"### quire gate: 1 INVALID\n\n| case | verdict | found |\n|---|---|---|\n"
		"| other | **INVALID** | " FINDING "<br>" TIME "<br>" COST
		"<br>preemptions 7, not judged |\n\n");
	require_printed(gate_print_junit,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"quire gate\" tests=\"1\" failures=\"1\">\n"
		"  <testcase name=\"other\" time=\"0.000\">\n    <failure "
		"message=\"INVALID\">" FINDING "; " TIME "; " COST
		"; preemptions 7, not judged</failure>\n"
		"  </testcase>\n</testsuite>\n");
}

Test(gate_print, annotations_are_of_cases_that_did_not_pass)
{
	require_printed(gate_print_annotations,
		"::error title=quire gate: slow REGRESSED::a | b < 5 %25; then \"c\" & d\n"
		"::notice title=quire gate: fresh NEW::\n");
}

Test(gate_print, json_has_every_figure)
{
	char *bytes = NULL;
	size_t count = 0;
	FILE *out = open_memstream(&bytes, &count);

	gate_print_json(&gate, out);
	fclose(out);
	cJSON *root = cJSON_Parse(bytes);
	cJSON *expected = cJSON_Parse(
		"{\"slow\":{\"tpot.p50\":{\"value\":3.5,\"base\":3.25,\"change\":0.078125,"
		"\"change_low\":0.0625,\"change_high\":0.09375,\"least_seen\":0.015625},"
		"\"ttft.p99\":{\"value\":80,\"base\":80}},"
		"\"fresh\":{\"cpu_ms\":{\"value\":12.34567},\"bytes_written\":{\"value\":1234567}},"
		"\"real\":{\"ttft.p50\":{\"value\":110,\"base\":100},"
		"\"ttft.p99\":{\"value\":75,\"base\":100},"
		"\"preemptions\":{\"value\":2,\"base\":0}},"
		"\"other\":{\"ttft.p99\":{\"value\":50,\"base\":40}}}");
	require(root != NULL && expected != NULL, "no JSON: %s", bytes);
	cr_assert_str_eq(cJSON_GetObjectItem(root, "suite")->valuestring, "s.json");
	const cJSON *one;
	cJSON_ArrayForEach(one, cJSON_GetObjectItem(root, "cases"))
	{
		const char *name = cJSON_GetObjectItem(one, "case")->valuestring;
		require(cJSON_Compare(cJSON_GetObjectItem(one, "figures"),
				cJSON_GetObjectItem(expected, name), true),
			"the figures of %s differ: %s", name, bytes);
		cJSON_DeleteItemFromObject(expected, name);
	}
	require(expected->child == NULL, "cases are missing: %s", bytes);
	cJSON_Delete(expected);
	cJSON_Delete(root);
	free(bytes);
}
