#ifndef BENCH_GATE_CHILD_H
#define BENCH_GATE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* A program that runs as a child process, with nothing to read and its output in temporary files.
   An interrupt reaches it too, since it is of the same group. */

enum { CHILD_ARGUMENTS_MAX = 128 };

struct child {
	pid_t process; /* 0: not started */
	FILE *output, *errors;
	uint64_t start_ns;
	uint64_t limit_ns; /* it is ended when it takes longer; 0: it may take any time */

	/* after child_wait() */
	bool is_late;		    /* it was ended at its limit */
	int exit_code;		    /* 128 + its number for a signal */
	uint64_t elapsed_ns;	    /* by the clock on the wall */
	uint64_t cpu_ns;	    /* that it computed, for itself and in the kernel */
	uint64_t peak_memory_bytes; /* the most that was resident */
};

/* Starts arguments[0], which is looked for as a shell does; the list ends in NULL. limit_ns: as in
   struct child. */
enum status child_start(
	struct child *child, const char *const *arguments, uint64_t limit_ns, struct error *error);

/* Waits for any of the children that were started, and takes its results. A signal that ends the
   program, which must be held (engine/base/interrupt.h), is STATUS_VERDICT. */
enum status child_wait(
	struct child *const *children, uint32_t count, uint32_t *ended, struct error *error);

/* Adds what it wrote on the standard error. */
void child_add_errors(struct child *child, struct text *text);

/* Kills a child that still runs. Accepts a zeroed one. */
void child_close(struct child *child);

#endif
