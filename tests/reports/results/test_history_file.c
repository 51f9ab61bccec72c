#include "reports/results/history_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/made_history.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The history of a gate: its lines, the tracks and levels in them, and files that are none. */

#define LINE(cases) "{\"commit\": \"a\", \"date\": \"d\", \"cases\": {" cases "}}\n"
#define CASE(name, figures) "\"" name "\": {\"verdict\": \"PASS\", \"figures\": {" figures "}}"

static char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

static void make_folder(void)
{
	temporary_folder(folder);
}

static void remove_folder(void)
{
	temporary_remove(folder);
}

TestSuite(history_file, .init = make_folder, .fini = remove_folder);

static void open_history(struct history_file *history)
{
	struct error error = {0};

	history_file_open(history, path, &error);
	require(error.status == STATUS_OK, "%s", error.text);
}

static void open_text(struct history_file *history, const char *text)
{
	temporary_write(folder, "h.jsonl", text, path);
	open_history(history);
}

static const struct history_track *track_of(
	const struct history_file *history, const char *name, const char *figure)
{
	for (uint32_t i = 0; i < history->track_count; i++) {
		const struct history_track *track = &history->tracks[i];
		if (strcmp(track->name, name) == 0 && strcmp(track->figure, figure) == 0) {
			return track;
		}
	}
	require(false, "no track %s %s", name, figure);
	return NULL;
}

/* Every verdict that the gate has, and no other word. */
Test(history_file, every_verdict_of_the_gate_is_one)
{
	char text[256];

	for (int verdict = 0; verdict < GATE_STATUS_COUNT; verdict++) {
		struct history_file history;
		snprintf(text, sizeof(text),
			LINE("\"x\": {\"verdict\": \"%s\", \"figures\": {\"ttft.p99\": 1}}"),
			gate_status_words[verdict]);
		open_text(&history, text);
		require_equal((int)history_verdict(&history.runs[0], "x"), verdict);
		history_file_close(&history);
	}
	struct history_file history;
	struct error error = {0};
	temporary_write(
		folder, "h.jsonl", LINE("\"x\": {\"verdict\": \"PASSED\", \"figures\": {}}"), path);
	history_file_open(&history, path, &error);
	require(strstr(error.text, "a verdict of quire gate") != NULL, "%s", error.text);
	history_file_close(&history);
}

Test(history_file, levels_are_those_of_the_runs)
{
	struct history_file history;

	make_history(folder, "h.jsonl", (struct made_history){30, 3}, path);
	open_history(&history);
	require_equal(history.count, 30);
	require_equal(history.line_count, 30);
	require_equal(history.track_count, 12);
	const struct history_track *track = track_of(&history, "c0", "ttft.p99");
	require_equal(track->count, 30);
	require_equal(track->level_count, 2);
	require_equal(history_level_run(track, 1), 20);
	cr_assert_eq(history_level_mean(track, 0), 80);
	cr_assert_eq(history_level_mean(track, 1), 92);
	cr_assert_eq(history_level_is_better(track, 1), -1);
	cr_assert_str_eq(history.runs[20].commit, "a000014");
	cr_assert_eq(history_level_is_better(track_of(&history, "c0", "instructions"), 1), 1);
	cr_assert_eq(history_level_is_better(track_of(&history, "c1", "hit_rate"), 1), 1);
	require_equal(track_of(&history, "c2", "ttft.p99")->level_count, 1); /* noise */
	cr_assert_eq(history_verdict(&history.runs[28], "c0"), GATE_REGRESSED);
	cr_assert_eq(history_verdict(&history.runs[27], "c0"), GATE_PASS);
	cr_assert_eq(history_verdict(&history.runs[27], "c9"), GATE_STATUS_COUNT);
	cr_assert(history_figure_is_first(&history, 3));
	cr_assert_not(history_figure_is_first(&history, 4));
	history_file_close(&history);
}

/* Runs may lack a case, or a figure of it; of a case only what its last run has is told. */
Test(history_file, gaps_are_skipped)
{
	struct history_file history;

	open_text(&history,
		LINE(CASE("a", "\"e2e.p50\": 1") "," CASE("gone", "\"e2e.p50\": 1"))
			LINE(CASE("a", "\"e2e.p50\": 1")) LINE("") LINE(CASE("a", "\"e2e.p50\": 1"))
				LINE(CASE("a", "\"e2e.p50\": null")) LINE(CASE("a", ""))
					LINE(CASE("a", "\"e2e.p50\": 2, \"other\": 3, "
						       "\"ttft.p50\": null")));
	require_equal(history.count, 7);
	require_equal(history.track_count, 3);
	const struct history_track *track = &history.tracks[0];
	require_equal(track->count, 4);
	require_equal(track->runs[1], 1);
	require_equal(track->runs[3], 6);
	require_equal(track->level_count, 2);
	require_equal(history_level_run(track, 1), 6);
	cr_assert_str_eq(history.tracks[1].figure, "other");
	cr_assert(history_is_of_last_run(&history, track));
	cr_assert_str_eq(history.tracks[2].name, "gone");
	require_equal(history.tracks[2].count, 1);
	cr_assert_not(history_is_of_last_run(&history, &history.tracks[2]));
	cr_assert_eq(history_figure_of("other").better, 0);
	cr_assert_str_eq(history_figure_of("peak_memory").unit, "bytes");
	cr_assert_eq(history_figure_of("peak_memory").better, -1);
	cr_assert_eq(history_figure_of("hit_rate").format, NUMBER_SHARE);
	history_file_close(&history);
}

/* Those that the last run lacks stand behind its own, the later ones first. */
Test(history_file, every_case_of_the_file_is_there)
{
	static const struct history_case cases[] = {{"b", 3}, {"a", 3}, {"late", 2}, {"c", 1}};
	struct history_file history;

	open_text(&history, LINE(CASE("c", "\"x\": 1") "," CASE("a", "\"x\": 1"))
				    LINE(CASE("a", "\"x\": 1") "," CASE("c", "\"x\": 2"))
					    LINE(CASE("late", "") "," CASE("b", "\"x\": 1"))
						    LINE(CASE("b", "\"x\": 1") "," CASE("a", "")));
	require_equal(history.case_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_str_eq(history.cases[i].name, cases[i].name);
		require_equal(history.cases[i].run, cases[i].run);
	}
	/* a's last run failed: its figures are those of the run before */
	require_equal(history.track_count, 3);
	require_equal(track_of(&history, "a", "x")->count, 2);
	require_equal(track_of(&history, "c", "x")->count, 2);
	history_file_close(&history);
}

#define OTHER(name, figures) "\"" name "\": {\"verdict\": \"INVALID\", \"figures\": {" figures "}}"

/* Figures of other settings than the baseline's move no level, the last ones neither. */
Test(history_file, invalid_runs_are_in_no_level)
{
	struct history_file history;

	open_text(&history, LINE(CASE("a", "\"x\": 4") "," OTHER("b", "\"x\": 1"))
				    LINE(OTHER("a", "\"x\": 999")) LINE(CASE("a", "\"x\": 4"))
					    LINE(CASE("a", "\"x\": 4"))
						    LINE(OTHER("a", "\"x\": 999, \"y\": 1")));
	require_equal(history.case_count, 2);
	require_equal(history.track_count, 1);
	const struct history_track *track = &history.tracks[0];
	require_equal(track->count, 3);
	require_equal(track->runs[1], 2);
	require_equal(track->level_count, 1);
	cr_assert_eq(history_level_mean(track, 0), 4);
	cr_assert_not(history_is_of_last_run(&history, track));
	history_file_close(&history);
}

Test(history_file, the_latest_runs_are_kept)
{
	struct history_file history;

	make_history(folder, "h.jsonl", (struct made_history){HISTORY_RUNS_MAX + 77, 1}, path);
	open_history(&history);
	require_equal(history.count, HISTORY_RUNS_MAX);
	require_equal(history.line_count, HISTORY_RUNS_MAX + 77);
	cr_assert_str_eq(history.runs[0].commit, "a00004d");
	cr_assert_str_eq(history.runs[HISTORY_RUNS_MAX - 1].commit, "a00044c");
	require_equal(track_of(&history, "c0", "ttft.p99")->count, HISTORY_RUNS_MAX);
	history_file_close(&history);
}

Test(history_file, an_empty_file_has_no_run)
{
	struct history_file history;

	open_text(&history, "");
	require_equal(history.count, 0);
	require_equal(history.track_count, 0);
	history_file_close(&history);
}

/* One line, with the file and the line's number. */
Test(history_file, what_is_no_history_is_refused)
{
	static const struct {
		const char *text, *said;
	} refused[] = {
		{LINE("") "not a history\n", "h.jsonl:2: found no valid JSON, expected a line of"},
		{LINE("") "\n", "h.jsonl:2: found no valid JSON"},
		{LINE("") "{\"commit\": \"a\"", "h.jsonl:2: found no valid JSON"},
		{"[]\n", "h.jsonl:1: "},
		{"{\"timestamp\": 0}\n", "h.jsonl:1: found no line of quire gate --history"},
		{"{\"date\": \"d\", \"cases\": {}}\n", "h.jsonl:1: field commit: "},
		{"{\"commit\": 7, \"date\": \"d\", \"cases\": {}}\n", "h.jsonl:1: field commit: "},
		{"{\"commit\": \"a\", \"date\": \"d\", \"cases\": []}\n", "field cases: "},
		{LINE("\"x\": 7"), "h.jsonl:1: field cases.x: "},
		{LINE("\"x\": {\"verdict\": \"FINE\", \"figures\": {}}"),
			"field cases.x.verdict: found \"FINE\", expected a verdict"},
		{LINE("\"x\": {\"verdict\": \"PASS\"}"), "field cases.x.figures: "},
		{LINE(CASE("x", "\"e2e.p50\": \"fast\"")), "field cases.x.figures.e2e.p50: "},
		{LINE(CASE("x", "\"e2e.p50\": 1e99")), "expected a number in [-1e+18, 1e+18]"},
		{LINE(CASE("x", "\"e2e.p50\": 1e999")),
			"h.jsonl:1: field cases.x.figures.e2e.p50: found a number beyond"},
		{LINE(CASE("x", "\"a\": 1, \"a\": 2")), "field cases.x.figures.a: "},
		{LINE(CASE("x", "\"a\": null, \"a\": 2")),
			"field cases.x.figures.a: found it twice"},
		{LINE(CASE("x", "") "," CASE("x", "")), "field cases.x: "},
	};

	for (uint32_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct history_file history;
		struct error error = {0};
		temporary_write(folder, "h.jsonl", refused[i].text, path);
		require_equal(history_file_open(&history, path, &error), STATUS_INPUT);
		require(strstr(error.text, refused[i].said) != NULL,
			"found \"%s\", expected \"%s\"", error.text, refused[i].said);
		require(strchr(error.text, '\n') == NULL, "%s", error.text);
		history_file_close(&history);
	}
}

Test(history_file, a_line_that_is_too_long_is_refused)
{
	char *text = malloc(HISTORY_LINE_BYTES_MAX + 3);
	struct history_file history;
	struct error error = {0};

	memset(text, ' ', HISTORY_LINE_BYTES_MAX + 1);
	memcpy(text, "{}", 2);
	strcpy(text + HISTORY_LINE_BYTES_MAX + 1, "\n");
	temporary_write(folder, "h.jsonl", text, path);
	require_equal(history_file_open(&history, path, &error), STATUS_INPUT);
	require(strstr(error.text, "h.jsonl:1: found more bytes, expected at most 1048576") != NULL,
		"%s", error.text);
	history_file_close(&history);
	free(text);
}
