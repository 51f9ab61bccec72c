#include "engine/base/input_file.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static const char *const paths[INPUT_FILES_MADE] = {
	"/dev/null/a", "/dev/null/b", "/dev/null/a/b", "none.jsonl"};

static FILE *make(const char *path, const char *content)
{
	struct error error = {STATUS_OK, ""};
	FILE *file;

	require_equal(input_file_make(&file, path, &error), STATUS_OK);
	fputs(content, file);
	fflush(file);
	return file;
}

/* By a descriptor of its own, from the start. */
static void require_content(const char *path, const char *content)
{
	struct error error = {STATUS_OK, ""};
	char found[64] = "";
	int descriptor = input_descriptor(path, INPUT_FILE, &error);

	require(descriptor >= 0, "%s", error.text);
	require(read(descriptor, found, sizeof(found) - 1) >= 0, "cannot be read");
	close(descriptor);
	cr_assert_str_eq(found, content);
}

static void require_missing(const char *path)
{
	struct error error = {STATUS_OK, ""};

	require(input_descriptor(path, INPUT_FILE, &error) < 0, "%s is there", path);
	require_equal(error.status, STATUS_FILE);
}

Test(input_file, that_is_made_is_read_by_its_path_until_it_is_dropped)
{
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < INPUT_FILES_MADE; i++) {
			require_missing(paths[i]);
			make(paths[i], paths[i]);
		}
		for (int i = 0; i < 2 * INPUT_FILES_MADE; i++) {
			require_content(paths[i % INPUT_FILES_MADE], paths[i % INPUT_FILES_MADE]);
		}
		for (int i = 0; i < INPUT_FILES_MADE; i++) {
			require(access(paths[i], F_OK) != 0, "%s is in a folder", paths[i]);
			input_file_drop(paths[i]);
			input_file_drop(paths[i]);
			require_missing(paths[i]);
		}
	}
}

Test(input_file, that_is_made_is_there_for_processes_that_are_forked)
{
	int end = -1;

	make(paths[0], "of the parent");
	make(paths[1], "of both");
	pid_t child = fork();
	if (child == 0) {
		require_content(paths[0], "of the parent");
		input_file_drop(paths[0]);
		make(paths[0], "of the child");
		require_content(paths[0], "of the child");
		require_content(paths[1], "of both");
		_exit(0);
	}
	require(child > 0 && waitpid(child, &end, 0) == child && end == 0, "the child: %d", end);
	require_content(paths[0], "of the parent");
	input_file_drop(paths[0]);
	input_file_drop(paths[1]);
}

static bool was_read(const char *folder, const char *name)
{
	char path[2 * TEMPORARY_PATH_BYTES];
	struct stat found;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	require(stat(path, &found) == 0, "%s is not there", path);
	return input_file_was_read(&found);
}

/* For files that other processes read. */
Test(input_file, that_is_noted_counts_as_read)
{
	char folder[TEMPORARY_PATH_BYTES], one[2 * TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "one", "1", one);
	input_file_note("/dev/null/none");
	input_file_note("/dev/null");
	input_file_note(folder);
	require(!was_read(folder, "one"), "nobody read it");
	input_file_note(one);
	temporary_write(folder, "two", "2", NULL);
	require(was_read(folder, "one") && !was_read(folder, "two"), "another was noted");
	require(!was_read(folder, "."), "a folder was noted");
	temporary_remove(folder);
}

static void heed(int signal)
{
	(void)signal;
}

/* Puts a pipe in place of the standard input, into which a child writes 20 lines with pauses. */
static pid_t write_slowly(void)
{
	int ends[2];

	require(pipe(ends) == 0, "no pipe");
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 20; i++) {
			usleep(2000);
			require(write(ends[1], "line\n", 5) == 5, "cannot write");
		}
		_exit(0);
	}
	require(child > 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO, "no child");
	close(ends[0]);
	close(ends[1]);
	return child;
}

/* Signals interrupt the reads; what could not be read leaves nothing behind. */
Test(input_file, a_pipe_is_copied_to_its_end_or_not_at_all)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	const struct sigaction action = {.sa_handler = heed};
	struct error error = {STATUS_OK, ""};
	char found[128] = "";

	int ends[2];
	/* an end that can only be written */
	require(pipe(ends) == 0 && dup2(ends[1], STDIN_FILENO) == STDIN_FILENO, "no pipe");
	require_equal(input_spool("-", &error), STATUS_FILE);
	pid_t child = write_slowly();
	memset(&error, 0, sizeof(error));
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	enum status status = input_spool("-", &error);
	setitimer(ITIMER_REAL, &never, NULL);
	require(status == STATUS_OK, "%s", error.text);
	require(waitpid(child, NULL, 0) == child, "no child");
	for (int i = 0; i < 2; i++) { /* each time from its start */
		int descriptor = input_descriptor("-", INPUT_FILE_OR_PIPE, &error);
		require_equal(read(descriptor, found, sizeof(found)), 100);
		close(descriptor);
	}
	input_file_drop("-");
	close(ends[0]);
	close(ends[1]);
}
