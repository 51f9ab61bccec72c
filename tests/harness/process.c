/* dup2, fileno and wait4 are not C. */
#define _DEFAULT_SOURCE

#include "tests/harness/process.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "tests/harness/require.h"

/* Exit codes of a child that could not become the program. */
enum { NO_PROGRAM = 98, NO_OUTPUT = 99 };

/* The text of a temporary file, which is closed. */
static char *read_temporary(FILE *file)
{
	struct text text = {0};
	char buffer[4096];
	size_t size;

	rewind(file);
	text_add(&text, "");
	while ((size = fread(buffer, 1, sizeof(buffer), file)) > 0) {
		text_add_bytes(&text, buffer, size);
	}
	(void)fclose(file);
	/* Tests read it as a string, from which it would hide the rest. */
	require(strlen(text.bytes) == text.byte_count, "a zero byte is printed behind '%s'",
		text.bytes);
	return text.bytes;
}

static _Noreturn void become(const struct process *process, const struct process_order *order)
{
	if (dup2(fileno(process->out), STDOUT_FILENO) < 0 ||
		dup2(fileno(process->err), STDERR_FILENO) < 0 ||
		(order->folder != NULL && chdir(order->folder) != 0)) {
		_exit(NO_OUTPUT);
	}
	if (order->variable != NULL) {
		setenv(order->variable, order->value, 1);
	}
	if (order->file_bytes_max > 0) {
		const struct rlimit limit = {order->file_bytes_max, order->file_bytes_max};
		signal(SIGXFSZ, SIG_IGN); /* so that the write fails instead */
		setrlimit(RLIMIT_FSIZE, &limit);
	}
	execv(order->program, (char *const *)order->arguments);
	_exit(NO_PROGRAM);
}

void process_start(struct process *process, const struct process_order *order)
{
	process->out = tmpfile();
	process->err = tmpfile();
	require(process->out != NULL && process->err != NULL, "no temporary files");
	fflush(NULL);
	process->id = fork();
	require(process->id >= 0, "no child");
	if (process->id == 0) {
		become(process, order);
	}
}

struct process_result process_finish(struct process *process)
{
	struct process_result result;
	struct rusage usage;
	int status = 0;

	require(wait4(process->id, &status, 0, &usage) == process->id, "the child is lost");
	result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	require(result.code != NO_PROGRAM && result.code != NO_OUTPUT, "no program was run");
	result.out = read_temporary(process->out);
	result.err = read_temporary(process->err);
	result.rss_kib = usage.ru_maxrss;
	return result;
}

struct process_result shell_run(const char *folder, const char *format, ...)
{
	char command[4096];
	struct process process;
	va_list list;

	va_start(list, format);
	int length = vsnprintf(command, sizeof(command), format, list);
	va_end(list);
	require(length > 0 && (size_t)length < sizeof(command), "the command is too long");
	const char *const arguments[] = {"sh", "-c", command, NULL};
	const struct process_order order = {
		.program = "/bin/sh", .arguments = arguments, .folder = folder};
	process_start(&process, &order);
	return process_finish(&process);
}

void process_result_free(struct process_result *result)
{
	free(result->out);
	free(result->err);
	*result = (struct process_result){0};
}

struct process_result quire_run_in(const char *folder, const char *arguments)
{
	return shell_run(folder, "'%s' %s", QUIRE_EXECUTABLE, arguments);
}

char *quire_output(const char *folder, int code, const char *arguments)
{
	struct text command = {0};

	text_add(&command, QUIRE_EXECUTABLE " ");
	for (const char *c = arguments; *c != '\0'; c++) {
		text_add_bytes(&command, *c == '@' ? folder : c, *c == '@' ? strlen(folder) : 1);
	}
	struct process_result result = shell_run(NULL, "{ %s; } 2>&1", command.bytes);
	require(result.code == code, "quire %s: exit code %d, expected %d: %s", arguments,
		result.code, code, result.out);
	text_deinit(&command);
	free(result.err);
	return result.out;
}

void capture_begin(struct capture *capture, int descriptor)
{
	*capture = (struct capture){
		.descriptor = descriptor, .kept = dup(descriptor), .file = tmpfile()};
	require(capture->kept >= 0 && capture->file != NULL, "no temporary file");
	(void)fflush(NULL);
	require(dup2(fileno(capture->file), descriptor) >= 0, "dup2");
}

char *capture_end(struct capture *capture)
{
	(void)fflush(NULL);
	require(dup2(capture->kept, capture->descriptor) >= 0, "dup2");
	(void)close(capture->kept);
	return read_temporary(capture->file);
}
