#ifndef ENGINE_RANKS_MESSAGES_H
#define ENGINE_RANKS_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Messages between processes that mpirun started and that are no ranks of one run: rank 0 hands out
   work, the others do it. All of them parse the command line and come to messages_open() by
   themselves. Once in the life of a process, and not together with ranks_open(). When a process
   dies mpirun ends the others. */

struct messages;

struct message {
	uint32_t rank; /* of the process that it goes to or comes from */
	uint32_t kind; /* these two are the caller's */
	uint64_t number;
};

enum { MESSAGE_BYTES_MAX = 1 << 30 };

/* Where mpirun started several processes (engine/ranks/launch.h). Collective. error: this process's
   so far, {0} or what it failed with; identity: a hash of what must be equal in all of them. On an
   error that any process has, rank 0 returns it and the others end. */
enum status messages_open(struct messages **messages, uint64_t identity, struct error *error);

/* Sends bytes (count, at most MESSAGE_BYTES_MAX). May wait until the other process receives. */
void messages_send(
	struct messages *messages, const struct message *message, const char *bytes, size_t count);

/* The next message to this process; its bytes replace those of `bytes`. Waits at most timeout_ms,
   asleep most of the time: processes may outnumber processors. False: there was none. */
bool messages_receive(struct messages *messages, struct message *message, struct text *bytes,
	uint32_t timeout_ms);

/* Rank 0: ends MPI, which waits for the others to come here too; is_broken: the others are not
   waited for, and mpirun ends them together with this process. The others: ends the process. */
void messages_close(struct messages *messages, bool is_broken);

#endif
