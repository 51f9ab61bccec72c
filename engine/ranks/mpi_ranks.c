#include "engine/ranks/ranks_internal.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/ranks/launch.h"
#include "engine/ranks/mpi_library.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ranks as processes of mpirun, on one host or several. Nothing is shared: messages, the bytes of
   the data that they name, and what ranks exchange are sent. When a rank dies mpirun ends the
   others, so no rank looks for deaths. */

/* ---- collective functions ---- */

static enum status mpi_gather(struct ranks *ranks, const struct rank_arrival *own,
	struct rank_arrival *all, struct error *error)
{
	const struct mpi *mpi = ranks->state;

	(void)error; /* MPI ends the program if it fails */
	mpi->gather(own, sizeof(*own), mpi->byte, all, sizeof(*all), mpi->byte, mpi->world);
	return STATUS_OK;
}

static enum status mpi_gather_files(struct ranks *ranks, int own, int *fds, struct error *error)
{
	(void)own, (void)fds; /* descriptors have no meaning in another host */
	error_set(error, STATUS_DEVICE, "processes of mpirun cannot share file descriptors");
	return ranks_barrier(ranks, error);
}

static enum status mpi_exchange(struct ranks *ranks, void *all, size_t bytes, struct error *error)
{
	const struct mpi *mpi = ranks->state;

	(void)error; /* MPI ends the program if it fails */
	check(bytes <= INT_MAX);
	mpi->gather(MPI_IN_PLACE, 0, mpi->byte, all, (int)bytes, mpi->byte, mpi->world);
	return STATUS_OK;
}

/* Rank 0 sends a message and the data that it names; the others get both. */
static enum status pass(struct ranks *ranks, struct rank_message *message)
{
	const struct mpi *mpi = ranks->state;

	mpi->broadcast(message, sizeof(*message), mpi->byte, 0, mpi->world);
	check(message->data_bytes <= INT_MAX);
	if (message->data_bytes > 0) {
		mpi->broadcast(ranks->data + message->data_offset, (int)message->data_bytes,
			mpi->byte, 0, mpi->world);
	}
	return STATUS_OK;
}

static enum status mpi_post(
	struct ranks *ranks, const struct rank_message *message, struct error *error)
{
	struct rank_message copy = *message;

	(void)error; /* MPI ends the program if it fails */
	return pass(ranks, &copy);
}

static enum status mpi_receive(
	struct ranks *ranks, struct rank_message *message, struct error *error)
{
	(void)error; /* MPI ends the program if it fails */
	return pass(ranks, message);
}

/* ---- failures ---- */

static uint64_t mpi_busy_ns(struct ranks *ranks, uint32_t rank)
{
	(void)ranks, (void)rank; /* nothing of another rank can be seen */
	return 0;
}

static enum status mpi_look(struct ranks *ranks, struct error *error)
{
	return *ranks->abort == 0 ? STATUS_OK
				  : error_set(error, STATUS_DEVICE, "this rank has failed before");
}

/* The other ranks cannot be told of an error that only this one has: they wait in MPI. */
static void mpi_fail(struct ranks *ranks, const struct error *error)
{
	const struct mpi *mpi = ranks->state;

	*ranks->abort = 1;
	if (ranks->index != 0) {
		fprintf(stderr, "quire: rank %u: %s\n", ranks->index, error->text);
		mpi->abort(mpi->world, status_exit_code(error->status));
	}
}

static void mpi_close(struct ranks *ranks)
{
	struct mpi *mpi = ranks->state;
	const struct rank_message message = {.step = ranks->step, .kind = RANK_CLOSE};

	/* After a failure in a step the others may wait in MPI for what never comes: mpirun ends
	   them when this process ends without finalizing. An error that all have is no such. */
	if (ranks->index == 0 && !ranks->is_common_error && *ranks->abort == 0) {
		struct rank_message copy = message;
		pass(ranks, &copy);
	}
	if (*ranks->abort == 0 && (ranks->runs_after == 0 || ranks->is_common_error)) {
		mpi_end(mpi);
	}
	munmap(ranks->memory, ranks->memory_bytes);
	free(mpi);
}

static const struct rank_transport transport = {
	.gather = mpi_gather,
	.gather_files = mpi_gather_files,
	.exchange = mpi_exchange,
	.busy_ns = mpi_busy_ns,
	.post = mpi_post,
	.receive = mpi_receive,
	.look = mpi_look,
	.fail = mpi_fail,
	.close = mpi_close,
};

/* ---- opening ---- */

/* A struct ranks for barriers before ranks_open(). */
static enum status open_barriers(struct ranks *ranks, struct mpi *mpi, struct error *error)
{
	const struct rank_launch launch = rank_launch_find();

	TRY(mpi_load(mpi, error));
	*ranks = (struct ranks){
		.transport = &transport, .state = mpi, .index = launch.rank, .count = launch.count};
	if (launch.rank != 0) {
		/* mpirun sends these to every process; rank 0 decides, and says what there is to
		   say. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
	}
	mpi_begin(mpi);
	if (launch.count > RANKS_MAX) {
		mpi_end(mpi); /* waits for all: mpirun ends those that are late by a signal */
		if (launch.rank != 0) {
			_exit(0);
		}
		return error_set(error, STATUS_USAGE,
			"mpirun started %u processes, expected at most %d", launch.count,
			RANKS_MAX);
	}
	return STATUS_OK;
}

/* Rank 0 returns the error that all have; the others end, without an exit code of their own: mpirun
   would end rank 0 before it has said why. */
static enum status end_opening(const struct ranks *ranks, const struct error *error)
{
	mpi_end(ranks->state);
	if (ranks->index != 0) {
		_exit(0);
	}
	return error->status;
}

enum status mpi_ranks_join(uint64_t identity, struct error *error)
{
	struct mpi mpi = {0};
	struct ranks ranks;
	struct error own = {0};

	if (open_barriers(&ranks, &mpi, &own) != STATUS_OK) {
		*error = error->status == STATUS_OK ? own : *error;
		return error->status;
	}
	if (mpi_is_over(&mpi)) {
		return error_set(error, STATUS_USAGE,
			"under mpirun a command does one run; this one does several");
	}
	if (ranks_agree(&ranks, identity, "build or configuration", error) != STATUS_OK) {
		return end_opening(&ranks, error);
	}
	return STATUS_OK;
}

enum status mpi_ranks_fail_opening(struct error *error)
{
	struct mpi mpi = {0};
	struct ranks ranks;
	struct error own = {0};

	if (open_barriers(&ranks, &mpi, &own) != STATUS_OK || mpi_is_over(&mpi)) {
		return error->status;
	}
	ranks_barrier(&ranks, error);
	return end_opening(&ranks, error);
}

static enum status map_memory(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = page + u64_divide_up(options->data_bytes, page) * page;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		return error_set(error, STATUS_MEMORY, "%zu bytes of memory cannot be had", bytes);
	}
	ranks->memory = memory;
	ranks->memory_bytes = bytes;
	ranks->data = ranks->memory + page;
	ranks->abort = memory;
	return STATUS_OK;
}

/* A run of a rank but 0, from the barrier behind which all have opened ranks. */
static enum status serve_run(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	TRY(ranks_barrier(ranks, error));
	ranks->step_count = 0;
	ranks->watch = NULL;
	memset(ranks->data, 0, options->data_bytes);
	if (options->serve(ranks, options->argument, error) != STATUS_OK &&
		!ranks->is_common_error) {
		ranks_fail(ranks, error);
	}
	return error->status;
}

/* The life of a rank but 0, which does not return to its caller. error: of its opening. */
static _Noreturn void run_rank(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i <= options->runs_after && status == STATUS_OK; i++) {
		status = serve_run(ranks, options, error);
	}
	mpi_end(ranks->state); /* waits for rank 0, which writes its results */
	_exit(0);
}

enum status mpi_ranks_open(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	const struct rank_launch launch = rank_launch_find();
	struct mpi *mpi = memory_take(1, sizeof(*mpi));
	int flag = 0;

	if (mpi_load(mpi, error) != STATUS_OK) {
		free(mpi);
		return error->status;
	}
	ranks->transport = &transport;
	ranks->state = mpi;
	ranks->index = launch.rank;
	map_memory(ranks, options, error);
	check(mpi->initialized(&flag) == MPI_SUCCESS &&
		flag != 0); /* rank_launch_join() was called */
	check(launch.count == options->count);
	if (launch.rank != 0) {
		run_rank(ranks, options, error);
	}
	return ranks_barrier(ranks, error);
}
