#include "bench/compare/compare_limits.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/commands/commands.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Limits on the figures of one result, relative to those of another. */

static struct metric_limit limit_of(const char *text)
{
	struct limit_list list = {.count = 0};
	struct error error = {0};

	require(limit_list_add(&list, "--gate", text, &error) == STATUS_OK, "%s", error.text);
	require_equal(list.count, 1);
	return list.limits[0];
}

static struct result_value known(double value)
{
	return (struct result_value){.has_value = true, .value = value};
}

/* A list has room for so many, whether they come at once or one by one. */
Test(compare_limits, a_list_is_filled_to_its_last_place)
{
	struct limit_list list = {.count = 0};
	struct error error = {0};

	for (uint32_t i = 0; i < METRIC_LIMITS_MAX; i++) {
		require(limit_list_add(&list, "--gate", "ttft.p99<=+5%", &error) == STATUS_OK, "%s",
			error.text);
		require_equal(list.count, i + 1);
	}
	require_equal(limit_list_add(&list, "--gate", "ttft.p99<=+5%", &error), STATUS_USAGE);
	require_equal(list.count, METRIC_LIMITS_MAX);
}

Test(compare_limits, a_figure_is_judged_by_its_limit)
{
	static const struct {
		const char *limit;
		double base, value;
		enum limit_outcome outcome;
		bool is_improved;
	} rows[] = {
		{"ttft.p99<=+5%", 100, 105, LIMIT_HOLDS, false},
		{"ttft.p99<=+5%", 100, 105.001, LIMIT_BROKEN, false},
		{"ttft.p99<=+5%", 100, 95.001, LIMIT_HOLDS, false},
		{"ttft.p99<=+5%", 100, 94.999, LIMIT_HOLDS, true},
		{"ttft.p99<=-10%", 100, 91, LIMIT_BROKEN, false},
		{"output_tokens_per_s>=-2%", 1000, 980, LIMIT_HOLDS, false},
		{"output_tokens_per_s>=-2%", 1000, 979.9, LIMIT_BROKEN, false},
		{"output_tokens_per_s>=-2%", 1000, 1020.1, LIMIT_HOLDS, true},
		{"hit_rate>=-0.5pt", 0.6, 0.5951, LIMIT_HOLDS, false},
		{"hit_rate>=-0.5pt", 0.6, 0.5949, LIMIT_BROKEN, false},
		{"ttft.p99<=2000", 1, 2000, LIMIT_HOLDS, false},
		{"ttft.p99<=2000", 1, 2001, LIMIT_BROKEN, false},
		{"preemptions<=+0%", 7, 7, LIMIT_HOLDS, false},
		{"preemptions<=+0%", 7, 8, LIMIT_BROKEN, false},
		{"preemptions<=+0%", 7, 6, LIMIT_HOLDS, true},
		{"preemptions<=+5%", 0, 1, LIMIT_BROKEN, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct metric_limit limit = limit_of(rows[i].limit);
		struct limit_finding finding =
			limit_judge_values(&limit, known(rows[i].base), known(rows[i].value));
		require(finding.outcome == rows[i].outcome &&
				finding.is_improved == rows[i].is_improved,
			"%s of %g and %g: outcome %d, improved %d", rows[i].limit, rows[i].base,
			rows[i].value, finding.outcome, finding.is_improved);
	}
}

Test(compare_limits, a_figure_that_is_gone_breaks_its_limit)
{
	struct metric_limit change = limit_of("hit_rate>=-0.5pt"), bound = limit_of("ttft.p99<=10");
	struct result_value none = {0};

	require_equal(limit_judge_values(&change, known(0.5), none).outcome, LIMIT_BROKEN);
	require_equal(limit_judge_values(&change, none, known(0.5)).outcome, LIMIT_UNKNOWN);
	require_equal(limit_judge_values(&change, none, none).outcome, LIMIT_UNKNOWN);
	require_equal(limit_judge_values(&bound, known(5), none).outcome, LIMIT_BROKEN);
	require_equal(limit_judge_values(&bound, none, none).outcome, LIMIT_UNKNOWN);
	require_equal(limit_judge_values(&bound, none, known(9)).outcome, LIMIT_HOLDS);
	require_equal(limit_judge_values(&bound, none, known(11)).outcome, LIMIT_BROKEN);
}

/* A limit that is written is read as the same limit. */
Test(compare_limits, a_limit_is_written_as_it_is_read)
{
	static const char *const texts[] = {"ttft.p99<=+5%", "output_tokens_per_s>=-2.5%",
		"hit_rate>=-0.5pt", "tpot.p95<=50", "preemptions<=+0%"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct metric_limit limit = limit_of(texts[i]);
		struct text text = {0};
		limit_add_expression(&text, &limit);
		cr_assert_str_eq(text.bytes, texts[i]);
		text_deinit(&text);
	}
}

static void require_bytes_error(const char *content, size_t count, const char *expected)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct limit_list list = {.count = 0};
	struct error error = {0};

	temporary_folder(folder);
	temporary_write(folder, "limits", "", path);
	FILE *file = fopen(path, "wb");
	require(file != NULL && fwrite(content, 1, count, file) == count, "%s", path);
	fclose(file);
	enum status status = limit_list_add_file(&list, path, &error);
	if (expected == NULL) {
		require(status == STATUS_OK, "%s", error.text);
	} else {
		require(status == STATUS_INPUT && strstr(error.text, expected) != NULL,
			"found '%s', expected '%s'", error.text, expected);
	}
	temporary_remove(folder);
}

static void require_file_error(const char *content, const char *expected)
{
	require_bytes_error(content, strlen(content), expected);
}

/* C would end the line at it, and the limits behind it would not be judged. */
Test(compare_limits, a_zero_byte_in_a_file_is_refused)
{
	static const char text[] = "hit_rate>=-1pt # ratio\nttft.p99<=+5%\n";

	for (size_t at = 0; at < sizeof(text) - 1; at++) {
		char content[sizeof(text)];
		memcpy(content, text, sizeof(text));
		content[at] = '\0';
		/* in place of the line feed it joins the lines */
		bool is_second = at > strcspn(text, "\n");
		require_bytes_error(content, sizeof(text) - 1,
			is_second ? "limits:2: found a zero byte, expected limits as text"
				  : "limits:1: found a zero byte, expected limits as text");
	}
}

Test(compare_limits, a_file_has_limits_and_remarks)
{
	require_file_error("# of the chat trace\n\n ttft.p99<=+5%, tpot.p99<=+5% # both\r\n"
			   "hit_rate>=-1pt",
		NULL);
	require_file_error("ttft.p99<=+5%\r\nhit_rate>=-1pt\r\n", NULL);
	require_file_error("\xef\xbb\xbfttft.p99<=+5%\n", NULL);
	require_file_error(
		"ttft.p99<=+5%\n\xef\xbb\xbfhit_rate>=-1pt\n", "limits:2: found no metric");
	require_file_error("ttft.p99<=+5%\nhits>=3\n", "limits:2: found no metric 'hits'");
	require_file_error("# nothing\n", "found no limit");
}

/* A longer line would be read in two pieces: the rest of a remark would be a limit. */
Test(compare_limits, a_line_of_a_file_has_an_end)
{
	enum { LINE_BYTES = 4094 };
	char content[2 * LINE_BYTES];

	for (uint32_t beyond = 0; beyond < 2; beyond++) {
		memset(content, '#', LINE_BYTES + beyond);
		strcpy(content + LINE_BYTES + beyond, "\nhit_rate>=-1pt\n");
		require_file_error(
			content, beyond == 0 ? NULL : "limits:1: a line of over 4094 bytes");
	}
}

#define SUMMARY(p99, trace) SUMMARY_OF("complete", p99, trace)
#define SUMMARY_OF(status, p99, trace)                                                             \
	"{\"schema\": \"quire-result-2\", \"status\": \"" status "\", \"config\": {},\n"           \
	" \"trace\": {\"name\": \"t.jsonl\", \"xxh64\": \"" trace "\", \"requests\": 10},\n"       \
	" \"latency_ms\": {\"ttft\": {\"p99\": " p99 "}}, \"result_hash\": \"aa\"}\n"

static int compared(
	const char *a_summary, const char *b_summary, const char *option, const char *value)
{
	char root[TEMPORARY_PATH_BYTES], a[TEMPORARY_PATH_BYTES + 2], b[TEMPORARY_PATH_BYTES + 2];
	char command[] = "compare";

	temporary_folder(root);
	snprintf(a, sizeof(a), "%s/a", root);
	snprintf(b, sizeof(b), "%s/b", root);
	require(mkdir(a, 0777) == 0 && mkdir(b, 0777) == 0, "mkdir");
	temporary_write(a, "summary.json", a_summary, NULL);
	temporary_write(b, "summary.json", b_summary, NULL);
	char *argv[] = {command, a, b, strdup(option), strdup(value), NULL};
	cr_redirect_stdout();
	int code = command_run(&command_compare, 5, argv);
	free(argv[3]);
	free(argv[4]);
	temporary_remove(root);
	return code;
}

Test(compare_limits, the_exit_code_is_the_verdict)
{
	const char *base = SUMMARY("100", "00");

	require_equal(compared(base, SUMMARY("104", "00"), "--gate", "ttft.p99<=+5%"), 0);
	require_equal(compared(base, SUMMARY("106", "00"), "--gate", "ttft.p99<=+5%"), 1);
	require_equal(compared(base, SUMMARY("null", "00"), "--gate", "ttft.p99<=+5%"), 1);
	require_equal(compared(base, SUMMARY("104", "01"), "--gate", "ttft.p99<=+5%"), 2);
	/* What only the new run has cannot be judged. */
	require_equal(compared(SUMMARY("null", "00"), base, "--gate", "ttft.p99<=+5%"), 2);
	require_equal(compared(SUMMARY("null", "00"), base, "--gate", "ttft.p99<=500"), 0);
	/* What neither has says nothing, and is no verdict where there is nothing else. */
	require_equal(
		compared(SUMMARY("null", "00"), SUMMARY("null", "00"), "--gate", "ttft.p99<=+5%"),
		2);
	require_equal(compared(base, base, "--gate", "hit_rate>=-1pt,goodput>=-1%"), 2);
	require_equal(compared(base, base, "--gate", "hit_rate>=-1pt,ttft.p99<=+5%"), 0);
	require_equal(compared(base, base, "--gate", "ttft.p98<=+5%"), 2);
	require_equal(compared(base, base, "--limits", "/nonexistent/limits"), 2);
}

/* Their figures are of fewer requests, which no limit may take for a better or worse run. */
Test(compare_limits, a_run_that_was_cut_short_is_not_judged)
{
	const char *whole = SUMMARY("100", "00"), *limit = "ttft.p99<=+5%";

	require_equal(compared(whole, SUMMARY_OF("interrupted", "90", "00"), "--gate", limit), 2);
	require_equal(compared(SUMMARY_OF("interrupted", "110", "00"), whole, "--gate", limit), 2);
	require_equal(compared(whole, SUMMARY_OF("failed", "90", "00"), "--gate", limit), 2);
}
