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

   From jobs_open() to jobs_close() interrupts are held (engine/base/interrupt.h). A worker that is
   asked to end by a signal is one that dies. */

enum { JOBS_WORKERS_MAX = 1024, JOB_BYTES_MAX = 1 << 30 };

/* The number of no job. */
#define JOBS_NONE UINT64_MAX

struct jobs;

struct jobs_options {
	uint32_t workers; /* 1 to JOBS_WORKERS_MAX */

	/* Does a job. result is empty; after an error what is in it is dropped. The manager
	   must not change what context points to between jobs_open() and jobs_close(). */
	enum status (*run)(
		void *context, const struct text *job, struct text *result, struct error *error);
	void *context;
};

/* As many workers as this machine has processors. */
uint32_t jobs_default_workers(void);

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

/* Ends the workers; one that is busy has 2 s to end by itself. Accepts NULL. */
void jobs_close(struct jobs *jobs);

#endif
