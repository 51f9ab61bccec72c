#include "tests/fuzz/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gate/suite.h"
#include "engine/base/memory.h"
#include "reports/page/page.h"
#include "reports/report_files.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"

/* What commands of many runs write, and `quire report` and `quire gate` read. */
static const char *const names[] = {"plan/" PLAN_SUMMARY, "plan/" PLAN_PROBES,
	"sweep/" SWEEP_SUMMARY, "sweep/" SWEEP_RUNS, "sweep/" SWEEP_CACHE, "history.jsonl",
	"suite.json", NULL};

/* A page without figures: gnuplot would take seconds. Tables, captions and variables of the figures
   are made by report(), for which no gnuplot is found. */
static const struct page_sheet sheet = {.style = "", .script = ""};

static bool end_page(struct text *page, enum status status, const struct error *error)
{
	require_refused_in_one_line(status, error);
	require(page->bytes == NULL || occurrences(page->bytes, "<script") <= 2, "a script");
	text_deinit(page);
	return status == STATUS_OK;
}

enum report_kind { REPORT_PLAN, REPORT_SWEEP, REPORT_HISTORY };

/* Refused for want of gnuplot, if not before. */
static void report(enum report_kind kind, const char *path)
{
	const struct json_object none = {.node = NULL};
	const char *found = getenv("PATH");
	char *kept = found == NULL ? NULL : memory_take_uncleared(strlen(found) + 1);
	struct text page = {0};
	struct error error = {0};

	if (kept != NULL) {
		strcpy(kept, found);
	}
	setenv("PATH", "/nowhere", 1);
	enum status status = kind == REPORT_PLAN    ? report_plan(path, &none, &page, &error)
			     : kind == REPORT_SWEEP ? report_sweep(path, &none, &page, &error)
						    : report_history(path, &page, &error);
	if (kept == NULL) {
		unsetenv("PATH");
	} else {
		setenv("PATH", kept, 1);
	}
	free(kept);
	require(status != STATUS_OK, "figures without gnuplot");
	end_page(&page, status, &error);
}

static bool read_plan(const char *folder)
{
	struct plan_file plan;
	struct text page = {0};
	struct error error = {0};
	enum status status = plan_file_open(&plan, folder, &error);

	if (status == STATUS_OK) {
		report(REPORT_PLAN, folder);
		status = page_plan_write(&page, &plan, &sheet, &error);
	}
	plan_file_close(&plan);
	return end_page(&page, status, &error);
}

static bool read_sweep(const char *folder)
{
	struct sweep_file sweep;
	struct text page = {0};
	struct error error = {0};
	enum status status = sweep_file_open(&sweep, folder, &error);

	if (status == STATUS_OK) {
		report(REPORT_SWEEP, folder);
		status = page_sweep_write(&page, &sweep, &sheet, &error);
	}
	sweep_file_close(&sweep);
	return end_page(&page, status, &error);
}

static bool read_history(const char *path)
{
	struct history_file history;
	struct text page = {0};
	struct error error = {0};
	enum status status = history_file_open(&history, path, &error);

	if (status == STATUS_OK && history.count > 0) {
		report(REPORT_HISTORY, path);
		status = page_history_write(&page, &history, path, &sheet, &error);
	}
	history_file_close(&history);
	return end_page(&page, status, &error);
}

static bool read_suite(const char *path)
{
	struct suite suite;
	struct error error = {0};
	enum status status = suite_open(&suite, path, &error);

	require_refused_in_one_line(status, &error);
	suite_close(&suite);
	return status == STATUS_OK;
}

bool fuzz_plan(const uint8_t *bytes, size_t byte_count)
{
	char folder[TEMPORARY_PATH_BYTES], path[SECTIONS_PATH_BYTES];
	bool is_accepted = false;

	sections_unpack(bytes, byte_count, names, folder);
	sections_path(path, folder, "plan");
	is_accepted |= read_plan(path);
	sections_path(path, folder, "sweep");
	is_accepted |= read_sweep(path);
	sections_path(path, folder, "history.jsonl");
	is_accepted |= read_history(path);
	sections_path(path, folder, "suite.json");
	is_accepted |= read_suite(path);
	sections_remove(folder);
	return is_accepted;
}
