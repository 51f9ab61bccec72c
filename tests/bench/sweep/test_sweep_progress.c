#include "bench/sweep/sweep_progress.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"

#define SECOND_NS UINT64_C(1000000000)

/* What a sweep of 20 runs, of which 14 are to do, says after `done` of them in 36 s. */
static void require_line(uint32_t done, uint32_t failed, bool has_failed, const char *expected)
{
	struct sweep_progress progress;
	struct capture capture;

	capture_begin(&capture, STDERR_FILENO);
	sweep_progress_begin(&progress, true, 20, 14);
	progress.done = done - 1;
	progress.failed = failed - has_failed;
	progress.progress.next_ns = 0;
	progress.progress.start_ns = monotonic_ns() - 36 * SECOND_NS;
	sweep_progress_add(&progress, has_failed);
	sweep_progress_add(&progress, has_failed); /* which is not due */
	sweep_progress_end(&progress);
	char *text = capture_end(&capture);
	cr_assert_str_eq(text, expected);
	free(text);
}

/* Runs that failed are not complete, but need no more time. */
Test(sweep_progress, a_line_says_what_is_complete_and_the_time_left)
{
	require_line(7, 0, false, "13 of 20 runs complete, about 36 s left\n");
	require_line(12, 2, false, "16 of 20 runs complete, 2 failed, about 6 s left\n");
	require_line(13, 13, true, "6 of 20 runs complete, 13 failed, about 2 s left\n");
	require_line(14, 0, false, "20 of 20 runs complete, about 0 s left\n");
}

Test(sweep_progress, nothing_is_said_where_nothing_is_shown)
{
	struct sweep_progress progress;
	struct capture capture;

	capture_begin(&capture, STDERR_FILENO);
	sweep_progress_begin(&progress, false, 2, 2);
	sweep_progress_add(&progress, false);
	sweep_progress_end(&progress);
	char *text = capture_end(&capture);
	cr_assert_str_eq(text, "");
	free(text);
}
