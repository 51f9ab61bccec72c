#ifndef BENCH_JOBS_JOBS_H
#define BENCH_JOBS_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Many runs at once. A job is bytes, its result is bytes, and a function makes one of the other in
   a worker process:

	manager   jobs_add ─► queue ─► an idle worker ─► run() ─► jobs_next
	                        ▲             │ dies
	                        └─────────────┘ once

   Workers are forked from the manager when there is a job for them, so they hold everything that
   context points to, as it is then. What run() writes to memory stays in its worker. With one
   worker the manager calls run() itself.

   Jobs are handed out in the order of their numbers and finish in any order. A caller whose next
   jobs depend on results keeps a state for each job, so that what it does depends on results and
   not on their order: then its output has the same bytes with any number of workers.

   A worker that dies (killed, out of memory, a failed check) loses its job, which another does
   again; the second time it is the job's error. Workers are killed when the manager dies. They
   print nothing: their standard output is dropped, the last line of their standard error is part of
   the error when they die.

   Under mpirun the workers are the processes that it started, and rank 0 is the manager; with N
   processes there are N - 1 workers. All of them parse the same command line and come to
   jobs_open(), from which only the manager returns: it owns folders, prints and writes after that.
   When one dies mpirun ends all. Jobs and results are copied between hosts as bytes.

   From jobs_open() to jobs_close() interrupts are held (engine/base/interrupt.h). A worker that is
   asked to end by a signal is one that dies. */

enum { JOBS_WORKERS_MAX = 1024, JOB_BYTES_MAX = 1 << 30 };

/* The number of no job. */
#define JOBS_NONE UINT64_MAX

struct jobs;

struct jobs_options {
	uint32_t workers;  /* 1 to JOBS_WORKERS_MAX; under mpirun it is not read */
	uint64_t identity; /* a hash of what jobs depend on: under mpirun it must be equal in all
			      processes */

	/* Does a job. result is empty; after an error what is in it is dropped. The manager
	   must not change what context points to between jobs_open() and jobs_close(). */
	enum status (*run)(
		void *context, const struct text *job, struct text *result, struct error *error);

	/* Appends what a job is, for the error of one whose workers died: "--speedup 2". NULL: it
	   has its number. */
	void (*describe)(void *context, const struct text *job, struct text *text);
	void *context;
};

/* As many workers as this machine has processors. */
uint32_t jobs_default_workers(void);

/* mpirun says how many jobs are done at once, and gives its standard input to one process: refuses
   a number of workers other than 0, and a trace of `-`. */
enum status jobs_check_launch(uint64_t workers, const char *trace_path, struct error *error);

/* Sticky, but under mpirun every process must come here: error is what it has found wrong so far,
   and rank 0 returns the error of any of them. Once in the life of a process of mpirun. */
enum status jobs_open(struct jobs **jobs, const struct jobs_options *options, struct error *error);

/* Queues a job, whose bytes (at most JOB_BYTES_MAX) are copied. Returns its number, counted from 0.
   */
uint64_t jobs_add(struct jobs *jobs, const void *job, size_t bytes);

/* Jobs that were added and have not come back from jobs_next(). */
uint64_t jobs_pending(const struct jobs *jobs);

/* Waits until a job has finished; there must be one pending. Its bytes replace those of result, an
   error of its own is this call's. STATUS_VERDICT and a *number of JOBS_NONE: interrupted; what is
   still pending will not be done. A *number of JOBS_NONE with another status: no worker can be
   started. */
enum status jobs_next(
	struct jobs *jobs, uint64_t *number, struct text *result, struct error *error);

/* Ends the workers; one that is busy has 2 s to end by itself, and under mpirun none. What shall
   survive an interrupt is written before. Accepts NULL. */
void jobs_close(struct jobs *jobs);

#endif
