#include "engine/ranks/launch.h"

#include "engine/base/check.h"
#include "engine/ranks/messages.h"
#include "engine/ranks/ranks_internal.h"

#include <stdlib.h>

static uint32_t number_of(const char *variable, uint32_t otherwise)
{
	const char *text = getenv(variable);

	return text == NULL ? otherwise : (uint32_t)strtoul(text, NULL, 10);
}

/* mpirun of Open MPI tells its processes by these variables. */
struct rank_launch rank_launch_find(void)
{
	const struct rank_launch launch = {
		.rank = number_of("OMPI_COMM_WORLD_RANK", 0),
		.count = number_of("OMPI_COMM_WORLD_SIZE", 1),
	};

	return launch;
}

#ifdef QUIRE_HAS_MPI

enum status rank_launch_join(uint64_t identity, struct error *error)
{
	return rank_launch_find().count > 1 ? mpi_ranks_join(identity, error) : error->status;
}

enum status rank_launch_fail(struct error *error)
{
	return rank_launch_find().count > 1 ? mpi_ranks_fail_opening(error) : error->status;
}

#else

enum status rank_launch_join(uint64_t identity, struct error *error)
{
	(void)identity; /* there is nobody to compare it with */
	if (error->status != STATUS_OK || rank_launch_find().count <= 1) {
		return error->status;
	}
	return error_set(error, STATUS_USAGE,
		"mpirun started %u processes, but this program was built without MPI",
		rank_launch_find().count);
}

enum status rank_launch_fail(struct error *error)
{
	return error->status;
}

enum status messages_open(struct messages **messages, uint64_t identity, struct error *error)
{
	(void)messages;
	return rank_launch_join(identity, error);
}

void messages_send(
	struct messages *messages, const struct message *message, const char *bytes, size_t count)
{
	(void)messages, (void)message, (void)bytes, (void)count;
	check_unreachable("messages were not opened");
}

bool messages_receive(
	struct messages *messages, struct message *message, struct text *bytes, uint32_t timeout_ms)
{
	(void)messages, (void)message, (void)bytes, (void)timeout_ms;
	check_unreachable("messages were not opened");
}

void messages_close(struct messages *messages, bool is_broken)
{
	(void)messages, (void)is_broken;
}

enum status mpi_ranks_open(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	(void)ranks, (void)options; /* rank_launch_join() has refused */
	return error_set(error, STATUS_USAGE, "this program was built without MPI");
}

#endif
