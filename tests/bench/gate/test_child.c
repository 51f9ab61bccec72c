#include "bench/gate/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "engine/base/clock.h"
#include "tests/harness/require.h"

/* Programs that the gate runs: what they print, how they end, and that each ends. */

#define HOUR_NS (UINT64_C(3600) * 1000000000)

/* Starts a shell command line. */
static void start(struct child *child, const char *line, uint64_t limit_ns)
{
	const char *const arguments[] = {"sh", "-c", line, NULL};
	struct error error = {0};

	require(child_start(child, arguments, limit_ns, &error) == STATUS_OK, "%s", error.text);
}

/* No child runs, or has ended without being asked for its end. */
static void require_none(void)
{
	require(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a child is left");
}

static void wait_for(struct child *child)
{
	struct child *const children[] = {child};
	struct error error = {0};
	uint32_t ended = 7;

	require(child_wait(children, 1, &ended, &error) == STATUS_OK, "%s", error.text);
	require_equal(ended, 0);
	require_equal(child->process, 0);
}

static void require_output(struct child *child, const char *output, const char *errors)
{
	struct text err = {0};
	char out[64];

	rewind(child->output);
	out[fread(out, 1, sizeof(out) - 1, child->output)] = '\0';
	child_add_errors(child, &err);
	cr_assert_str_eq(out, output);
	cr_assert_str_eq(err.bytes == NULL ? "" : err.bytes, errors);
	text_deinit(&err);
}

Test(child, says_how_it_ended_and_what_it_printed)
{
	static const struct {
		const char *line, *output, *errors;
		int exit_code;
	} cases[] = {
		{"cat; echo out; echo err >&2; sleep 0.05; exit 3", "out\n", "err\n", 3},
		{"kill -9 $$", "", "", 128 + SIGKILL},
		{"true", "", "", 0},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct child child;
		uint64_t before_ns = monotonic_ns();
		start(&child, cases[i].line, 0);
		wait_for(&child);
		require_equal(child.exit_code, cases[i].exit_code);
		require(!child.is_late, "%s: late", cases[i].line);
		require(child.elapsed_ns <= monotonic_ns() - before_ns &&
				child.elapsed_ns >= (i == 0 ? 50000000 : 1),
			"%s: %llu ns", cases[i].line, (unsigned long long)child.elapsed_ns);
		require(child.peak_memory_bytes >> 16 > 0 && child.peak_memory_bytes >> 30 == 0,
			"%s: %llu bytes", cases[i].line,
			(unsigned long long)child.peak_memory_bytes);
		require_output(&child, cases[i].output, cases[i].errors);
		child_close(&child);
	}
}

/* What the children of this process have computed, for themselves and in the kernel. */
static uint64_t children_ns(void)
{
	struct rusage usage;

	require_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
	return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000 +
	       ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
}

/* Nearly all of this one's time is the kernel's. */
Test(child, computes_for_itself_and_in_the_kernel)
{
	struct child child;
	uint64_t before_ns = children_ns();

	start(&child, "exec dd if=/dev/zero of=/dev/null bs=1 count=300000 2>/dev/null", 0);
	wait_for(&child);
	uint64_t taken_ns = children_ns() - before_ns;
	require(child.cpu_ns > 1000000 && child.cpu_ns + 2000 > taken_ns &&
			child.cpu_ns < taken_ns + 2000,
		"%llu ns, expected %llu", (unsigned long long)child.cpu_ns,
		(unsigned long long)taken_ns);
	child_close(&child);
}

/* The kernel counts in units of 1,024 bytes, and remembers the largest of the children. */
Test(child, its_peak_of_memory_is_in_bytes)
{
	struct child child;
	struct rusage usage;

	start(&child, "exec dd if=/dev/zero of=/dev/null bs=128M count=1 2>/dev/null", 0);
	wait_for(&child);
	require_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
	require_equal(child.peak_memory_bytes, (uint64_t)usage.ru_maxrss * 1024);
	require(child.peak_memory_bytes >= 128 << 20, "%llu bytes",
		(unsigned long long)child.peak_memory_bytes);
	child_close(&child);
}

Test(child, each_of_several_is_told)
{
	struct child children[2];
	struct child *const both[] = {&children[0], &children[1]};
	struct error error = {0};
	uint32_t ended = 7;

	start(&children[0], "exec sleep 60", 0);
	start(&children[1], "exit 4", 0);
	require_equal(child_wait(both, 2, &ended, &error), STATUS_OK);
	require_equal(ended, 1);
	require_equal(children[1].exit_code, 4);
	require(children[0].process > 0, "the other one has ended");
	child_close(&children[0]); /* kills it */
	child_close(&children[1]);
	require_none();
}

Test(child, a_program_that_is_not_there_is_named)
{
	const char *const arguments[] = {"/nowhere/at all", NULL};

	for (uint32_t i = 0; i < 50; i++) { /* it has ended, and not soon */
		struct child child;
		struct error error = {0};
		require_equal(child_start(&child, arguments, 0, &error), STATUS_FILE);
		cr_assert_str_eq(error.text,
			"/nowhere/at all: cannot be started: No such file or directory");
		require_none();
		child_close(&child);
	}
}

/* Without a slash it is looked for as a shell does, whatever files the folder has. */
Test(child, a_program_without_a_slash_is_of_the_path)
{
	const char *const arguments[] = {"CMakeLists.txt", NULL};
	struct child child;
	struct error error = {0};

	require_equal(child_start(&child, arguments, 0, &error), STATUS_FILE);
	cr_assert_str_eq(error.text, "CMakeLists.txt: cannot be started: PATH has no such program; "
				     "a file of this folder is ./CMakeLists.txt");
	child_close(&child);
}

/* SIGTERM at the limit. A child that ignores it is killed once its grace is over, for which the
   clock is set on here. */
Test(child, a_late_one_is_ended_even_if_it_ignores_that)
{
	struct child child;

	start(&child, "exec sleep 60", 1);
	wait_for(&child);
	require(child.is_late, "not late");
	require_equal(child.exit_code, 128 + SIGTERM);
	child_close(&child);
	(void)signal(SIGTERM, SIG_IGN); /* the child inherits it */
	start(&child, "exec sleep 60", HOUR_NS);
	(void)signal(SIGTERM, SIG_DFL);
	child.start_ns -= 2 * HOUR_NS;
	wait_for(&child);
	require(child.is_late, "not late");
	require_equal(child.exit_code, 128 + SIGKILL);
	child_close(&child);
}
