#include "reports/results/metric.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* The table of metrics: every row is found by its name and by its path, and its value is read from
   where a summary has it. Limits are read as they were meant, or refused in one line. */

Test(metric, a_row_is_found_by_name_and_by_path)
{
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		const struct metric *metric = &metrics_table[i];
		char path[128];

		snprintf(path, sizeof(path), "%s%s%s", metric->section,
			metric->section[0] == '\0' ? "" : ".", metric->field);
		require(metric_find(metric->name) == metric, "%s is another metric", metric->name);
		require(metric_find(path) == metric, "%s is another metric", path);
		require(strchr(metric->name, ',') == NULL && strpbrk(metric->name, "<>=") == NULL,
			"%s cannot be written in a limit", metric->name);
		require(metric->unit[0] != '\0' && metric->title[0] != '\0', "%s", metric->name);
		require((strcmp(metric->unit, "share") == 0) == (metric->format == NUMBER_SHARE),
			"%s has unit %s", metric->name, metric->unit);
	}
}

Test(metric, names_that_users_know)
{
	static const struct {
		const char *name, *unit;
		int better;
	} known[] = {{"ttft.p99", "ms", -1}, {"tpot.p99_9", "ms", -1}, {"e2e.mean", "ms", -1},
		{"output_tokens_per_s", "tokens/s", 1}, {"goodput", "requests/s", 1},
		{"hit_rate", "share", 1}, {"preemptions", "count", -1}, {"attained", "share", 1},
		{"utilisation", "share", 0}, {"wait_blocks_s", "s", -1}};

	for (uint32_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct metric *metric = metric_find(known[i].name);
		require(metric != NULL, "%s is no metric", known[i].name);
		require(metric->better == known[i].better, "%s", known[i].name);
		require(strcmp(metric->unit, known[i].unit) == 0, "%s", known[i].name);
	}
	cr_assert_eq(metric_find("ttft.p99.9"), metric_of_latency(LATENCY_TTFT, STATISTIC_P99_9));
	cr_assert_eq(metric_find("latency_ms.itl.p99.9"),
		metric_of_latency(LATENCY_ITL, STATISTIC_P99_9));
	cr_assert_null(metric_find(""));
	cr_assert_null(metric_find("ttft"));
	cr_assert_null(metric_find("ttft.p"));
	cr_assert_null(metric_find("latency_ms"));
	cr_assert_null(metric_find("p99.9"));
	cr_assert_null(metric_find(".preemptions"));
}

Test(metric, every_name_is_in_the_readme)
{
	char *readme = file_read("reports/README.md", NULL);
	const char *section = strstr(readme, "## Metrics");

	require(section != NULL, "reports/README.md has no section on metrics");
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		char quoted[64];
		snprintf(quoted, sizeof(quoted), "`%s`", metrics_table[i].name);
		require(strstr(section, quoted) != NULL, "%s is not described", quoted);
	}
	free(readme);
}

static struct result_value value_in(const char *text, const char *name)
{
	struct json_document document = {0};
	struct json_object root;
	struct error error = {0};

	json_document_parse(&document, "summary.json", text, strlen(text), &error);
	json_root(&root, &document, &error);
	require(error.status == STATUS_OK, "%s", error.text);
	struct result_value value = metric_value(&root, metric_find(name));
	json_document_close(&document);
	return value;
}

Test(metric, a_value_is_read_where_it_stands)
{
	const char *text =
		"{\"preemptions\": 7, \"load\": {\"utilisation\": 0.25, \"kv_mean\": null},"
		" \"latency_ms\": {\"ttft\": {\"p99\": 12.5, \"p50\": null}}}";
	struct result_value value = value_in(text, "ttft.p99");

	cr_assert(value.has_value);
	cr_assert_float_eq(value.value, 12.5, 0);
	cr_assert_float_eq(value_in(text, "utilisation").value, 0.25, 0);
	cr_assert_float_eq(value_in(text, "preemptions").value, 7, 0);
	cr_assert_not(value_in(text, "ttft.p50").has_value);
	cr_assert_not(value_in(text, "kv_mean").has_value);
	cr_assert_not(value_in(text, "tpot.p50").has_value);
	cr_assert_not(value_in(text, "hit_rate").has_value);
}

static struct metric_limit limits[METRIC_LIMITS_MAX];

static uint32_t parse(const char *text, bool is_relative)
{
	struct error error = {0};
	uint32_t count = 0;

	metric_limits_parse("--slo", text, is_relative, limits, &count, &error);
	require(error.status == STATUS_OK, "%s: %s", text, error.text);
	return count;
}

Test(metric, limits_are_read)
{
	cr_assert_eq(parse("ttft.p99<=2000,hit_rate>=0.3", false), 2);
	cr_assert_eq(limits[0].metric, metric_find("ttft.p99"));
	cr_assert_eq(limits[0].kind, LIMIT_VALUE);
	cr_assert_not(limits[0].is_least);
	cr_assert_float_eq(limits[0].amount, 2000, 0);
	cr_assert(limits[1].is_least);
	cr_assert(metric_limit_holds(&limits[0], 0, 2000));
	cr_assert_not(metric_limit_holds(&limits[0], 0, 2000.001));
	cr_assert(metric_limit_holds(&limits[1], 0, 0.3));
	cr_assert_not(metric_limit_holds(&limits[1], 0, 0.29));

	cr_assert_eq(parse("tpot.p95<=+5%,output_tokens_per_s>=-2%,hit_rate>=-0.5pt", true), 3);
	cr_assert_eq(limits[0].kind, LIMIT_PERCENT);
	cr_assert_eq(limits[2].kind, LIMIT_POINTS);
	cr_assert(metric_limit_holds(&limits[0], 100, 104.9));
	cr_assert_not(metric_limit_holds(&limits[0], 100, 105.1));
	cr_assert(metric_limit_holds(&limits[1], 1000, 980.1));
	cr_assert_not(metric_limit_holds(&limits[1], 1000, 979.9));
	cr_assert(metric_limit_holds(&limits[2], 0.4, 0.3951));
	cr_assert_not(metric_limit_holds(&limits[2], 0.4, 0.3949));
}

Test(metric, blanks_around_limits_are_skipped)
{
	cr_assert_eq(parse(" ttft.p99<=2000, tpot.p95<=50 ,\thit_rate>=0.3\t ", false), 3);
	cr_assert_eq(limits[0].metric, metric_find("ttft.p99"));
	cr_assert_float_eq(limits[0].amount, 2000, 0);
	cr_assert_eq(limits[1].metric, metric_find("tpot.p95"));
	cr_assert_float_eq(limits[1].amount, 50, 0);
	cr_assert_eq(limits[2].metric, metric_find("hit_rate"));
}

Test(metric, what_is_no_limit_is_refused_in_a_line)
{
	static const char *const wrong[] = {"", "ttft.p99", "ttft.p99<2000",
		"ttft.p99<=", "ttft.p99=2000", "tftt.p99<=1", "<=5", "ttft.p99<=x", "ttft.p99<=1,",
		",", "ttft.p99<=0x10", "ttft.p99<=1e3", "ttft.p99<= 1", "ttft.p99 <=1", " ",
		"ttft.p99<=1, ", " ,", "ttft.p99<=+5", "ttft.p99<=5%", "ttft.p99<=+5pt",
		"hit_rate>=0.5pt", "ttft.p99<=%", "ttft.p99<=+", "ttft.p99<=+%", "ttft.p99<=-1"};

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct error error = {0};
		uint32_t count;
		metric_limits_parse("--slo", wrong[i], true, limits, &count, &error);
		require(error.status == STATUS_USAGE, "'%s' was taken", wrong[i]);
		require(strchr(error.text, '\n') == NULL, "%s", error.text);
	}
	struct error error = {0};
	uint32_t count;
	metric_limits_parse("--slo", "ttft.p99<=+5%", false, limits, &count, &error);
	cr_assert_eq(error.status, STATUS_USAGE);
}

/* A long one is cut. */
static void require_quoted(const char *start, const char *message)
{
	struct text text = {0}, expected = {0};
	struct error error = {0};
	uint32_t count;

	text_add(&text, start);
	for (uint32_t i = 0; i < 10; i++) {
		text_add(&text, "0123456789");
	}
	text_add(&text, "<=x,steps<=1");
	text_format(&expected, message, text.bytes);
	metric_limits_parse("--slo", text.bytes, false, limits, &count, &error);
	cr_assert_str_eq(error.text, expected.bytes);
	text_deinit(&text);
	text_deinit(&expected);
}

Test(metric, what_is_no_limit_is_quoted)
{
	require_quoted("",
		"--slo: found no metric '%.60s', expected one such as ttft.p99, tpot.p99, "
		"output_tokens_per_s or hit_rate (reports/README.md lists all)");
	require_quoted("ttft.p99<=",
		"--slo: found '%.80s', expected METRIC<=NUMBER or METRIC>=NUMBER, without a sign; "
		"ttft.p99 is in ms");
}

/* Who writes a unit behind a number is told the figure's own. */
Test(metric, a_wrong_limit_is_told_the_unit_of_its_figure)
{
	static const char *const cases[][2] = {{"ttft.p99<=2s", "; ttft.p99 is in ms"},
		{"makespan_s<=2min", "; makespan_s is in s"},
		{"output_tokens_per_s>=2k", "; output_tokens_per_s is in tokens/s"},
		{"hit_rate>=50%", "; hit_rate is a share of 1"},
		{"preemptions<=few", "; preemptions is a count"}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error error = {0};
		uint32_t count;
		metric_limits_parse("--slo", cases[i][0], false, limits, &count, &error);
		cr_assert_eq(error.status, STATUS_USAGE);
		cr_assert(strstr(error.text, cases[i][1]) != NULL, "%s", error.text);
	}
}

Test(metric, more_limits_than_fit_are_refused)
{
	struct text text = {0};
	struct error error = {0};
	uint32_t count;

	for (uint32_t i = 0; i < METRIC_LIMITS_MAX; i++) {
		text_add(&text, i == 0 ? "steps<=1" : ",steps<=1");
	}
	cr_assert_eq(parse(text.bytes, false), METRIC_LIMITS_MAX);
	text_add(&text, ",steps<=1");
	metric_limits_parse("--slo", text.bytes, false, limits, &count, &error);
	cr_assert_eq(error.status, STATUS_USAGE);
	text_deinit(&text);
}
