#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reports/figures/figures.h"
#include "reports/page/page_elements.h"
#include "tests/harness/files.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

Test(page, a_page_of_one_result)
{
	char folder[TEMPORARY_PATH_BYTES], wanted[128];
	uint32_t views = 0;

	temporary_folder(folder);
	char *page = make_page_of(folder, &made_ordinary);
	require(strncmp(page, "<!DOCTYPE html>", 15) == 0, "no doctype");
	require_has(page, "<title>run \u2013 replay report</title>");
	require_has(page, "<section class=\"verdict backlogged\"");
	require_has(page, ">uncalibrated<");
	require_has(page, "<dt>Output throughput</dt><dd>3,983<small>");
	require_has(page, "<span>12.5\u00a0ms<small>median</small></span>"
			  "<span>2.24\u00a0s<small>p99</small></span>");
	require_has(page, "<em>3 rejected</em>");
	require_has(page, "3 requests (0.02\u00a0%) exceed max_model_len and were rejected; "
			  "--max-model-len 126527 takes all.");
	require_has(page, "<td>6.06\u00a0%</td>");
	require_has(page, "<th scope=\"row\">kv_blocks</th><td>4500</td>");
	require_has(page, "<td>quire replay chat.jsonl</td>");
	require_has(page, "<td>3,100,000</td>");
	require_lacks(page, "class=\"banner\"");
	require_lacks(page, "Goodput");
	for (uint32_t i = 0; i < figure_count; i++) {
		if (figures[i].need == FIGURE_OF_FLEETS) {
			continue; /* it is none */
		}
		snprintf(wanted, sizeof(wanted), "<figure id=\"figure-%s\">", figures[i].name);
		require_has(page, wanted);
		views += 1 + figures[i].has_linear;
	}
	require_equal(occurrences(page, "<svg "), views);
	require_equal(occurrences(page, "</svg>"), views);
	require_equal(occurrences(page, "-data\"></desc>"), 0); /* each says what it shows */
	require(occurrences(page, "var(--run-1)") >= figure_count - 1,
		"figures lack the page's color");
	require_lacks(page, "rgb(  0, 114, 178)");
	require_lacks(page, "black");
	require_sound_ids(page);
	require_self_contained(page);
	free(page);
	temporary_remove(folder);
}

Test(page, a_limit_on_the_last_token_is_an_slo)
{
	struct made_result made = made_ordinary;
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	made.slo_e2e_ms = 2000;
	made.verdict = "stable";
	char *page = make_page_of(folder, &made);
	require_has(page, "<dt>Requests within the SLO</dt>");
	require_has(page, "E2E \u2264 2.00\u00a0s; goodput 20.0 requests/s");
	require_has(page, "p99 above the SLO of 2.00\u00a0s");
	require_has(page, "within the SLO of 2 s");
	require_has(page, "The engine kept up with the requests that it took.");
	free(page);
	temporary_remove(folder);
}

Test(page, several_gpus_are_counted)
{
	struct made_result made = made_ordinary;

	for (made.ranks = 0; made.ranks <= 2; made.ranks++) {
		char folder[TEMPORARY_PATH_BYTES];
		temporary_folder(folder);
		char *page = make_page_of(folder, &made);
		require_has(page, made.ranks == 2 ? "on <strong>2 \u00d7 h200</strong>"
						  : "on <strong>h200</strong>");
		free(page);
		temporary_remove(folder);
	}
}

Test(page, several_results_are_compared_with_the_first)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct made_result first = made_ordinary, other = made_ordinary;

	temporary_folder(folder);
	first.ranks = 1; /* which the other does not say, and so does not differ in */
	other.kv_blocks = 9000;
	other.is_calibrated = true;
	other.verdict = "stable";
	make_result(folder, "before", &first, path[0]);
	make_result(folder, "after", &other, path[1]);
	const char *directories[] = {path[0], path[1]};
	char *page = make_page(folder, directories, 2, "page.html");

	require_has(page, "<h1>2 replays compared</h1>");
	require_has(page, "<span class=\"name run-1\">kv-blocks 4500</span>: folder before");
	require_has(page, "<span class=\"name run-2\">kv-blocks 9000</span>: folder after");
	require_has(page, "<span class=\"chip backlogged\"");
	require_has(page, "<span class=\"chip stable\"");
	/* Preemptions of the fixture are its KV blocks. */
	require_has(page, "<td>9,000 <span class=\"difference worse\">+100\u00a0%</span></td>");
	require_has(page, "<tr class=\"differs\"><th scope=\"row\">kv_blocks</th>");
	require_has(page, "<tr><th scope=\"row\">gpu</th>");
	require_lacks(page, "different traces");
	require_has(page, "var(--run-2)");
	require_sound_ids(page);
	require_self_contained(page);
	free(page);
	temporary_remove(folder);
}

/* One or two settings name a run; where that is not enough, its folder does. */
Test(page, runs_are_named_by_what_differs)
{
	char folder[TEMPORARY_PATH_BYTES], path[3][TEMPORARY_PATH_BYTES];
	struct made_result made[3] = {made_ordinary, made_ordinary, made_ordinary};

	temporary_folder(folder);
	made[1].seed = 7;
	made[2].seed = 7;
	made[2].kv_blocks = 9000;
	for (uint32_t i = 0; i < 3; i++) {
		make_result(folder, (const char *[]){"a", "b", "c"}[i], &made[i], path[i]);
	}
	const char *directories[] = {path[0], path[1], path[2]};
	char *page = make_page(folder, directories, 2, "page.html");
	require_has(page, "<span class=\"name run-2\">seed 7</span>: folder b");
	free(page);
	page = make_page(folder, directories, 3, "page.html");
	require_has(page, "<span class=\"name run-2\">kv-blocks 4500, seed 7</span>: folder b");
	free(page);
	directories[2] = path[1];
	page = make_page(folder, directories, 3, "page.html");
	require_has(page, "<span class=\"name run-3\">b (3)</span>: seed 7; folder b (3)");
	free(page);
	temporary_remove(folder);
}

/* Nothing of two traces is better or worse. */
Test(page, a_comparison_of_different_traces_says_so)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct made_result other = made_ordinary;

	temporary_folder(folder);
	other.trace_name = "code.jsonl";
	other.trace_hash = "11ff";
	make_result(folder, "a", &made_ordinary, path[0]);
	make_result(folder, "b", &other, path[1]);
	const char *directories[] = {path[0], path[1]};
	char *page = make_page(folder, directories, 2, "page.html");
	require_has(page, "<strong>different traces</strong>");
	require_has(page, "<main class=\"neutral\">");
	require_has(page, "<span class=\"name run-2\">code.jsonl</span>");
	free(page);
	temporary_remove(folder);
}

Test(page, results_of_equal_names_are_distinguished)
{
	char folder[TEMPORARY_PATH_BYTES], inner[2][TEMPORARY_PATH_BYTES];
	char path[2][TEMPORARY_PATH_BYTES + 8];

	temporary_folder(folder);
	make_result(folder, "a", &made_ordinary, inner[0]);
	make_result(folder, "b", &made_ordinary, inner[1]);
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/../%c/", inner[i], "ab"[i]);
	}
	const char *names[] = {path[0], inner[0], inner[1], inner[1]};
	char *page = make_page(folder, names, 4, "page.html");
	require_has(page, ">../a</span>");
	require_has(page, ">b (3)</span>");
	require_has(page, ">b (4)</span>");
	free(page);
	temporary_remove(folder);
}

Test(page, a_run_that_broke_off_says_so)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct made_result failed = made_ordinary, stopped = made_ordinary;

	temporary_folder(folder);
	failed.status = "failed";
	stopped.status = "interrupted";
	make_result(folder, "failed", &failed, path[0]);
	make_result(folder, "stopped", &stopped, path[1]);
	const char *directories[] = {path[0], path[1]};
	char *page = make_page(folder, directories, 2, "page.html");
	require_equal(occurrences(page, "class=\"banner\""), 2);
	require_has(page, "device lost");
	require_has(
		page, "The run was stopped by hand; all figures describe the part before that.");
	require_has(page, "<strong>interrupted</strong>");
	free(page);
	temporary_remove(folder);
}

/* The levels of a ramp: a table, and their edges in the figures over time. */
Test(page, levels_are_a_table_and_marks)
{
	static const char levels[] =
		"\"levels\": [{\"rate_per_s\": 4, \"start_s\": 0, \"width_s\": 60, \"requests\": "
		"240, \"finished\": 239, \"ttft_p50_ms\": 25, \"ttft_p99_ms\": 250, "
		"\"tpot_p99_ms\": null, \"attained\": 0.75, \"waiting\": 1.5, \"utilisation\": "
		"0.4}, {\"rate_per_s\": 8, \"start_s\": 60, \"width_s\": 60, \"requests\": 0}],\n";
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char file[TEMPORARY_PATH_BYTES + 16];
	const char *directory = path;
	struct text changed = {0};

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	snprintf(file, sizeof(file), "%s/summary.json", path);
	char *summary = file_read(file, NULL);
	const char *end = strstr(summary, "\"result_hash\"");
	require(end != NULL, "the fixture has no result_hash");
	text_add_bytes(&changed, summary, (size_t)(end - summary));
	text_add(&changed, levels);
	text_add(&changed, end);
	made_write(path, "summary.json", &changed);
	free(summary);
	char *page = make_page(folder, &directory, 1, "page.html");
	require_has(page, "<a href=\"#levels\">Levels</a>");
	require_has(page, "<th scope=\"row\">4.00</th><td>0\u00a0ms</td><td>240</td><td>239</td>"
			  "<td>25.0\u00a0ms</td><td>250\u00a0ms</td><td>\u2013</td>"
			  "<td>75.0\u00a0%</td><td>1.50</td><td>40.0\u00a0%</td>");
	require_has(
		page, "<th scope=\"row\">8.00</th><td>60.0\u00a0s</td><td>0</td><td>\u2013</td>");
	require(occurrences(page, ">8/s<") > 4, "figures over time lack the levels");
	free(page);
	temporary_remove(folder);
}

/* "." and ".." say nothing, so such a folder has its own name. */
Test(page, a_folder_that_is_given_by_dots_has_its_name)
{
	static const char *const dots[] = {"..", "../", "../.", "../../b/."};
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	char inside[TEMPORARY_PATH_BYTES + 8];

	temporary_folder(folder);
	make_result(folder, "a", &made_ordinary, path[0]);
	make_result(folder, "b", &made_ordinary, path[1]);
	snprintf(inside, sizeof(inside), "%s/inside", path[1]);
	require(mkdir(inside, 0777) == 0 && chdir(inside) == 0, "%s: no folder", inside);
	for (uint32_t i = 0; i < sizeof(dots) / sizeof(dots[0]); i++) {
		const char *directories[] = {path[0], dots[i]};
		char *page = make_page(folder, directories, 2, "page.html");
		require_has(page, "<span class=\"name run-2\">b</span>");
		free(page);
	}
	require(chdir("/") == 0, "no root");
	temporary_remove(folder);
}

/* What all runs share stands once. Where one of them differs, which need not be the last, each has
   its own. */
Test(page, runs_that_share_a_line_have_it_once)
{
	char folder[TEMPORARY_PATH_BYTES], path[4][TEMPORARY_PATH_BYTES];
	const char *directories[3];
	struct made_result other = made_ordinary;

	temporary_folder(folder);
	other.trace_name = "code.jsonl";
	other.trace_hash = "11ff";
	for (uint32_t i = 0; i < 4; i++) {
		const char name[] = {(char)('a' + i), '\0'};
		make_result(folder, name, i == 3 ? &other : &made_ordinary, path[i]);
	}
	for (uint32_t odd = 0; odd <= 3; odd++) {
		for (uint32_t i = 0; i < 3; i++) {
			directories[i] = path[i == odd ? 3 : i];
		}
		char *page = make_page(folder, directories, 3, "page.html");
		require_equal(occurrences(page, "<p class=\"run\">"), odd == 3);
		free(page);
	}
	temporary_remove(folder);
}

/* ---- foreign text ---- */

Test(page, hostile_names_stay_text)
{
	static const char *const names[] = {"<img onerror=alert(1)>", "it's \"quoted\" & `id`",
		"$(id) {Symbol a}_b^c %s @x", "\xff\xfe broken \x01\x1b[31m\n utf-8"};
	char folder[TEMPORARY_PATH_BYTES], path[4][TEMPORARY_PATH_BYTES];
	const char *directories[4];
	struct made_result hostile = made_ordinary;

	temporary_folder(folder);
	hostile.trace_name = "</style><script>alert('x')</script>.jsonl";
	hostile.status = "failed";
	hostile.failure = "<script>alert(2)</script> & more";
	for (uint32_t i = 0; i < 4; i++) {
		make_result(folder, names[i], &hostile, path[i]);
		directories[i] = path[i];
	}
	char *page = make_page(folder, directories, 4, "page.html");
	require_has(page, "&lt;script&gt;alert(2)&lt;/script&gt; &amp; more</p>");
	require_lacks(page, "<script>alert");
	require_equal(occurrences(page, "<script"), 2); /* the data, and page.js */
	require_lacks(page, "<img");
	require_has(page, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
	require_has(page, ">&lt;img onerror=alert(1)&gt;</span>");
	require_has(page, ">it&#39;s &quot;quoted&quot; &amp; `id`</span>");
	require_has(page, "it's \"quoted\" &amp; `id`</text>"); /* the title of a heat map */
	require_has(page, "$(id) {Symbol a}_b^c %s @x</text>");
	require_has(page, ">\ufffd\ufffd broken \ufffd\ufffd[31m  utf-8</span>");
	for (const char *at = page; *at != '\0'; at++) {
		require((unsigned char)*at >= 0x20 || *at == '\n' || *at == '\t',
			"a control character in the page");
	}
	require_sound_ids(page);
	free(page);
	temporary_remove(folder);
}

/* gnuplot takes a file name that starts with < for a command and with ~ for a home. */
Test(page, a_folder_is_no_command)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char before[4096];
	const char *directories[] = {"< touch hacked;", "~", "-"};

	temporary_folder(folder);
	for (uint32_t i = 0; i < 3; i++) {
		make_result(folder, directories[i], &made_ordinary, path);
	}
	require(getcwd(before, sizeof(before)) != NULL && chdir(folder) == 0, "cannot go there");
	char *page = make_page(".", directories, 3, "page.html");
	require(access("hacked", F_OK) != 0, "a folder's name was run as a command");
	require_has(page, ">~</span>");
	free(page);
	require(chdir(before) == 0, "cannot go back");
	temporary_remove(folder);
}

Test(page, invalid_utf8_is_replaced)
{
	static const char *const cases[][2] = {
		{"a\x80z", "a\ufffdz"},
		{"\xc0\xaf", "\ufffd\ufffd"},			  /* overlong */
		{"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},		  /* overlong */
		{"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},		  /* a surrogate */
		{"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"}, /* behind U+10FFFF */
		{"\xe2\x82", "\ufffd\ufffd"},			  /* cut */
		{"\u20ac \xf0\x9f\x98\x80 <&>", "\u20ac \xf0\x9f\x98\x80 &lt;&amp;&gt;"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_escaped(&text, cases[i][0]);
		require(strcmp(text.bytes, cases[i][1]) == 0, "case %u: found %s", i, text.bytes);
	}
	text_deinit(&text);
}

/* ---- numbers ---- */

Test(page, numbers_are_written_for_people)
{
	static const struct {
		enum number_format format;
		double value;
		const char *text;
	} cases[] = {
		{NUMBER_COUNT, 0, "0"},
		{NUMBER_COUNT, 999, "999"},
		{NUMBER_COUNT, 12031, "12,031"},
		{NUMBER_COUNT, 144409080, "144,409,080"},
		{NUMBER_RATE, 3983.25, "3,983"},
		{NUMBER_RATE, 99.97, "100"},
		{NUMBER_RATE, 40.02, "40.0"},
		{NUMBER_RATE, 3.3967, "3.40"},
		{NUMBER_RATE, 0.000283, "0.000283"},
		{NUMBER_RATE, 1e-12, "0.000000"},
		{NUMBER_SHARE, 0.0606, "6.06\u00a0%"},
		{NUMBER_SHARE, 0.9321, "93.2\u00a0%"},
		{NUMBER_SHARE, 1, "100.0\u00a0%"},
		{NUMBER_TIME_MS, 0, "0\u00a0ms"},
		{NUMBER_TIME_MS, 0.25, "250\u00a0\u00b5s"},
		{NUMBER_TIME_MS, 855.4, "855\u00a0ms"},
		{NUMBER_TIME_MS, 999.6, "1.00\u00a0s"},
		{NUMBER_TIME_S, 3537, "3,537\u00a0s"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_number(&text, cases[i].format, true, cases[i].value);
		require(strcmp(text.bytes, cases[i].text) == 0, "found %s, expected %s", text.bytes,
			cases[i].text);
	}
	text_deinit(&text);
}

Test(page, differences_are_written_for_people)
{
	static const struct {
		enum number_format format;
		double base, value;
		const char *text;
	} cases[] = {
		{NUMBER_RATE, 100, 103.2, "+3.20\u00a0%"},
		{NUMBER_RATE, 100, 50, "\u221250.0\u00a0%"},
		{NUMBER_RATE, 100, 100, "="},
		{NUMBER_RATE, 100, 100.001, "\u2248"},
		{NUMBER_RATE, 100, 123000, "\u00d71,230"},
		{NUMBER_COUNT, 0, 5, "from 0"},
		{NUMBER_SHARE, 0.06, 0.072, "+1.20\u00a0pt"},
		{NUMBER_SHARE, 0, 0.5, "+50.0\u00a0pt"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_difference(&text, cases[i].format, &cases[i].base, &cases[i].value);
		require(strcmp(text.bytes, cases[i].text) == 0, "found %s, expected %s", text.bytes,
			cases[i].text);
	}
	text_deinit(&text);
}
