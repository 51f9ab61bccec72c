#include "engine/ranks/messages.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/ranks/launch.h"
#include "engine/ranks/mpi_library.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 1, PAUSE_NS_MIN = 20 * 1000, PAUSE_NS_MAX = 1000 * 1000, NS_A_MS = 1000 * 1000 };

struct messages {
	struct mpi mpi;
	uint32_t rank, count;
	char *buffer; /* (buffer_capacity) of a message that is sent or received */
	size_t buffer_capacity;
};

/* What a process brings to messages_open(). */
struct arrival {
	uint64_t identity;
	uint64_t status; /* enum status */
	char text[ERROR_TEXT_BYTES];
};

/* The error of the lowest process that has one. */
static enum status error_of(const struct arrival *all, uint32_t count, struct error *error)
{
	*error = (struct error){.status = STATUS_OK};
	for (uint32_t r = 0; r < count; r++) {
		if (all[r].status != STATUS_OK) {
			return r == 0 ? error_set(error, (enum status)all[r].status, "%s",
						all[r].text)
				      : error_set(error, (enum status)all[r].status,
						"process %u: %.480s", r, all[r].text);
		}
	}
	for (uint32_t r = 1; r < count; r++) {
		if (all[r].identity != all[0].identity) {
			return error_set(error, STATUS_USAGE,
				"process %u of mpirun has another build, trace or configuration "
				"than process 0",
				r);
		}
	}
	return STATUS_OK;
}

static enum status meet(struct messages *messages, uint64_t identity, struct error *error)
{
	struct arrival own = {.identity = identity, .status = error->status};
	struct arrival *all = memory_take(messages->count, sizeof(*all));
	const struct mpi *mpi = &messages->mpi;

	memcpy(own.text, error->text, sizeof(own.text));
	mpi->gather(&own, sizeof(own), mpi->byte, all, sizeof(own), mpi->byte, mpi->world);
	enum status status = error_of(all, messages->count, error);
	free(all);
	return status;
}

enum status messages_open(struct messages **out, uint64_t identity, struct error *error)
{
	const struct rank_launch launch = rank_launch_find();
	struct messages *messages = memory_take(1, sizeof(*messages));
	struct error own = {0};

	messages->rank = launch.rank;
	messages->count = launch.count;
	if (mpi_load(&messages->mpi, &own) != STATUS_OK) {
		*error = own;
		free(messages);
		return error->status;
	}
	mpi_begin(&messages->mpi);
	check(!mpi_is_over(&messages->mpi)); /* once in the life of a process */
	if (meet(messages, identity, error) != STATUS_OK) {
		messages_close(messages, false); /* from which only rank 0 returns */
		return error->status;
	}
	*out = messages;
	return STATUS_OK;
}

void messages_send(
	struct messages *messages, const struct message *message, const char *bytes, size_t count)
{
	const struct mpi *mpi = &messages->mpi;
	size_t size = sizeof(*message) + count;

	check(count <= MESSAGE_BYTES_MAX);
	messages->buffer = memory_grow(messages->buffer, &messages->buffer_capacity, size, 1);
	memcpy(messages->buffer, message, sizeof(*message));
	if (count > 0) {
		memcpy(messages->buffer + sizeof(*message), bytes, count);
	}
	mpi->send(messages->buffer, (int)size, mpi->byte, (int)message->rank, TAG, mpi->world);
}

bool messages_receive(
	struct messages *messages, struct message *message, struct text *bytes, uint32_t timeout_ms)
{
	const struct mpi *mpi = &messages->mpi;
	uint64_t left_ns = (uint64_t)timeout_ms * NS_A_MS, pause = PAUSE_NS_MIN;
	MPI_Status status;
	int is_there = 0, size = 0;

	for (;;) {
		mpi->probe(MPI_ANY_SOURCE, TAG, mpi->world, &is_there, &status);
		if (is_there != 0 || left_ns < pause) {
			break;
		}
		pause_ns(pause);
		left_ns -= pause;
		pause = u64_min(2 * pause, PAUSE_NS_MAX);
	}
	if (is_there == 0) {
		return false;
	}
	mpi->count(&status, mpi->byte, &size);
	messages->buffer =
		memory_grow(messages->buffer, &messages->buffer_capacity, (size_t)size, 1);
	mpi->receive(messages->buffer, size, mpi->byte, status.MPI_SOURCE, TAG, mpi->world,
		MPI_STATUS_IGNORE);
	memcpy(message, messages->buffer, sizeof(*message));
	message->rank = (uint32_t)status.MPI_SOURCE;
	text_deinit(bytes);
	if ((size_t)size > sizeof(*message)) { /* an empty text has no bytes */
		text_add_bytes(bytes, messages->buffer + sizeof(*message),
			(size_t)size - sizeof(*message));
	}
	return true;
}

void messages_close(struct messages *messages, bool is_broken)
{
	bool is_first = messages->rank == 0;

	if (!is_first) {
		/* mpirun sends these to what has not ended when rank 0 ends with an exit code. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
	}
	if (!is_broken) {
		mpi_end(&messages->mpi);
	}
	free(messages->buffer);
	free(messages);
	if (!is_first) {
		/* Without an exit code of its own: mpirun would end rank 0 before it has said
		   what there is to say. */
		_exit(0);
	}
}
