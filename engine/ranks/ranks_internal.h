#ifndef ENGINE_RANKS_RANKS_INTERNAL_H
#define ENGINE_RANKS_RANKS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "engine/ranks/ranks.h"

/* What is common to all ways of starting ranks; for the files of engine/ranks only. */

/* What a rank brings to a barrier. */
struct rank_arrival {
	uint32_t status; /* enum status */
	uint32_t bytes;	 /* of the payload; equal in all ranks */
	char text[ERROR_TEXT_BYTES];
	unsigned char payload[RANK_PAYLOAD_BYTES];
};

/* A way of starting ranks. The functions are those of ranks.h; look is ranks_check(). */
struct rank_transport {
	bool shares_memory;
	/* all is (count). Fails only where a rank cannot arrive. */
	enum status (*gather)(struct ranks *ranks, const struct rank_arrival *own,
		struct rank_arrival *all, struct error *error);
	enum status (*gather_files)(struct ranks *ranks, int own, int *fds, struct error *error);
	enum status (*exchange)(struct ranks *ranks, void *all, size_t bytes, struct error *error);
	/* Processor time that a rank has used. */
	uint64_t (*busy_ns)(struct ranks *ranks, uint32_t rank);
	enum status (*post)(
		struct ranks *ranks, const struct rank_message *message, struct error *error);
	enum status (*receive)(
		struct ranks *ranks, struct rank_message *message, struct error *error);
	enum status (*look)(struct ranks *ranks, struct error *error);
	void (*fail)(struct ranks *ranks, const struct error *error);
	void (*close)(struct ranks *ranks);
};

struct ranks {
	const struct rank_transport *transport;
	void *state; /* of the transport */
	uint32_t index, count;
	uint64_t limit_ns;
	uint64_t spin_ns;     /* of a wait; 0 where ranks have no processor each */
	uint64_t step_count;  /* steps posted or received; 0: still opening */
	uint64_t step;	      /* the latest */
	bool is_common_error; /* all ranks have failed with the same error */
	uint32_t runs_after;  /* see struct ranks_options */

	enum status (*watch)(void *argument, struct error *error); /* or NULL */
	void *watch_argument;

	unsigned char *memory; /* page-aligned */
	size_t memory_bytes;
	unsigned char *data; /* in memory */
	_Atomic uint32_t *abort;

	size_t exchange_bytes;
	int32_t *tokens; /* (count, exchange_bytes), for ranks_agree_tokens() */
};

/* Waits in slices of this length, and looks for failures between them. Limits count slices, so a
   run that is stopped and continued from a terminal does not exceed them. */
enum { RANK_SLICE_NS = 20 * 1000 * 1000 };

enum { RANK_WHERE_BYTES = 48 };

/* " in step 12", or " while opening". */
void ranks_where(const struct ranks *ranks, char *text);

/* The forked ranks. Returns in rank 0 only. */
enum status forked_ranks_open(
	struct ranks *ranks, const struct ranks_options *options, struct error *error);

/* The ranks that mpirun started. Returns in rank 0 only. */
enum status mpi_ranks_open(
	struct ranks *ranks, const struct ranks_options *options, struct error *error);

/* See engine/ranks/launch.h. */
enum status mpi_ranks_join(uint64_t identity, struct error *error);
enum status mpi_ranks_fail_opening(struct error *error);

#endif
