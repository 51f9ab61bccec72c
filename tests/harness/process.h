#ifndef TESTS_HARNESS_PROCESS_H
#define TESTS_HARNESS_PROCESS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Programs that a test runs, and what they print. */

/* Result of a process that has ended; the texts are owned. */
struct process_result {
	int code; /* exit code; -1: ended by a signal */
	char *out;
	char *err;
	long rss_kib; /* at its peak */
};

struct process_order {
	const char *program;	      /* a path */
	const char *const *arguments; /* ends with NULL; the first is the program's name */
	const char *folder;	      /* working folder; NULL: that of the test */
	const char *variable;	      /* NAME of its environment, or NULL */
	const char *value;
	uint64_t file_bytes_max; /* no file grows beyond; 0: no limit */
};

struct process {
	pid_t id;
	FILE *out, *err;
};

void process_start(struct process *process, const struct process_order *order);

/* Waits for its end. */
struct process_result process_finish(struct process *process);

/* Starts a shell command line and waits for its end. */
struct process_result shell_run(const char *folder, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void process_result_free(struct process_result *result);

/* Runs `quire ARGUMENTS`, which a shell reads, in `folder`. */
struct process_result quire_run_in(const char *folder, const char *arguments);

/* Runs `quire ARGUMENTS`, which a shell reads and in which @ is replaced by `folder`, where the
   test runs, and demands this exit code. Returns both outputs, owned by the caller. */
char *quire_output(const char *folder, int code, const char *arguments);

/* Captures what the test itself writes to a descriptor. */
struct capture {
	int descriptor, kept;
	FILE *file;
};

void capture_begin(struct capture *capture, int descriptor);

/* Returns the captured text, owned by the caller, and restores the descriptor. */
char *capture_end(struct capture *capture);

#endif
