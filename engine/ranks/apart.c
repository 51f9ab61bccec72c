#include "engine/ranks/apart.h"

#include "engine/base/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void run_child(enum status (*function)(void *argument, struct error *error),
	void *argument, pid_t parent, struct error *shared)
{
	struct error error = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent) {
		interrupt_release();
		(void)function(argument, &error);
		*shared = error;
	}
	fflush(NULL);
	_exit(0); /* without the exit functions of the process it was forked from */
}

static enum status await(pid_t child, const struct error *shared, struct error *error)
{
	int end = 0;

	while (waitpid(child, &end, 0) < 0) {
		if (errno != EINTR) {
			return error_set(
				error, STATUS_DEVICE, "waiting for a run: %s", strerror(errno));
		}
	}
	if (WIFSIGNALED(end)) {
		return error_set(error, STATUS_DEVICE, "a run was killed by signal %d (%s)",
			WTERMSIG(end), strsignal(WTERMSIG(end)));
	}
	if (WEXITSTATUS(end) != 0) {
		return error_set(
			error, STATUS_DEVICE, "a run ended with exit code %d", WEXITSTATUS(end));
	}
	*error = *shared;
	return error->status;
}

enum status apart_run(enum status (*function)(void *argument, struct error *error), void *argument,
	struct error *error)
{
	pid_t parent = getpid();
	struct error *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED) {
		return error_set(error, STATUS_MEMORY, "memory for a run: %s", strerror(errno));
	}
	fflush(NULL);
	interrupt_hold(); /* a terminal sends its signals to both, and the run heeds them */
	pid_t child = fork();
	if (child == 0) {
		run_child(function, argument, parent, shared);
	}
	enum status status = child > 0 ? await(child, shared, error)
				       : error_set(error, STATUS_DEVICE,
						 "a run cannot be started: %s", strerror(errno));
	interrupt_release();
	munmap(shared, sizeof(*shared));
	return status;
}
