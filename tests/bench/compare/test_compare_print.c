#include "bench/compare/compare.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/results/metric.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* What `compare` prints of a comparison, whole, for reading and as JSON. */

static struct compared_value values[] = {
	{.name = "config.gpu", .a = "h200", .b = "a100", .is_config = true},
	{.name = "config.seed",
		.a_number = 1,
		.b_number = 1,
		.is_number = true,
		.is_equal = true,
		.is_config = true},
	{.name = "config.block_size", .a = "16", .b = "256", .is_config = true},
	{.name = "trace.name", .a = "t.jsonl", .b = "t.jsonl", .is_equal = true},
	{.name = "load.verdict", .a = "stable", .b = "backlogged"},
	{.name = "time.steps", .a_number = 400, .b_number = 300, .is_number = true},
	{.name = "time.makespan_s", .a_number = 1.23456789, .b_number = 1.5, .is_number = true},
	{.name = "preemptions", .a_number = 0, .b_number = 7, .is_number = true},
	{.name = "tokens.output",
		.a_number = 123456789012,
		.b_number = 123456789012,
		.is_number = true,
		.is_equal = true},
};

enum { VALUES = sizeof(values) / sizeof(values[0]) };

static const struct comparison different = {.a = "one",
	.b = "two",
	.values = values,
	.value_count = VALUES,
	.has_steps = true,
	.steps = {.step_count = 12,
		.decision =
			{.is_there = true, .step = 9, .column = "decode_rows", .a = "1", .b = "0"},
		.other = {.is_there = true,
			.step = 3,
			.column = "elapsed_ns",
			.a = "50",
			.b = "60"}}};

static char *printed(const struct comparison *comparison, bool is_json)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	(is_json ? comparison_print_json : comparison_print)(comparison, file);
	fclose(file);
	return text;
}

static void require_text(char *found, const char *expected)
{
	require(strcmp(found, expected) == 0, "found\n%s\nexpected\n%s", found, expected);
	free(found);
}

Test(compare_print, a_difference_is_told_in_full)
{
	require_text(printed(&different, false),
		"A  one\nB  two\n\n"
		"decisions DIFFER: the result hashes differ\n"
		"  first decision to differ: step 9, decode_rows is 1 in A and 0 in B\n"
		"  first time or other column to differ: step 3, elapsed_ns is 50 in A and 60 in "
		"B\n"
		"\nconfiguration: 2 of 3 values differ\n"
		"  gpu                                            h200             a100\n"
		"  block_size                                       16              256\n"
		"\n  summary                                           A                B        "
		"  B - A   relative\n"
		"  trace.name                                  t.jsonl          t.jsonl"
		"               \n"
		"  load.verdict                                 stable       backlogged"
		"        differs\n"
		"  time.steps                                      400              300"
		"           -100    -25.00%\n"
		"  time.makespan_s                             1.23457              1.5"
		"      +0.265432    +21.50%  worse\n"
		"  preemptions                                       0                7"
		"             +7          -  worse\n"
		"  tokens.output                          123456789012     123456789012\n");
}

Test(compare_print, the_same_is_told_as_json)
{
	struct comparison two = different;

	two.values = values + 4;
	two.value_count = 2;
	two.steps.other.is_there = false;
	two.steps.b_is_longer = true;
	require_text(printed(&two, true),
		"{\n\t\"a\":\t\"one\",\n\t\"b\":\t\"two\",\n\t\"same_decisions\":\tfalse,\n"
		"\t\"same_result_hash\":\tfalse,\n\t\"same_values\":\tfalse,\n"
		"\t\"steps\":\t{\n\t\t\"compared\":\t12,\n\t\t\"a_is_longer\":\tfalse,\n"
		"\t\t\"b_is_longer\":\ttrue,\n"
		"\t\t\"first_decision\":\t{\n\t\t\t\"step\":\t9,\n"
		"\t\t\t\"column\":\t\"decode_rows\",\n\t\t\t\"a\":\t\"1\",\n"
		"\t\t\t\"b\":\t\"0\"\n\t\t},\n\t\t\"first_other\":\tnull\n\t},\n"
		"\t\"config\":\t[],\n"
		"\t\"values\":\t[{\n\t\t\t\"name\":\t\"load.verdict\",\n"
		"\t\t\t\"a\":\t\"stable\",\n\t\t\t\"b\":\t\"backlogged\",\n"
		"\t\t\t\"equal\":\tfalse\n\t\t}, {\n\t\t\t\"name\":\t\"time.steps\",\n"
		"\t\t\t\"a\":\t400,\n\t\t\t\"b\":\t300,\n\t\t\t\"equal\":\tfalse,\n"
		"\t\t\t\"difference\":\t-100,\n\t\t\t\"relative\":\t-0.25\n\t\t}]\n}\n");
	two.has_steps = false;
	two.has_same_decisions = two.has_same_hash = two.has_same_values = true;
	two.values = values + 1;
	two.value_count = 1;
	require_text(printed(&two, true),
		"{\n\t\"a\":\t\"one\",\n\t\"b\":\t\"two\",\n\t\"same_decisions\":\ttrue,\n"
		"\t\"same_result_hash\":\ttrue,\n\t\"same_values\":\ttrue,\n\t\"steps\":\tnull,\n"
		"\t\"config\":\t[{\n\t\t\t\"name\":\t\"config.seed\",\n\t\t\t\"a\":\t1,\n"
		"\t\t\t\"b\":\t1,\n\t\t\t\"equal\":\ttrue,\n\t\t\t\"difference\":\t0,\n"
		"\t\t\t\"relative\":\t0\n\t\t}],\n\t\"values\":\t[]\n}\n");
}

/* The lines on decisions of comparisons that end otherwise. */
static void require_line(const struct comparison *comparison, const char *line, bool is_there)
{
	char *text = printed(comparison, false);

	require((strstr(text, line) != NULL) == is_there, "%s\nin\n%s", line, text);
	free(text);
}

/* By the table of metrics: more throughput is better, more time is worse, steps are neither. */
Test(compare_print, what_is_better_is_told)
{
	static struct compared_value rates[] = {
		{.name = "throughput.requests_per_s",
			.a_number = 4,
			.b_number = 5,
			.is_number = true},
		{.name = "latency_ms.ttft.p99", .a_number = 5, .b_number = 4, .is_number = true},
		{.name = "latency_ms.ttft.p95", .a_number = 4, .b_number = 5, .is_number = true},
		{.name = "time.steps", .a_number = 4, .b_number = 5, .is_number = true},
	};
	static const char *const words[] = {"better", "better", "worse", NULL};

	for (uint32_t i = 0; i < 4; i++) {
		struct comparison one = {.a = "a", .b = "b", .values = &rates[i], .value_count = 1};
		for (int is_json = 0; is_json < 2; is_json++) {
			char *text = printed(&one, is_json == 1);
			const char *better = strstr(text, "better"), *worse = strstr(text, "worse");
			bool is_better = words[i] != NULL && strcmp(words[i], "better") == 0;
			bool is_worse = words[i] != NULL && strcmp(words[i], "worse") == 0;
			require((better != NULL) == is_better && (worse != NULL) == is_worse,
				"%s\nin\n%s", rates[i].name, text);
			free(text);
		}
	}
}

Test(compare_print, equal_decisions_are_told_apart_by_what_was_compared)
{
	const char *times = "Both runs made the same decisions; only times and figures derived";
	struct comparison same = {.a = "one",
		.b = "two",
		.has_same_hash = true,
		.has_same_decisions = true,
		.has_same_values = true};

	require_line(&same, "decisions are equal: the result hashes agree\n", true);
	require_line(&same, "  steps not compared: not both folders have a steps.tsv", true);
	require_line(&same, times, false);
	same.has_same_values = false;
	require_line(&same, times, true);
	same.has_steps = true;
	same.steps.step_count = 40;
	require_line(&same, "  all 40 steps have equal decisions\n", true);
	same.steps.a_is_longer = true;
	require_line(&same, "  40 steps have equal decisions, then only A has more steps\n", true);
	same.steps.a_is_longer = false;
	same.steps.b_is_longer = true;
	require_line(&same, "  40 steps have equal decisions, then only B has more steps\n", true);
	same.has_same_decisions = false;
	require_line(&same, "decisions DIFFER: the result hashes agree, the steps do not\n", true);
	require_line(&same, times, false);
}

/* ---- every metric, of drawn values ---- */

static double number_of(const cJSON *object, const char *field)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, field);

	require(cJSON_IsNumber(node), "no %s", field);
	return node->valuedouble;
}

/* Equal values are no change; of others the table of metrics says which is better. */
static void require_value(const cJSON *object, const struct metric *metric, double a, double b)
{
	const cJSON *relative = cJSON_GetObjectItemCaseSensitive(object, "relative");
	const char *change =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "change"));
	bool is_equal = fabs(a - b) <= 0, has_relative = is_equal || fabs(a) > 0;
	const char *expected = is_equal || metric->better == 0	 ? NULL
			       : (b > a) == (metric->better > 0) ? "better"
								 : "worse";

	require(number_of(object, "a") == a && number_of(object, "b") == b, "%s", metric->name);
	require_equal(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "equal")), is_equal);
	require(number_of(object, "difference") == b - a, "the difference of %s", metric->name);
	require(has_relative ? cJSON_IsNumber(relative) : cJSON_IsNull(relative), "%s of %g and %g",
		metric->name, a, b);
	require(!has_relative || is_equal || relative->valuedouble == b / a - 1, "%s is %g",
		metric->name, relative->valuedouble);
	require((change == NULL) == (expected == NULL) &&
			(change == NULL || strcmp(change, expected) == 0),
		"%s from %g to %g is %s", metric->name, a, b,
		change == NULL ? "no change" : change);
}

static void body_json(struct prop *prop, const void *context)
{
	static const double numbers[] = {0, 1, 2.5, 1000000};
	static struct compared_value drawn[METRIC_COUNT];

	(void)context;
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		const struct metric *metric = &metrics_table[i];
		double a = numbers[prop_below(prop, 4)], b = numbers[prop_below(prop, 4)];
		drawn[i] = (struct compared_value){.is_number = true,
			.is_equal = fabs(a - b) <= 0,
			.a_number = a,
			.b_number = b};
		snprintf(drawn[i].name, sizeof(drawn[i].name), "%s%s%s", metric->section,
			metric->section[0] == '\0' ? "" : ".", metric->field);
	}
	const struct comparison comparison = {
		.a = "one", .b = "two", .values = drawn, .value_count = METRIC_COUNT};
	char *text = printed(&comparison, true);
	cJSON *root = cJSON_Parse(text);
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "values");
	require_equal(cJSON_GetArraySize(list), METRIC_COUNT);
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		require_value(cJSON_GetArrayItem(list, (int)i), &metrics_table[i],
			drawn[i].a_number, drawn[i].b_number);
	}
	cJSON_Delete(root);
	free(text);
}

Test(compare_print, json_has_the_change_of_every_metric)
{
	const struct prop_options options = {
		.name = "changes as JSON", .body = body_json, .trials = 60};

	cr_assert(prop_holds(&options));
}
