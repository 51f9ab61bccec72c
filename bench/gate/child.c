#include "bench/gate/child.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a child is asked for: short beside the shortest run. */
enum { POLL_NS = 2000000 };

/* What a late child gets to end by itself, before it is killed. */
#define GRACE_NS UINT64_C(5000000000)

/* In the child: takes its three streams and becomes the program. Returns only on failure. */
static void become(const struct child *child, char *const *arguments, pid_t gate)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* A gate that is killed leaves no run behind it, which would hold the folder. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != gate) {
		_exit(127); /* it has died already */
	}
	if (nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(fileno(child->output), 1) >= 0 &&
		dup2(fileno(child->errors), 2) >= 0) {
		(void)execvp(arguments[0], arguments);
	}
}

/* Returns 0, or an errno. fork() and not posix_spawn(): the kernel's peak of a process counts what
   was resident before exec() too, and a spawned child begins with all pages of its parent. */
static int start(struct child *child, char *const *arguments)
{
	int ends[2], reason = 0;
	pid_t gate = getpid();

	/* The child's end closes when the program starts; what comes through it is an errno. */
	if (pipe(ends) != 0) {
		return errno;
	}
	(void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	(void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
	child->process = fork();
	if (child->process == 0) {
		become(child, arguments, gate);
		reason = errno;
		(void)!write(ends[1], &reason, sizeof(reason));
		_exit(127);
	}
	if (child->process < 0) {
		reason = errno;
		child->process = 0;
	}
	close(ends[1]);
	if (child->process > 0 && read(ends[0], &reason, sizeof(reason)) == sizeof(reason)) {
		(void)waitpid(child->process, NULL, 0);
		child->process = 0;
	}
	close(ends[0]);
	return reason;
}

enum status child_start(
	struct child *child, const char *const *arguments, uint64_t limit_ns, struct error *error)
{
	*child = (struct child){.output = tmpfile(), .limit_ns = limit_ns};
	child->errors = child->output == NULL ? NULL : tmpfile();
	if (child->errors == NULL) {
		int reason = errno;
		child_close(child);
		return error_set(error, STATUS_FILE, "a temporary file cannot be made: %s",
			strerror(reason));
	}
	child->start_ns = monotonic_ns();
	/* exec's parameter is not const, but it does not change the arguments. */
	int failure = start(child, (char *const *)arguments);
	if (failure != 0) {
		child_close(child);
		if (failure == ENOENT && strchr(arguments[0], '/') == NULL) {
			return error_set(error, STATUS_FILE,
				"%s: cannot be started: PATH has no such program; a file of this "
				"folder is ./%s",
				arguments[0], arguments[0]);
		}
		return error_set(error, STATUS_FILE, "%s: cannot be started: %s", arguments[0],
			strerror(failure));
	}
	return STATUS_OK;
}

/* Ends children that take too long. */
static void end_late(struct child *const *children, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct child *child = children[i];
		uint64_t elapsed_ns = monotonic_ns() - child->start_ns;
		if (child->process == 0 || child->limit_ns == 0 || elapsed_ns < child->limit_ns) {
			continue;
		}
		if (!child->is_late) {
			kill(child->process, SIGTERM);
		} else if (elapsed_ns - child->limit_ns > GRACE_NS) {
			kill(child->process, SIGKILL);
		}
		child->is_late = true;
	}
}

static uint64_t time_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

enum status child_wait(
	struct child *const *children, uint32_t count, uint32_t *ended, struct error *error)
{
	for (;;) {
		struct rusage usage;
		int state;
		pid_t process = wait4(-1, &state, WNOHANG, &usage);
		if (process < 0 && errno == EINTR) {
			continue;
		}
		if (process == 0) {
			if (interrupt_is_pending()) {
				return error_set(error, STATUS_VERDICT, "interrupted");
			}
			end_late(children, count);
			pause_ns(POLL_NS);
			continue;
		}
		if (process < 0) {
			return error_set(
				error, STATUS_FILE, "a child process is lost: %s", strerror(errno));
		}
		for (uint32_t i = 0; i < count; i++) {
			struct child *child = children[i];
			if (child->process != process) {
				continue;
			}
			child->process = 0;
			child->elapsed_ns = monotonic_ns() - child->start_ns;
			child->exit_code =
				WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
			child->cpu_ns = time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
			child->peak_memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
			*ended = i;
			return STATUS_OK;
		}
	}
}

void child_add_errors(struct child *child, struct text *text)
{
	char buffer[4096];
	size_t size;

	if (child->errors == NULL || fseek(child->errors, 0, SEEK_SET) != 0) {
		return;
	}
	while ((size = fread(buffer, 1, sizeof(buffer), child->errors)) > 0) {
		text_add_bytes(text, buffer, size);
	}
}

void child_close(struct child *child)
{
	if (child->process > 0) {
		kill(child->process, SIGTERM);
		(void)waitpid(child->process, NULL, 0);
		child->process = 0;
	}
	if (child->output != NULL) {
		fclose(child->output);
	}
	if (child->errors != NULL) {
		fclose(child->errors);
	}
	child->output = child->errors = NULL;
}
