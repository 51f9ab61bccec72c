#include "bench/gate/child.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a child is asked for: short beside the shortest run. */
enum { POLL_NS = 2000000 };

/* What the program was started with goes on to its children. */
extern char **environ;

static int spawn(struct child *child, char *const *arguments)
{
	posix_spawn_file_actions_t actions;

	int failure = posix_spawn_file_actions_init(&actions);
	if (failure != 0) {
		return failure;
	}
	failure = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (failure == 0) {
		failure = posix_spawn_file_actions_adddup2(&actions, fileno(child->output), 1);
	}
	if (failure == 0) {
		failure = posix_spawn_file_actions_adddup2(&actions, fileno(child->errors), 2);
	}
	if (failure == 0) {
		failure = posix_spawnp(
			&child->process, arguments[0], &actions, NULL, arguments, environ);
	}
	posix_spawn_file_actions_destroy(&actions);
	return failure;
}

enum status child_start(struct child *child, const char *const *arguments, struct error *error)
{
	*child = (struct child){.output = tmpfile()};
	child->errors = child->output == NULL ? NULL : tmpfile();
	if (child->errors == NULL) {
		int reason = errno;
		child_close(child);
		return error_set(error, STATUS_FILE, "a temporary file cannot be made: %s",
			strerror(reason));
	}
	child->start_ns = monotonic_ns();
	/* posix_spawn's parameter is not const, but it does not change the arguments. */
	int failure = spawn(child, (char *const *)arguments);
	if (failure != 0) {
		child->process = 0;
		child_close(child);
		return error_set(error, STATUS_FILE, "%s: cannot be started: %s", arguments[0],
			strerror(failure));
	}
	return STATUS_OK;
}

enum status child_wait(
	struct child *const *children, uint32_t count, uint32_t *ended, struct error *error)
{
	for (;;) {
		struct rusage usage;
		int state;
		pid_t process = wait4(-1, &state, WNOHANG, &usage);
		if (process == 0 || (process < 0 && errno == EINTR)) {
			if (interrupt_is_pending()) {
				return error_set(error, STATUS_VERDICT, "interrupted");
			}
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
			child->peak_memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
			*ended = i;
			return STATUS_OK;
		}
	}
}

static void add_file(FILE *file, struct text *text)
{
	char buffer[4096];
	size_t size;

	if (file == NULL || fseek(file, 0, SEEK_SET) != 0) {
		return;
	}
	while ((size = fread(buffer, 1, sizeof(buffer), file)) > 0) {
		text_add_bytes(text, buffer, size);
	}
}

void child_add_output(struct child *child, struct text *text)
{
	add_file(child->output, text);
}

void child_add_errors(struct child *child, struct text *text)
{
	add_file(child->errors, text);
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
