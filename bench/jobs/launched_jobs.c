#include "bench/jobs/jobs_internal.h"

#include "engine/base/check.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"
#include "engine/base/unfinished.h"
#include "engine/ranks/launch.h"
#include "engine/ranks/messages.h"

#include <stdlib.h>
#include <string.h>

/* Workers as processes that mpirun started: worker i is rank i + 1. */

enum message_kind {
	MESSAGE_JOB,	/* to a worker */
	MESSAGE_CLOSE,	/* to a worker: there are no more */
	MESSAGE_RESULT, /* of a worker */
	MESSAGE_ERROR,	/* of a worker; the bytes are a struct error */
	MESSAGE_LEAVES, /* of a worker that was asked to end; it has not done its job */
};

struct launched_jobs {
	struct messages *messages;
	uint32_t count; /* workers */
	uint32_t busy_count;
	bool *has_left; /* (count) */
};

/* ---- a worker ---- */

static void send_answer(struct messages *messages, uint64_t number, enum status status,
	const struct text *result, const struct error *error)
{
	struct message message = {.rank = 0, .number = number};

	if (interrupt_is_pending()) {
		message.kind = MESSAGE_LEAVES; /* what run() returned may be of half a run */
		messages_send(messages, &message, NULL, 0);
	} else if (status == STATUS_OK) {
		message.kind = MESSAGE_RESULT;
		messages_send(messages, &message, result->bytes, result->byte_count);
	} else {
		message.kind = MESSAGE_ERROR;
		messages_send(messages, &message, (const char *)error, sizeof(*error));
	}
}

/* The life of a worker, which does not return to its caller. It handles signals as the manager
   does, for mpirun sends them to all; the manager decides. */
static void work(struct messages *messages, const struct jobs_options *options)
{
	struct text job = {0}, result = {0};
	struct message message = {.kind = MESSAGE_JOB};

	interrupt_hold();
	while (message.kind != MESSAGE_CLOSE) {
		if (!messages_receive(messages, &message, &job, JOBS_WAIT_MS) ||
			message.kind != MESSAGE_JOB) {
			continue;
		}
		struct error error = {0};
		enum status status = interrupt_is_pending() ? STATUS_OK
							    : options->run(options->context, &job,
								      &result, &error);
		send_answer(messages, message.number, status, &result, &error);
		text_deinit(&result);
	}
	text_deinit(&job);
	unfinished_remove_all(); /* what was made before jobs_open(): nobody returns to remove it */
	messages_close(messages, false);
	check_unreachable("a worker that outlives its messages");
}

/* ---- the manager ---- */

static enum status launched_give(
	void *state, uint32_t worker, const struct text *job, struct error *error)
{
	struct launched_jobs *launched = state;
	const struct message message = {.rank = worker + 1, .kind = MESSAGE_JOB};

	if (launched->has_left[worker]) {
		return error_set(error, STATUS_DEVICE, "every process of mpirun was asked to end");
	}
	messages_send(launched->messages, &message, job->bytes, job->byte_count);
	launched->busy_count++;
	return STATUS_OK;
}

static void launched_take(void *state, struct job_event *event)
{
	struct launched_jobs *launched = state;
	struct message message;
	struct error error;

	if (!messages_receive(launched->messages, &message, &event->text, JOBS_WAIT_MS)) {
		return;
	}
	event->worker = message.rank - 1;
	launched->busy_count--;
	if (message.kind == MESSAGE_LEAVES) {
		launched->has_left[event->worker] = true;
		event->end = JOB_ORPHAN;
		text_deinit(&event->text);
		text_add(&event->text, "was asked to end by a signal");
		return;
	}
	event->end = JOB_DONE;
	if (message.kind == MESSAGE_ERROR) {
		check(event->text.byte_count == sizeof(error));
		memcpy(&error, event->text.bytes, sizeof(error));
		text_deinit(&event->text);
		text_add(&event->text, error.text);
		event->status = error.status;
	}
}

static void launched_close(void *state)
{
	struct launched_jobs *launched = state;

	for (uint32_t i = 0; i < launched->count; i++) {
		const struct message message = {.rank = i + 1, .kind = MESSAGE_CLOSE};
		messages_send(launched->messages, &message, NULL, 0);
	}
	/* A job that nobody waits for may take long. */
	messages_close(launched->messages, launched->busy_count > 0);
	free(launched->has_left);
	free(launched);
}

enum status launched_jobs_open(
	void **state, uint32_t *workers, const struct jobs_options *options, struct error *error)
{
	const struct rank_launch launch = rank_launch_find();
	struct messages *messages = NULL;

	TRY(messages_open(&messages, options->identity, error));
	if (launch.rank != 0) {
		work(messages, options);
	}
	struct launched_jobs *launched = memory_take(1, sizeof(*launched));
	*workers = launch.count - 1;
	launched->messages = messages;
	launched->count = *workers;
	launched->has_left = memory_take(launched->count, sizeof(*launched->has_left));
	*state = launched;
	return STATUS_OK;
}

const struct jobs_transport launched_jobs = {
	.give = launched_give,
	.take = launched_take,
	.close = launched_close,
};

enum status jobs_check_launch(uint64_t workers, const char *trace_path, struct error *error)
{
	uint32_t launched = rank_launch_find().count;

	if (launched > 1 && workers > 0) {
		return error_set(error, STATUS_USAGE,
			"--jobs belongs to one machine: mpirun started %u processes, which do the "
			"runs",
			launched);
	}
	if (launched > 1 && strcmp(trace_path, "-") == 0) {
		return error_set(error, STATUS_USAGE,
			"only one process of mpirun has the standard input: name a file");
	}
	return STATUS_OK;
}
