#ifndef BENCH_JOBS_JOBS_INTERNAL_H
#define BENCH_JOBS_JOBS_INTERNAL_H

#include <stdbool.h>

#include "bench/jobs/jobs.h"

/* What is common to all ways of having workers; for the files of bench/jobs only. */

/* What has become of the job that a worker was given. */
enum job_end {
	JOB_RUNS,   /* nothing has happened for a while */
	JOB_DONE,   /* status and text are those of run(): the result, or the line of the error */
	JOB_ORPHAN, /* the worker died; the text says how */
};

struct job_event {
	enum job_end end;
	uint32_t worker;
	enum status status;
	struct text text; /* the caller's; replaced */
};

/* A way of having workers, which are numbered from 0. */
struct jobs_transport {
	/* Gives a job to an idle worker. It may die before it has read it: take() tells. An error:
	   this worker takes none. */
	enum status (*give)(
		void *state, uint32_t worker, const struct text *job, struct error *error);

	/* Waits at most JOBS_WAIT_MS for something to happen to a busy worker. A signal ends the
	   wait. */
	void (*take)(void *state, struct job_event *event);

	void (*close)(void *state);
};

enum { JOBS_WAIT_MS = 100 };

/* Workers that are forked from this process. */
extern const struct jobs_transport forked_jobs;
void *forked_jobs_open(const struct jobs_options *options);

/* Workers that mpirun started. *workers: how many. Returns in rank 0 only. error: as for
   messages_open(). */
extern const struct jobs_transport launched_jobs;
enum status launched_jobs_open(
	void **state, uint32_t *workers, const struct jobs_options *options, struct error *error);

#endif
