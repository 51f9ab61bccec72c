#define _GNU_SOURCE

#include "tests/faults/fault_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

enum { ARGUMENTS_MAX = 64, COMMAND_BYTES = 1024, NO_DISPATCH = 77 };

void fault_program_open(struct fault_program *program)
{
	char folder[] = "/dev/shm/quire-faults-XXXXXX", other[TEMPORARY_PATH_BYTES];

	*program = (struct fault_program){0};
	if (mkdtemp(folder) != NULL) {
		snprintf(program->root, sizeof(program->root), "%s", folder);
	} else {
		temporary_folder(other);
		snprintf(program->root, sizeof(program->root), "%.200s", other);
	}
	snprintf(program->folder, sizeof(program->folder), "%.200s/work", program->root);
	require(mkdir(program->folder, 0777) == 0, "no folder %s", program->folder);
}

static int open_text(const struct fault_program *program, const char *name)
{
	char path[FAULT_PATH_BYTES];

	snprintf(path, sizeof(path), "%.200s/%s", program->root, name);
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	require(file >= 0, "%s cannot be opened", path);
	return file;
}

/* Keeps the descriptors apart from those that the server gets. */
static int moved(int file)
{
	int other = fcntl(file, F_DUPFD_CLOEXEC, 300);

	require(other >= 0, "no descriptor");
	close(file);
	return other;
}

static _Noreturn void become_server(
	const struct fault_program *program, const char *path, char *arguments, const int *files)
{
	char *list[ARGUMENTS_MAX] = {"quire"};
	int count = 1;
	int nothing = open("/dev/null", O_RDONLY);

	for (char *word = strtok(arguments, " "); word != NULL; word = strtok(NULL, " ")) {
		list[count++] = word;
	}
	bool is_ready = dup2(nothing, STDIN_FILENO) >= 0 &&
			dup2(program->out, STDOUT_FILENO) >= 0 &&
			dup2(program->err, STDERR_FILENO) >= 0 &&
			dup2(files[0], FAULT_ORDERS) >= 0 && dup2(files[1], FAULT_ANSWERS) >= 0 &&
			dup2(files[2], FAULT_BOARD) >= 0 && chdir(program->folder) == 0;
	setenv("LD_PRELOAD", FAULT_SHIM, 1);
	setenv("PATH", FAULT_GNUPLOT_FOLDER ":/usr/bin:/bin", 1);
	setenv("CUDA_VISIBLE_DEVICES", "-1", 1); /* operations of a GPU's driver are not quire's */
	/* The shim has to be asked before the sanitizer. What a failed run leaves to the system is
	   no leak. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
	if (is_ready) {
		execv(path, list);
	}
	_exit(1);
}

bool fault_program_start(struct fault_program *program, const char *path, const char *arguments)
{
	char copy[COMMAND_BYTES];
	int orders[2], answers[2];
	struct fault_run run;

	require(strlen(arguments) < sizeof(copy), "the arguments are too long");
	strcpy(copy, arguments);
	int board = moved(open_text(program, "board"));
	program->out = moved(open_text(program, "out"));
	program->err = moved(open_text(program, "err"));
	require(ftruncate(board, sizeof(struct fault_board)) == 0, "no board");
	program->board = mmap(
		NULL, sizeof(struct fault_board), PROT_READ | PROT_WRITE, MAP_SHARED, board, 0);
	require(program->board != MAP_FAILED, "no board");
	require(pipe2(orders, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0, "no pipe");
	const int files[] = {moved(orders[0]), moved(answers[1]), board};
	program->orders = moved(orders[1]);
	program->answers = moved(answers[0]);
	fflush(NULL);
	program->server = fork();
	require(program->server >= 0, "no child");
	if (program->server == 0) {
		become_server(program, path, copy, files);
	}
	for (int i = 0; i < 3; i++) {
		close(files[i]);
	}
	fault_program_run(program, NULL, &run);
	bool has_dispatch = run.code != NO_DISPATCH;
	fault_run_free(&run);
	return has_dispatch;
}

void fault_program_stop(struct fault_program *program)
{
	if (program->server == 0) {
		return;
	}
	close(program->orders);
	close(program->answers);
	close(program->out);
	close(program->err);
	require(waitpid(program->server, NULL, 0) == program->server, "the server is lost");
	munmap(program->board, sizeof(struct fault_board));
	program->server = 0;
}

void fault_program_close(struct fault_program *program)
{
	fault_program_stop(program);
	temporary_remove(program->folder);
	temporary_remove(program->root);
}

/* ---- a run ---- */

static char *read_text(int file)
{
	struct stat info;

	require(fstat(file, &info) == 0, "no text");
	size_t bytes = (size_t)info.st_size;
	char *text = calloc(bytes + 1, 1);
	require(text != NULL && pread(file, text, bytes, 0) == (ssize_t)bytes, "no text");
	return text;
}

static void order(const struct fault_program *program, char what)
{
	require(write(program->orders, &what, 1) == 1, "the server is gone");
}

/* Waits for the server's answer. A program that hangs, even with signals blocked, is killed. */
static int await(const struct fault_program *program, bool *is_hung)
{
	struct pollfd answers = {.fd = program->answers, .events = POLLIN};
	int state = 0;

	*is_hung = poll(&answers, 1, FAULT_SECONDS * 1000) == 0;
	if (*is_hung) {
		kill(-program->board->process, SIGKILL); /* and what it has started */
	}
	require(read(program->answers, &state, sizeof(state)) == sizeof(state),
		"the server is gone");
	return state;
}

static void finish(struct fault_program *program, struct fault_run *run, int state)
{
	free(run->out);
	free(run->err);
	run->is_stopped = WIFSTOPPED(state);
	run->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
	run->code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
	run->out = read_text(program->out);
	run->err = read_text(program->err);
	run->board = *program->board;
}

static void clear_texts(const struct fault_program *program)
{
	require(ftruncate(program->out, 0) == 0 && ftruncate(program->err, 0) == 0,
		"the outputs cannot be emptied");
}

void fault_program_run(
	struct fault_program *program, const struct fault *fault, struct fault_run *run)
{
	*run = (struct fault_run){0};
	*program->board = (struct fault_board){.fault = fault == NULL ? (struct fault){0} : *fault};
	clear_texts(program);
	order(program, FAULT_RUN);
	finish(program, run, await(program, &run->is_hung));
}

void fault_program_continue(struct fault_program *program, struct fault_run *run)
{
	bool is_hung = false;

	clear_texts(program);
	require(write(program->out, run->out, strlen(run->out)) >= 0 &&
			write(program->err, run->err, strlen(run->err)) >= 0,
		"the outputs cannot be written");
	*program->board = run->board;
	order(program, FAULT_CONTINUE);
	finish(program, run, await(program, &is_hung));
	run->is_hung = run->is_hung || is_hung;
}

void fault_run_free(struct fault_run *run)
{
	free(run->out);
	free(run->err);
	*run = (struct fault_run){0};
}
