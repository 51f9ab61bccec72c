#include "engine/ranks/ring.h"

#include "engine/base/check.h"

#include <assert.h>

static_assert(sizeof(struct rank_message) == CACHE_LINE, "a message is one cache line");
static_assert((RING_SLOTS & (RING_SLOTS - 1)) == 0, "slots must divide 2^32, where counts wrap");

void ring_init(struct ring *ring, uint32_t reader_count, uint32_t first)
{
	check(reader_count >= 1 && reader_count <= RING_READERS_MAX);
	ring->reader_count = reader_count;
	ring->room_until = first;
	for (uint32_t r = 0; r < reader_count; r++) {
		shared_word_set(&ring->taken[r], first);
	}
	shared_word_set(&ring->posted, first);
}

/* Waits until every reader has taken so many messages that message `count` has a slot. */
static bool await_room(
	struct ring *ring, uint32_t count, uint64_t spin_ns, uint64_t timeout_ns, uint32_t *slowest)
{
	uint32_t least = count;

	for (uint32_t r = 0; r < ring->reader_count; r++) {
		struct shared_word *taken = &ring->taken[r];
		if (!shared_word_await(taken, count + 1 - RING_SLOTS, spin_ns, timeout_ns)) {
			*slowest = r;
			return false;
		}
		uint32_t value = shared_word_value(taken);
		least = (int32_t)(value - least) < 0 ? value : least;
	}
	ring->room_until = least + RING_SLOTS;
	return true;
}

bool ring_post(struct ring *ring, const struct rank_message *message, uint64_t spin_ns,
	uint64_t timeout_ns, uint32_t *slowest)
{
	uint32_t count = shared_word_value(&ring->posted);

	if (count == ring->room_until && !await_room(ring, count, spin_ns, timeout_ns, slowest)) {
		return false;
	}
	ring->slots[count % RING_SLOTS] = *message;
	shared_word_set(&ring->posted, count + 1);
	return true;
}

bool ring_take(struct ring *ring, uint32_t reader, struct rank_message *message, uint64_t spin_ns,
	uint64_t timeout_ns)
{
	uint32_t count = shared_word_value(&ring->taken[reader]);

	check(reader < ring->reader_count);
	if (!shared_word_await(&ring->posted, count + 1, spin_ns, timeout_ns)) {
		return false;
	}
	*message = ring->slots[count % RING_SLOTS];
	shared_word_set(&ring->taken[reader], count + 1);
	return true;
}
