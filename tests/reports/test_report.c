#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/commands/commands.h"
#include "engine/base/status.h"
#include "engine/step_record.h"
#include "reports/report.h"
#include "reports/results/plan_file.h"
#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/made_result.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

Test(report, equal_files_give_equal_bytes)
{
	char folder[2][TEMPORARY_PATH_BYTES];
	char *page[2];

	for (uint32_t i = 0; i < 2; i++) {
		temporary_folder(folder[i]);
		page[i] = make_page_of(folder[i], &made_ordinary);
	}
	require(strcmp(page[0], page[1]) == 0, "two pages of equal folders differ");
	for (uint32_t i = 0; i < 2; i++) {
		free(page[i]);
		temporary_remove(folder[i]);
	}
}

/* reports/README.md explains each column of each table to those who read them by other means. */
Test(report, the_readme_names_every_column)
{
	static const char *const headers[] = {REQUEST_COLUMNS, TIMELINE_COLUMNS, STEP_GRID_COLUMNS,
		LATENCY_COLUMNS, LEVEL_COLUMNS, STEP_COLUMNS, KERNEL_COLUMNS, KERNEL_PHASE_COLUMNS,
		KERNEL_TIMELINE_COLUMNS, PROBE_COLUMNS};
	char *readme = file_read("reports/README.md", NULL);

	for (uint32_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		const char *names = strrchr(headers[i], '\n');
		for (const char *at = names == NULL ? headers[i] : names + 1; *at != '\0';) {
			char name[64];
			int bytes = (int)strcspn(at, "\t");
			snprintf(name, sizeof(name), "`%.*s`", bytes, at);
			require(strstr(readme, name) != NULL, "%s is not explained", name);
			at += (size_t)bytes + (at[bytes] == '\t');
		}
	}
	free(readme);
}

/* ---- refusals ---- */

/* A report of a folder that does not get made: the line, and nothing left behind. */
static void require_refusal(
	const char *folder, const char *directory, enum status expected, const char *line)
{
	struct error error = {0};
	char out[TEMPORARY_PATH_BYTES + 16];

	snprintf(out, sizeof(out), "%s/page.html", folder);
	enum status status = report_write(&directory, 1, out, NULL, &error);
	require_equal(status, expected);
	require(strstr(error.text, line) != NULL, "found \"%s\", expected \"%s\"", error.text,
		line);
	require(strchr(error.text, '\n') == NULL, "more than a line: %s", error.text);
	require(access(out, F_OK) != 0, "a page was written");
	require_no_parts(folder);
}

Test(report, a_missing_gnuplot_is_named)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	setenv("PATH", folder, 1);
	require_refusal(folder, path, STATUS_FILE, "install gnuplot");
	temporary_remove(folder);
}

Test(report, a_gnuplot_that_fails_is_quoted)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], tool[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	temporary_write(
		folder, "gnuplot", "#!/bin/sh\necho 'line 7: no such thing' >&2\nexit 1\n", tool);
	chmod(tool, 0755);
	setenv("PATH", folder, 1);
	require_refusal(folder, path, STATUS_FILE, "gnuplot failed: line 7: no such thing");
	temporary_write(folder, "gnuplot", "#!/bin/sh\nexit 1\n", tool);
	require_refusal(folder, path, STATUS_FILE, "gnuplot failed: no reason given");
	temporary_write(folder, "gnuplot", "#!/bin/sh\necho >&2\nexit 1\n", tool);
	require_refusal(folder, path, STATUS_FILE, "gnuplot failed: no reason given");
	temporary_write(folder, "gnuplot", "#!/bin/sh\nexit 0\n", tool);
	require_refusal(
		folder, path, STATUS_FILE, "gnuplot drew nothing; is its svg terminal there?");
	temporary_write(folder, "gnuplot", "#!/bin/sh\nprintf '<svg viewBox'\n", tool);
	require_refusal(folder, path, STATUS_FILE,
		"gnuplot drew no whole SVG: found 12 bytes without an end; is there room");
	temporary_remove(folder);
}

/* A slip of the fingers must not cost a table that took hours to make. */
Test(report, the_name_of_a_results_file_is_no_page)
{
	static const char *const names[] = {"plan.json", "plan.tsv", "sweep.json", "sweep.tsv",
		"summary.json", "provenance.json", "requests.tsv", "timeline.tsv", "step_grid.tsv",
		"latency.tsv", "steps.tsv", "levels.tsv", "kernels.tsv", "kernel_phases.tsv",
		"kernel_timeline.tsv"};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16];
	const char *directory = path;

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct error error = {0};
		struct stat before = {0}, after = {0};
		snprintf(out, sizeof(out), "%s/%s", path, names[i]);
		bool is_there = stat(out, &before) == 0;
		require(report_write(&directory, 1, out, NULL, &error) == STATUS_USAGE, "%s",
			names[i]);
		require(strstr(error.text, "the name of a file of a result") != NULL, "found %s",
			error.text);
		require((stat(out, &after) == 0) == is_there && after.st_ino == before.st_ino,
			"%s was written", names[i]);
	}
	/* A curve of a cache has that name too, and only a sweep's is a result. */
	struct error error = {0};
	snprintf(out, sizeof(out), "%s/cache.tsv", path);
	require(report_write(&directory, 1, out, NULL, &error) == STATUS_OK, "%s", error.text);
	temporary_write(path, "sweep.json", "{}", NULL);
	require(report_write(&directory, 1, out, NULL, &error) == STATUS_USAGE, "a sweep's");
	temporary_remove(folder);
}

/* Settings that equal the defaults are folded away, and counted. */
Test(report, settings_with_their_defaults_are_folded)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16];
	const char *directory = path;
	struct error error = {0};

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	snprintf(out, sizeof(out), "%s/page.html", folder);
	enum status status = report_write(&directory, 1, out,
		"{\"model\": \"qwen3-0.6b\", \"policy\": \"mixed\", \"kv_blocks\": null}", &error);
	require(status == STATUS_OK, "%s", error.text);
	char *page = file_read(out, NULL);
	require_has(page, "All settings, with 2 defaults");
	require_equal(occurrences(page, "<th scope=\"row\">policy</th>"), 1);
	require_equal(occurrences(page, "<th scope=\"row\">kv_blocks</th>"), 2);
	free(page);
	temporary_remove(folder);
}

/* Writes a summary in which `old` became `new`. */
static void change_summary(const char *path, const char *old, const char *new)
{
	struct text text = {0}, changed = {0};

	made_summary(&text, &made_ordinary);
	const char *at = strstr(text.bytes, old);
	require(at != NULL, "the fixture has no %s", old);
	text_add_bytes(&changed, text.bytes, (size_t)(at - text.bytes));
	text_add(&changed, new);
	text_add(&changed, at + strlen(old));
	made_write(path, "summary.json", &changed);
	text_deinit(&text);
}

Test(report, an_invalid_summary_is_refused)
{
	static const struct {
		const char *old, *new, *line;
	} cases[] = {
		{"\"quire-result-2\"", "\"quire-result-9\"",
			"field schema: found \"quire-result-9\", expected \"quire-result-2\""},
		{"\"status\": \"complete\"", "\"status\": \"fine\"",
			"field status: found \"fine\""},
		{"\"verdict\": \"backlogged\"", "\"verdict\": 1", "field load.verdict: found 1"},
		{"\"calibrated\": false", "\"calibrated\": null", "field calibrated: found null"},
		{"\"preemptions\"", "\"preemption\"", "field preemptions: found nothing"},
		{"\"hit_rate\": 0.0606", "\"hit_rate\": \"6 %\"",
			"field prefix_cache.hit_rate: found \"6 %\", expected a number or null"},
		{"\"finished\": 12028", "\"finished\": null",
			"field requests.finished: found null, expected a number"},
		{"\"finished\": 12028", "\"finished\": -2", "found -2, expected a number >= 0"},
		{"\"p99\": 2240", "\"p99\": []", "field latency_ms.queue.p99: found an array"},
		{"\"steps\": 4000", "\"steps\": 1e999", "summary.json"},
		{"\"config\": {", "\"config\": 5, \"other\": {", "field config: found 5"},
		{"}\n", "", "summary.json"},
	};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		change_summary(path, cases[i].old, cases[i].new);
		require_refusal(folder, path, STATUS_INPUT, cases[i].line);
	}
	temporary_remove(folder);
}

Test(report, a_broken_table_is_refused)
{
	static const struct {
		const char *name, *text, *line;
	} cases[] = {
		{"latency.tsv", "", "latency.tsv:1: found an empty file"},
		{"latency.tsv", "metric\tupper_ns\n", "latency.tsv:1: column count is missing"},
		{"latency.tsv", "upper_ns\tcount\n", "latency.tsv:1: column metric is missing"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\t5\tx7\n",
			"latency.tsv:2: column count: found 'x7', expected a number"},
		{"latency.tsv", "note\tcount\tmetric\tupper_ns\n-\t1\tttft\tx8\n",
			"latency.tsv:2: column upper_ns: found 'x8', expected a number"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\t5\t1\nttft\t7\n",
			"latency.tsv:3: found 2 columns, expected the header's 3"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\t-5\t1\n", "found '-5'"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\tnan\t1\n", "found 'nan'"},
		{"latency.tsv", "metric\tupper_ns\rcount\nttft\t5\t1\n",
			"latency.tsv:1: found a carriage return"},
		{"kernel_timeline.tsv", "operation\trank\n",
			"kernel_timeline.tsv:1: column time_s is missing"},
		{"kernel_phases.tsv", "phase\tsteps\n",
			"kernel_phases.tsv:1: column step_ns is missing"},
		{"levels.tsv", "rate_per_s\tstart_s\n", "levels.tsv:1: column width_s is missing"},
		{"timeline.tsv", "time_s\twidth_s\n", "timeline.tsv:1: column running is missing"},
	};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct text whole = {0};

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		made_latency(&whole, 3);
		made_write(path, "latency.tsv", &whole);
		temporary_write(path, cases[i].name, cases[i].text, NULL);
		require_refusal(folder, path, STATUS_INPUT, cases[i].line);
	}
	temporary_remove(folder);
}

Test(report, a_folder_without_a_result_is_refused)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char file[TEMPORARY_PATH_BYTES + 32];

	temporary_folder(folder);
	require_refusal(folder, folder, STATUS_FILE, "it has no summary.json");
	make_result(folder, "run", &made_ordinary, path);
	snprintf(file, sizeof(file), "%s/step_grid.tsv", path);
	require(unlink(file) == 0, "no %s", file);
	require_refusal(folder, path, STATUS_FILE, "step_grid.tsv: cannot be opened: No such file");
	temporary_remove(folder);
}

Test(report, an_older_page_survives_a_failure)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char name[250] = {0}, out[TEMPORARY_PATH_BYTES + sizeof(name)];
	struct error error = {0};
	const char *directory = folder;

	/* The page is made beside the old one, where a name cannot be longer than 255 bytes. */
	memset(name, 'p', sizeof(name) - 1);
	temporary_folder(folder);
	snprintf(out, sizeof(out), "%s/%s", folder, name);
	file_write(out, "old", 3);
	require_equal(report_write(&directory, 1, out, NULL, &error), STATUS_FILE);
	char *page = file_read(out, NULL);
	require(strcmp(page, "old") == 0, "the old page is gone");
	free(page);

	make_result(folder, "run", &made_ordinary, path);
	directory = path;
	error = (struct error){0};
	require_equal(report_write(&directory, 1, out, NULL, &error), STATUS_FILE);
	require(strstr(error.text, "File name too long") != NULL, "found: %s", error.text);
	page = file_read(out, NULL);
	require(strcmp(page, "old") == 0, "the old page is gone");
	free(page);
	temporary_remove(folder);
}

/* ---- the command ---- */

static int run_command(int argc, const char *const *argv)
{
	char *copy[16] = {0};

	for (int i = 0; i < argc; i++) {
		copy[i] = strdup(argv[i]);
	}
	int code = command_run(&command_report, argc, copy);
	for (int i = 0; i < argc; i++) {
		free(copy[i]);
	}
	return code;
}

/* A file that is named by mistake is kept. A page is replaced, whatever it is of. */
Test(report, only_a_page_is_replaced)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], out[TEMPORARY_PATH_BYTES];
	static const char plain[] = "report @/run --out @/page.html";

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	temporary_write(folder, "page.html", "<p>quire</p>\n", out);
	char *refused = quire_output(folder, 2, plain);
	require(strstr(refused, "is no page of quire report, which this would replace; --force "
				"does") != NULL,
		"%s", refused);
	char *kept = file_read(out, NULL);
	cr_assert_str_eq(kept, "<p>quire</p>\n");
	free(kept);
	free(refused);
	free(quire_output(folder, 0, "report @/run --out @/page.html --force"));
	free(quire_output(folder, 0, plain)); /* the page of before */
	temporary_write(folder, "page.html", "", NULL);
	free(quire_output(folder, 0, plain));
	temporary_remove(folder);
}

Test(report, the_command_checks_its_arguments)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16];

	temporary_folder(folder);
	make_result(folder, "run", &made_ordinary, path);
	snprintf(out, sizeof(out), "%s/page.html", folder);
	const char *nothing[] = {"report"};
	const char *no_out[] = {"report", path};
	const char *nine[] = {"report", "a", "b", "c", "d", "e", "f", "g", "h", "i", "--out", out};
	const char *good[] = {"report", path, "--out", out};
	const char *help[] = {"report", "--help"};

	require_equal(run_command(1, nothing), 2);
	require_equal(run_command(2, no_out), 2);
	require_equal(run_command(12, nine), 2);
	require(access(out, F_OK) != 0, "wrong use wrote a page");
	require_equal(run_command(4, good), 0);
	require(access(out, F_OK) == 0, "no page");
	require_equal(run_command(2, help), 0);
	temporary_remove(folder);
}
