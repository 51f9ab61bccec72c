#include "bench/jobs/jobs.h"

#include "bench/jobs/jobs_internal.h"
#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"
#include "engine/ranks/launch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEATHS_MAX = 2 }; /* of the workers of one job; then it is an error */

struct job {
	uint64_t number; /* JOBS_NONE: no job */
	uint32_t deaths; /* workers that died with it */
	struct text bytes;
};

struct jobs {
	struct jobs_options options;
	const struct jobs_transport *transport; /* NULL: this process does the jobs */
	void *state;
	uint32_t worker_count;
	uint32_t busy_count;
	struct job *given; /* (worker_count) what each worker does */

	struct job *queue; /* (queue_end) of which those from queue_begin on wait */
	size_t queue_begin, queue_end, queue_capacity;
	uint64_t added;
};

uint32_t jobs_default_workers(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);

	return count < 1 ? 1 : (uint32_t)u64_min((uint64_t)count, JOBS_WORKERS_MAX);
}

enum status jobs_open(struct jobs **out, const struct jobs_options *options, struct error *error)
{
	struct jobs *jobs = memory_take(1, sizeof(*jobs));

	jobs->options = *options;
	jobs->worker_count = options->workers;
	if (rank_launch_find().count > 1) {
		jobs->transport = &launched_jobs;
		launched_jobs_open(&jobs->state, &jobs->worker_count, options, error);
	}
	if (error->status != STATUS_OK) {
		free(jobs);
		return error->status;
	}
	check(jobs->worker_count >= 1 && jobs->worker_count <= JOBS_WORKERS_MAX);
	if (jobs->transport == NULL && jobs->worker_count > 1) {
		jobs->transport = &forked_jobs;
		jobs->state = forked_jobs_open(options);
	}
	jobs->given = memory_take(jobs->worker_count, sizeof(*jobs->given));
	for (uint32_t i = 0; i < jobs->worker_count; i++) {
		jobs->given[i].number = JOBS_NONE;
	}
	interrupt_hold();
	*out = jobs;
	return STATUS_OK;
}

void jobs_close(struct jobs *jobs)
{
	if (jobs == NULL) {
		return;
	}
	if (jobs->transport != NULL) {
		jobs->transport->close(jobs->state);
	}
	for (uint32_t i = 0; i < jobs->worker_count; i++) {
		text_deinit(&jobs->given[i].bytes);
	}
	for (size_t i = jobs->queue_begin; i < jobs->queue_end; i++) {
		text_deinit(&jobs->queue[i].bytes);
	}
	free(jobs->given);
	free(jobs->queue);
	free(jobs);
	interrupt_release();
}

/* ---- the queue ---- */

uint64_t jobs_add(struct jobs *jobs, const void *bytes, size_t byte_count)
{
	struct job job = {.number = jobs->added++};

	check(byte_count <= JOB_BYTES_MAX);
	if (jobs->queue_begin > jobs->queue_end / 2) {
		size_t count = jobs->queue_end - jobs->queue_begin;
		memmove(jobs->queue, jobs->queue + jobs->queue_begin, count * sizeof(job));
		jobs->queue_begin = 0;
		jobs->queue_end = count;
	}
	text_add_bytes(&job.bytes, bytes, byte_count);
	jobs->queue = memory_grow(
		jobs->queue, &jobs->queue_capacity, jobs->queue_end + 1, sizeof(*jobs->queue));
	jobs->queue[jobs->queue_end++] = job;
	return job.number;
}

/* Puts back a job that a worker died with. */
static void put_back(struct jobs *jobs, struct job job)
{
	jobs->queue = memory_grow(
		jobs->queue, &jobs->queue_capacity, jobs->queue_end + 1, sizeof(*jobs->queue));
	memmove(jobs->queue + jobs->queue_begin + 1, jobs->queue + jobs->queue_begin,
		(jobs->queue_end - jobs->queue_begin) * sizeof(job));
	jobs->queue[jobs->queue_begin] = job;
	jobs->queue_end++;
}

uint64_t jobs_pending(const struct jobs *jobs)
{
	return jobs->queue_end - jobs->queue_begin + jobs->busy_count;
}

/* ---- doing them ---- */

static enum status interrupted(struct error *error)
{
	return error_set(error, STATUS_VERDICT, "interrupted");
}

/* Does the first job of the queue in this process. *number stays where that is interrupted. */
static enum status do_first(
	struct jobs *jobs, uint64_t *number, struct text *result, struct error *error)
{
	struct job job = jobs->queue[jobs->queue_begin++];
	struct error own = {0};

	enum status status = jobs->options.run(jobs->options.context, &job.bytes, result, &own);
	text_deinit(&job.bytes);
	if (status == STATUS_OK) {
		*number = job.number;
		return STATUS_OK;
	}
	text_deinit(result);
	if (interrupt_is_pending()) {
		return interrupted(error);
	}
	*number = job.number;
	return error_set(error, status, "%s", own.text);
}

/* Gives jobs to idle workers. Fewer workers than wanted are no error. */
static enum status give_out(struct jobs *jobs, struct error *error)
{
	struct error reason = {0};

	for (uint32_t i = 0; i < jobs->worker_count && jobs->queue_begin < jobs->queue_end; i++) {
		struct job *given = &jobs->given[i];
		const struct job *first = &jobs->queue[jobs->queue_begin];
		if (given->number != JOBS_NONE || jobs->transport->give(jobs->state, i,
							  &first->bytes, &reason) != STATUS_OK) {
			continue;
		}
		*given = *first;
		jobs->queue_begin++;
		jobs->busy_count++;
	}
	return jobs->busy_count > 0 ? STATUS_OK
				    : error_set(error, reason.status, "%s", reason.text);
}

/* A worker has died. True: its job has failed. */
static bool bury(struct jobs *jobs, struct job job, struct job_event *event)
{
	struct text line = {0};

	if (++job.deaths < DEATHS_MAX) {
		put_back(jobs, job);
		return false;
	}
	if (jobs->options.describe != NULL) {
		jobs->options.describe(jobs->options.context, &job.bytes, &line);
	} else {
		text_format(&line, "job %llu", (unsigned long long)job.number);
	}
	text_format(&line, ": its worker %.800s, as did one before it", event->text.bytes);
	text_deinit(&event->text);
	event->text = line;
	event->status = STATUS_DEVICE;
	text_deinit(&job.bytes);
	return true;
}

/* Waits for the end of a job; *number JOBS_NONE: not yet. */
static enum status await(
	struct jobs *jobs, uint64_t *number, struct text *result, struct error *error)
{
	struct job_event event = {.end = JOB_RUNS, .text = *result};

	*number = JOBS_NONE;
	jobs->transport->take(jobs->state, &event);
	*result = event.text;
	if (event.end == JOB_RUNS) {
		return STATUS_OK;
	}
	struct job job = jobs->given[event.worker];
	check(job.number != JOBS_NONE);
	jobs->given[event.worker] = (struct job){.number = JOBS_NONE};
	jobs->busy_count--;
	if (event.end == JOB_ORPHAN) {
		bool has_failed = bury(jobs, job, &event);
		*result = event.text;
		if (!has_failed) {
			text_deinit(result);
			return STATUS_OK;
		}
	} else {
		text_deinit(&job.bytes);
	}
	*number = job.number;
	if (event.status == STATUS_OK) {
		return STATUS_OK;
	}
	error_set(error, event.status, "%s", result->bytes == NULL ? "" : result->bytes);
	text_deinit(result);
	return event.status;
}

enum status jobs_next(struct jobs *jobs, uint64_t *number, struct text *result, struct error *error)
{
	check(jobs_pending(jobs) > 0);
	*number = JOBS_NONE;
	text_deinit(result);
	while (!interrupt_is_pending()) {
		if (jobs->transport == NULL) {
			return do_first(jobs, number, result, error);
		}
		TRY(give_out(jobs, error));
		enum status status = await(jobs, number, result, error);
		if (*number != JOBS_NONE) {
			return status;
		}
	}
	return interrupted(error);
}
