#include "engine/ranks/apart.h"

#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(apart, .timeout = 20);

static enum status note_pid(void *argument, struct error *error)
{
	(void)error;
	*(pid_t *)argument = getpid();
	return STATUS_OK;
}

Test(apart, what_a_run_writes_to_memory_stays_there)
{
	struct error error = {0};
	pid_t pid = 0;

	require_equal(apart_run(note_pid, &pid, &error), STATUS_OK);
	require_equal(pid, 0);
	require_equal(error.text[0], '\0');
}

static enum status fail(void *argument, struct error *error)
{
	return error_set(error, STATUS_INPUT, "%s is wrong", (const char *)argument);
}

Test(apart, an_error_of_a_run_is_the_callers)
{
	struct error error = {0};
	char what[] = "the name";

	require_equal(apart_run(fail, what, &error), STATUS_INPUT);
	require_equal(strcmp(error.text, "the name is wrong"), 0);
}

static enum status die(void *argument, struct error *error)
{
	(void)argument, (void)error;
	kill(getpid(), SIGKILL);
	return STATUS_OK;
}

Test(apart, a_run_that_is_killed_is_an_error)
{
	struct error error = {0};

	require_equal(apart_run(die, NULL, &error), STATUS_DEVICE);
	require(strstr(error.text, "killed by signal 9") != NULL, "%s", error.text);
}

/* argument: the write end of a pipe, which stays open as long as this process lives. */
static enum status hang(void *argument, struct error *error)
{
	(void)error;
	require_equal(write(*(int *)argument, "x", 1), 1);
	while (pause() < 0) {
	}
	return STATUS_OK;
}

Test(apart, a_run_dies_with_its_caller)
{
	struct error error = {0};
	char byte;
	int ends[2];

	require_equal(pipe(ends), 0);
	pid_t caller = fork();
	if (caller == 0) {
		(void)apart_run(hang, &ends[1], &error);
		_exit(0);
	}
	close(ends[1]);
	require_equal(read(ends[0], &byte, 1), 1); /* it runs */
	kill(caller, SIGKILL);
	require_equal(waitpid(caller, NULL, 0), caller);
	struct pollfd wait = {.fd = ends[0], .events = POLLIN};
	require(poll(&wait, 1, 10 * 1000) == 1, "the run is still there after 10 s");
	require_equal(read(ends[0], &byte, 1), 0);
}
