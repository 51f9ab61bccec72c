#ifndef TESTS_FAULTS_FAULT_PROGRAM_H
#define TESTS_FAULTS_FAULT_PROGRAM_H

#include <stdbool.h>

#include "tests/faults/fault_board.h"

/* A program with the shim inside, which runs again and again in one folder, each time with a
   fault. */

enum { FAULT_PATH_BYTES = 256 };

struct fault_program {
	struct fault_board *board;
	int orders, answers, out, err;
	pid_t server;
	char root[FAULT_PATH_BYTES];   /* holds `folder` and what the test keeps beside it */
	char folder[FAULT_PATH_BYTES]; /* where the program runs */
};

/* How a run ended; the texts are owned. */
struct fault_run {
	bool is_hung;	 /* it was killed after FAULT_SECONDS */
	bool is_stopped; /* by SIGSTOP; fault_program_continue() */
	int code;	 /* exit code; -1: ended by a signal */
	int signal;	 /* 0: it ended by itself */
	char *out, *err;
	struct fault_board board;
};

enum { FAULT_SECONDS = 20 };

/* Makes the folders, in memory where the system has a file system there. */
void fault_program_open(struct fault_program *program);

/* Starts the server. path: of the program; arguments are split at spaces. False: the kernel lacks
   the syscall user dispatch that the shim needs, or forbids it. */
bool fault_program_start(struct fault_program *program, const char *path, const char *arguments);
void fault_program_stop(struct fault_program *program);

/* Stops the server and removes the folders. */
void fault_program_close(struct fault_program *program);

/* fault: NULL for none. */
void fault_program_run(
	struct fault_program *program, const struct fault *fault, struct fault_run *run);

/* Lets a stopped run go on to its end. Its texts are those of the whole run. */
void fault_program_continue(struct fault_program *program, struct fault_run *run);

void fault_run_free(struct fault_run *run);

#endif
