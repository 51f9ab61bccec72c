#include "bench/options/progress.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/status.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/trace/trace.h"

#define NS_PER_S UINT64_C(1000000000)

Test(progress, a_line_says_the_share_and_the_time_left)
{
	static const struct {
		uint64_t total, duration_s, ended, virtual_s, wall_s;
		const char *line;
	} cases[] = {
		{2000000, 0, 60000, 7200, 90,
			"60,000 of 2,000,000 requests (3.0 %), 12 steps, 7,200 s of the trace in "
			"90.0 s, about 2,910 s left"},
		{0, 0, 999, 1, 2, "999 requests, 12 steps, 1 s of the trace in 2.0 s"},
		{1000, 100, 10, 50, 8,
			"10 of 1,000 requests (50.0 %), 12 steps, 50 s of the trace in 8.0 s, "
			"about 8 s left"},
		{10, 0, 12, 1, 4,
			"12 of 10 requests (100.0 %), 12 steps, 1 s of the trace in 4.0 s, about 0 "
			"s left"},
		{10, 0, 0, 1, 4, "0 of 10 requests, 12 steps, 1 s of the trace in 4.0 s"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[PROGRESS_LINE_BYTES];
		const struct progress_state state = {
			.ended = cases[i].ended,
			.total = cases[i].total,
			.virtual_ns = cases[i].virtual_s * NS_PER_S,
			.duration_ns = cases[i].duration_s * NS_PER_S,
			.steps = 12,
		};
		progress_line(&state, cases[i].wall_s * NS_PER_S, line);
		cr_assert_str_eq(line, cases[i].line);
	}
}

/* The longest line has room. */
Test(progress, a_line_of_the_largest_numbers_is_whole)
{
	char line[PROGRESS_LINE_BYTES];
	const struct progress_state state = {.ended = UINT64_MAX - 1,
		.total = UINT64_MAX,
		.virtual_ns = UINT64_MAX,
		.steps = UINT64_MAX};

	progress_line(&state, UINT64_MAX, line);
	require(strstr(line, " s left") != NULL, "%s", line);
}

/* Where stderr is a file a line of its own is written, and nothing before it is due. */
Test(progress, a_log_has_whole_lines)
{
	const struct progress_state state = {.ended = 1, .total = 3, .virtual_ns = NS_PER_S};
	struct capture capture;
	struct progress progress;

	progress_start(&progress, PROGRESS_NONE);
	require(!progress_is_due(&progress), "it is not shown");
	progress_start(&progress, PROGRESS_LOG);
	require(progress.next_ns - progress.start_ns == 30 * NS_PER_S, "another interval");
	require(!progress_is_due(&progress), "too early");
	progress.next_ns = 0;
	require(progress_is_due(&progress), "not in time");
	capture_begin(&capture, STDERR_FILENO);
	progress_show(&progress, &state);
	progress_end(&progress);
	char *text = capture_end(&capture);
	require(!progress_is_due(&progress), "again at once");
	require(strncmp(text, "1 of 3 requests (33.3 %), 0 steps, 1 s of the trace in ", 55) == 0,
		"%s", text);
	require(strchr(text, '\n') == text + strlen(text) - 1, "not one line: %s", text);
	free(text);
}

Test(progress, rows_are_estimated_by_lines)
{
	static const struct {
		const char *text;
		uint64_t rows;
	} cases[] = {{"{}\n{}\n", 2}, {"{}\n", 0}, {"{}\n{}", 2}, {"{}\n\n\r\n{}\n", 2}, {"", 0},
		{"A,B\n1,2\n3,4\n", 2}, {"A,B\n", 0}};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct error error = {0};

	temporary_folder(folder);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		temporary_write(folder, "t", cases[i].text, path);
		require_equal(trace_estimate_rows(path, &error), cases[i].rows);
	}
	require_equal(trace_estimate_rows("/nowhere/at/all", &error), 0);
	temporary_remove(folder);
}
