#ifndef ENGINE_RANKS_RING_H
#define ENGINE_RANKS_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/ranks/ranks.h"
#include "engine/ranks/shared_word.h"

/* Messages from one writer to several readers, each of whom takes all of them in order. It lies in
   memory that they share, zeroed.

	posted ─┐                message m is in slot m % RING_SLOTS; it may be overwritten when
	    ┌───┴───┬───────┬───────┬───────┐         all readers have taken it
	    │ slot  │ slot  │ slot  │ slot  │
	    └───────┴───┬───┴───────┴───────┘
	taken[0], taken[1], ... counts of the messages that each reader has copied

   Counts are 32 bits and pass 2^32. */

enum { RING_SLOTS = 4, RING_READERS_MAX = RANKS_MAX - 1 };

struct ring {
	struct shared_word posted;
	struct shared_word taken[RING_READERS_MAX];
	_Alignas(CACHE_LINE) struct rank_message slots[RING_SLOTS];
	_Alignas(CACHE_LINE) uint32_t reader_count;
	uint32_t room_until; /* the writer's: counts below it may be posted without another look */
};

/* first: the count before the first message; tests start close to 2^32. */
void ring_init(struct ring *ring, uint32_t reader_count, uint32_t first);

/* The writer: waits at most timeout_ns for room, of which it spins spin_ns, and posts. False: there
   was none; *slowest is a reader that has not taken the oldest message. */
bool ring_post(struct ring *ring, const struct rank_message *message, uint64_t spin_ns,
	uint64_t timeout_ns, uint32_t *slowest);

/* A reader: waits at most timeout_ns, of which it spins spin_ns, and copies the next message.
   False: there was none. */
bool ring_take(struct ring *ring, uint32_t reader, struct rank_message *message, uint64_t spin_ns,
	uint64_t timeout_ns);

#endif
