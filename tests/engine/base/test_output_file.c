#include "engine/base/check.h"
#include "engine/base/input_file.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/base/unfinished.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/interrupt.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

enum { PATH_BYTES = 2 * TEMPORARY_PATH_BYTES };

static char folder[TEMPORARY_PATH_BYTES];
static char path[PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/file", folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(output_file, .init = set_up, .fini = tear_down, .timeout = 60);

/* The names in the folder, one a line. */
static char *names(void)
{
	struct process_result result = shell_run(folder, "ls -A");

	free(result.err);
	return result.out;
}

static void require_names(const char *expected)
{
	char *found = names();

	require(strcmp(found, expected) == 0, "the folder holds %s", found);
	free(found);
}

static void require_text(const char *expected)
{
	char *text = file_read(path, NULL);

	cr_assert_str_eq(text, expected);
	free(text);
}

static struct output_file opened(void)
{
	struct output_file output;
	struct error error = {0};

	require(output_file_open(&output, path, &error) == STATUS_OK, "%s", error.text);
	fputs("new\n", output.file);
	return output;
}

Test(output_file, appears_whole_when_it_is_committed)
{
	struct error error = {0};

	temporary_write(folder, "file", "old\n", NULL);
	struct output_file output = opened();
	fflush(output.file);
	require_text("old\n");
	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
	require_text("new\n");
	require_names("file\n");
}

Test(output_file, leaves_what_was_there_when_it_is_abandoned)
{
	temporary_write(folder, "file", "old\n", NULL);
	struct output_file output = opened();
	output_file_abandon(&output);
	output_file_abandon(&output);
	require_text("old\n");
	require_names("file\n");
}

/* Two programs at once: each has a part of its own, and the last commit counts. */
Test(output_file, has_a_part_of_its_own)
{
	struct error error = {0};
	struct output_file first = opened();
	pid_t child = fork();
	int state;

	if (child == 0) {
		struct output_file second = opened();
		fputs("second\n", second.file);
		_exit(output_file_commit(&second, &error) == STATUS_OK ? 0 : 1);
	}
	require(waitpid(child, &state, 0) == child && state == 0, "the second has failed");
	require_text("new\nsecond\n");
	require(output_file_commit(&first, &error) == STATUS_OK, "%s", error.text);
	require_text("new\n");
	require_names("file\n");
}

Test(output_file, is_not_two_outputs_of_one_command)
{
	struct error error = {0};
	struct output_file first = opened(), second;
	char same[PATH_BYTES + 8];

	snprintf(same, sizeof(same), "%s/./file", folder);
	require_equal(output_file_open(&second, same, &error), STATUS_FILE);
	require(strstr(error.text, "is written to twice") != NULL, "%s", error.text);
	output_file_abandon(&second);
	output_file_abandon(&first);
	require_names("");
}

/* One after the other, under whatever name; and a link to the first is a file of its own. */
Test(output_file, is_not_two_outputs_one_after_the_other)
{
	struct error error = {0};
	struct output_file first = opened(), second;
	char same[PATH_BYTES + 8];

	require(output_file_commit(&first, &error) == STATUS_OK, "%s", error.text);
	snprintf(same, sizeof(same), "%s/./file", folder);
	require_equal(output_files_check((const char *const[]){same}, 1, &error), STATUS_FILE);
	require_equal(output_file_open(&second, same, &error), STATUS_FILE);
	require(strstr(error.text, "is written to twice") != NULL, "%s", error.text);
	output_file_abandon(&second);
	require_text("new\n");
	require_names("file\n");
	snprintf(same, sizeof(same), "%s/link", folder);
	require(symlink("file", same) == 0, "no link");
	error = (struct error){0};
	require(output_file_open(&second, same, &error) == STATUS_OK, "%s", error.text);
	require(output_file_commit(&second, &error) == STATUS_OK, "%s", error.text);
	require_text("new\n");
}

/* Before anything is written; @ is the folder. Several paths of devices are no file. */
static const struct {
	const char *paths[2];
	bool is_refused;
} pairs[] = {
	{{"@/new", "@/new"}, true},
	{{"@/new", "@/./new"}, true},
	{{"@/new", "@/other"}, false},
	{{"@/new", "@/sub/new"}, false},
	{{"@/old", "@/sub/../old"}, true},
	{{"@/old", "@/hard"}, true},
	{{"@/soft", "@/old"}, true},
	{{"@/dangling", "@/new"}, false},
	{{"/dev/null", "/dev/null"}, false},
	{{"@/nowhere/new", "-"}, true},
	{{"@/old/new", "-"}, true},
	{{"@/sub", "-"}, true},
	{{"@", "-"}, true},
	{{"-", "-"}, false},
};

Test(output_file, two_names_of_one_file_are_found_before_anything_is_written)
{
	struct process_result made = shell_run(folder,
		"echo old >old && ln old hard && ln -s old soft && ln -s new dangling && mkdir "
		"sub");

	process_result_free(&made);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char texts[2][PATH_BYTES];
		const char *paths[4] = {NULL};
		struct error error = {0};
		for (uint32_t j = 0; j < 2; j++) {
			const char *text = pairs[i].paths[j];
			snprintf(texts[j], sizeof(texts[j]), "%s%s", text[0] == '@' ? folder : "",
				text + (text[0] == '@'));
			paths[2 * j + 1] = texts[j];
		}
		enum status status = output_files_check(paths, 4, &error);
		require(status == (pairs[i].is_refused ? STATUS_FILE : STATUS_OK), "pair %zu: %s",
			i, error.text);
	}
}

/* A file that somebody else has put in its place. */
Test(output_file, may_be_written_again_where_it_was_replaced)
{
	struct error error = {0};
	struct output_file output = opened();

	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
	temporary_write(folder, "other", "other\n", NULL);
	struct process_result moved = shell_run(folder, "mv other file");
	process_result_free(&moved);
	output = opened();
	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
	require_text("new\n");
}

/* Whatever name an input has, and whether it is opened before the output or after it. */
Test(output_file, is_no_input_of_the_command)
{
	char input[PATH_BYTES];
	struct error error = {0};
	struct output_file output = opened();
	FILE *file;

	temporary_write(folder, "input", "precious\n", input);
	require(link(input, path) == 0, "no link");
	require(input_file_open(&file, input, INPUT_FILE, &error) == STATUS_OK, "%s", error.text);
	fclose(file);
	require_equal(output_file_commit(&output, &error), STATUS_FILE);
	require(strstr(error.text, "is read by this command") != NULL, "%s", error.text);
	output_file_abandon(&output);
	require_equal(output_file_open(&output, path, &error), STATUS_FILE);
	output_file_abandon(&output);
	require_text("precious\n");
	require_names("file\ninput\n");
	/* A link is another file, but who writes to it means the one that it leads to. */
	require(unlink(path) == 0 && symlink("input", path) == 0, "no link");
	require_equal(output_file_open(&output, path, &error), STATUS_FILE);
	require(strstr(error.text, "is read by this command") != NULL, "%s", error.text);
	output_file_abandon(&output);
	require_text("precious\n");
}

/* ---- inputs ---- */

Test(output_file, an_input_that_is_a_pipe_or_a_device_is_refused_at_once)
{
	static const char *const expected = ": found a pipe or a device, expected a file";
	const char *const paths[] = {path, "/dev/zero"};
	struct error error = {0};
	FILE *file;

	require(mkfifo(path, 0666) == 0, "no pipe");
	for (uint32_t i = 0; i < 2; i++) {
		require_equal(input_file_open(&file, paths[i], INPUT_FILE, &error), STATUS_FILE);
		require(strstr(error.text, expected) != NULL, "%s", error.text);
	}
	require_equal(input_file_open(&file, "/dev/zero", INPUT_FILE_OR_PIPE, &error), STATUS_FILE);
	require(strstr(error.text, ": found a device, expected a file or a pipe") != NULL, "%s",
		error.text);
	error = (struct error){0};
	require(input_file_open(&file, "/dev/null", INPUT_FILE_OR_PIPE, &error) == STATUS_OK, "%s",
		error.text);
	require_equal(fgetc(file), EOF);
	fclose(file);
	require(input_file_open(&file, path, INPUT_FILE_OR_PIPE, &error) == STATUS_OK, "%s",
		error.text);
	require_equal(fgetc(file), EOF);
	fclose(file);
}

/* In a folder that others may write to, a link in place of the part would choose another file. */
Test(output_file, does_not_follow_a_link_in_place_of_its_part)
{
	char part[PATH_BYTES + 32], victim[PATH_BYTES];
	struct error error = {0};

	temporary_write(folder, "victim", "precious\n", victim);
	snprintf(part, sizeof(part), "%s.%ld.part", path, (long)getpid());
	require(symlink("victim", part) == 0, "no link");
	struct output_file output = opened();
	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
	require_text("new\n");
	char *text = file_read(victim, NULL);
	cr_assert_str_eq(text, "precious\n");
	free(text);
	require(unlink(part) == 0, "the link is gone");
}

Test(output_file, replaces_a_link_and_not_its_target)
{
	char victim[PATH_BYTES];
	struct error error = {0};

	temporary_write(folder, "victim", "precious\n", victim);
	require(symlink("victim", path) == 0, "no link");
	struct output_file output = opened();
	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
	require_text("new\n");
	char *text = file_read(victim, NULL);
	cr_assert_str_eq(text, "precious\n");
	free(text);
}

Test(output_file, refuses_a_pipe_that_nobody_reads)
{
	struct output_file output;
	struct error error = {0};

	require(mkfifo(path, 0666) == 0, "no pipe");
	require_equal(output_file_open(&output, path, &error), STATUS_FILE);
	require(strstr(error.text, path) != NULL, "%s", error.text);
	output_file_abandon(&output);
}

enum { PIPED_LINES = 100000 };

/* A reader that begins late; whether all lines came. */
static bool read_late(void)
{
	FILE *file = fopen(path, "rb");
	uint32_t line = 0, count = 0;

	usleep(200 * 1000);
	while (file != NULL && fscanf(file, "%u", &line) == 1 && line == count) {
		count++;
	}
	return count == PIPED_LINES;
}

/* Ten times what a pipe holds. */
Test(output_file, waits_for_a_slow_reader_of_a_pipe)
{
	struct output_file output;
	struct error error = {0};
	int state;

	require(mkfifo(path, 0666) == 0, "no pipe");
	pid_t child = fork();
	if (child == 0) {
		_exit(read_late() ? 0 : 1);
	}
	require(output_file_open(&output, path, &error) == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < PIPED_LINES; i++) {
		fprintf(output.file, "%u\n", i);
	}
	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
	require(waitpid(child, &state, 0) == child && state == 0, "lines are lost");
	require_names("file\n");
}

/* ---- writes that fail ---- */

/* The first write fails, the last would not: an error all the same. */
Test(output_file, names_the_file_and_why_a_write_failed)
{
	struct output_file output;
	struct error error = {0};

	if (access("/dev/full", W_OK) != 0) {
		cr_skip_test("/dev/full is not here");
	}
	require(output_file_open(&output, "/dev/full", &error) == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < 100000; i++) {
		fputc('x', output.file);
	}
	errno = 0;
	require_equal(output_file_commit(&output, &error), STATUS_FILE);
	cr_assert_str_eq(error.text, "/dev/full: cannot be written: No space left on device");
}

/* Some errors are told by the last close only, such as those of quotas and of network file systems.
   A descriptor that is closed already stands for them here. */
Test(output_file, reports_an_error_of_the_close)
{
	struct output_file output;
	struct error error = {0};

	require(output_file_open(&output, "/dev/null", &error) == STATUS_OK, "%s", error.text);
	close(fileno(output.file));
	require_equal(output_file_commit(&output, &error), STATUS_FILE);
	cr_assert_str_eq(error.text, "/dev/null: cannot be written: Bad file descriptor");
}

Test(output_file, treats_a_limit_of_file_sizes_as_a_full_disk)
{
	const struct rlimit small = {.rlim_cur = 1000, .rlim_max = 1000};
	struct error error = {0};
	char expected[PATH_BYTES + 64];

	interrupt_catch();
	struct output_file output = opened();
	require(setrlimit(RLIMIT_FSIZE, &small) == 0, "no limit");
	for (uint32_t i = 0; i < 100000; i++) {
		fputc('x', output.file);
	}
	require_equal(output_file_commit(&output, &error), STATUS_FILE);
	snprintf(expected, sizeof(expected), "%s: cannot be written: File too large", path);
	cr_assert_str_eq(error.text, expected);
	require_names("");
}

/* ---- ways out ---- */

static void exhaust(void)
{
	memory_exhausted(1);
}

static void fail_a_check(void)
{
	check(folder[0] == '\0');
}

static void be_interrupted(void)
{
	raise(SIGINT);
}

static void be_terminated(void)
{
	raise(SIGTERM);
}

static void be_hung_up(void)
{
	raise(SIGHUP);
}

static int killing_signal;

static void be_killed(void)
{
	raise(killing_signal);
}

static const struct {
	void (*leave)(void);
	int code;   /* exit code; -1: a signal kills */
	int signal; /* that kills */
} ways_out[] = {
	{exhaust, 2, 0},
	{fail_a_check, -1, SIGABRT},
	{be_interrupted, 1, 0},
	{be_terminated, 1, 0},
	{be_hung_up, 1, 0},
};

/* What batch systems, timers and debuggers send, and what `kill -N` may. */
static const int deaths[] = {SIGPIPE, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
	SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGSYS, SIGTRAP, SIGABRT};

/* The child makes a folder, a file in it and another beside it, takes a third as its own, and
   leaves. */
static int state_after(void (*leave)(void))
{
	pid_t child = fork();
	int state;

	if (child == 0) {
		struct unfinished *made;
		char inside[PATH_BYTES];
		struct output_file first = opened(), second;
		struct error error = {0};
		snprintf(inside, sizeof(inside), "%s/made", folder);
		interrupt_catch();
		require(freopen("/dev/null", "wb", stderr) != NULL, "no /dev/null");
		require(unfinished_make_folder(&made, inside) == 0, "no folder");
		strcat(inside, "/file");
		require(output_file_open(&second, inside, &error) == STATUS_OK, "%s", error.text);
		fflush(first.file);
		temporary_write(folder, "taken", "x", inside);
		unfinished_add(inside);
		leave();
		_exit(9);
	}
	require(waitpid(child, &state, 0) == child, "the child is lost");
	return state;
}

Test(output_file, leaves_nothing_whatever_way_the_program_ends)
{
	for (size_t i = 0; i < sizeof(ways_out) / sizeof(ways_out[0]); i++) {
		int state = state_after(ways_out[i].leave);
		if (ways_out[i].code >= 0) {
			require(WIFEXITED(state) && WEXITSTATUS(state) == ways_out[i].code,
				"way %zu: state %d", i, state);
		} else {
			require(WIFSIGNALED(state) && WTERMSIG(state) == ways_out[i].signal,
				"way %zu: state %d", i, state);
		}
		require_names("");
	}
}

static void require_death(int signal)
{
	killing_signal = signal;
	int state = state_after(be_killed);
	require(WIFSIGNALED(state) && WTERMSIG(state) == signal, "signal %d: state %d", signal,
		state);
	require_names("");
}

Test(output_file, leaves_nothing_whatever_signal_kills)
{
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
		require_death(deaths[i]);
	}
	require_death(SIGRTMIN);
	require_death(SIGRTMAX - 1);
}

/* A profiler has its own handler of SIGPROF before the program begins. */
static void count_nothing(int signal)
{
	(void)signal;
}

Test(output_file, a_signal_that_somebody_handles_stays_theirs)
{
	struct sigaction action = {.sa_handler = count_nothing}, found;

	require(sigaction(SIGPROF, &action, NULL) == 0, "not handled");
	interrupt_catch();
	require(sigaction(SIGPROF, NULL, &found) == 0 && found.sa_handler == count_nothing,
		"it was replaced");
}

/* The ranks of tensor parallelism are forked. */
Test(output_file, a_forked_process_removes_nothing_of_its_parent)
{
	struct error error = {0};
	struct output_file output = opened();
	pid_t child = fork();
	int state;

	if (child == 0) {
		unfinished_remove_all();
		_exit(0);
	}
	require(waitpid(child, &state, 0) == child && state == 0, "the child has failed");
	require(output_file_commit(&output, &error) == STATUS_OK, "%s", error.text);
}

Test(output_file, a_held_interrupt_is_noted_and_kills_nothing)
{
	interrupt_catch();
	interrupt_hold();
	require(!interrupt_is_pending(), "nothing came");
	raise(SIGHUP);
	require(interrupt_is_pending(), "it was lost");
	interrupt_release();
	interrupt_hold();
	require(!interrupt_is_pending(), "it came back");
	interrupt_release();
}

/* nohup has SIGHUP ignored. */
Test(output_file, a_hang_up_that_is_ignored_stays_ignored)
{
	struct sigaction action = {.sa_handler = SIG_IGN};

	require(sigaction(SIGHUP, &action, NULL) == 0, "not ignored");
	interrupt_catch();
	interrupt_hold();
	raise(SIGHUP);
	require(!interrupt_is_pending(), "it was noted");
	interrupt_release();
}
