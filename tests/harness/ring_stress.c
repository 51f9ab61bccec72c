#include "tests/harness/ring_stress.h"

#include "engine/base/clock.h"
#include "engine/ranks/ring.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NAP_NS = 3000000 };

static const uint64_t patience_ns = UINT64_C(60000000000);

struct reader {
	const struct ring_stress *stress;
	struct ring *ring;
	uint32_t index;
	uint32_t wrong;
};

/* Every field depends on the number of the message. */
static struct rank_message message_of(uint32_t number)
{
	uint32_t h = number * 2654435761u;

	return (struct rank_message){
		.step = number,
		.data_offset = h + UINT64_C(1) * number * number,
		.data_bytes = h ^ 0x5555u,
		.kind = h % 3,
		.turn = number % 2,
		.bucket = h >> 3,
		.rows = h >> 5,
		.tokens = h >> 7,
		.decode_rows = h >> 9,
		.samples = h >> 11,
		.tiles = h >> 13,
		.splits = h >> 15,
		.additions = h >> 17,
	};
}

static void nap(const struct ring_stress *stress, uint32_t number, uint32_t thread)
{
	if (stress->naps != 0 && (number + 7 * thread) % stress->naps == 0) {
		pause_ns(NAP_NS);
	}
}

static void *read_all(void *argument)
{
	struct reader *reader = argument;
	const struct ring_stress *stress = reader->stress;

	for (uint32_t i = 0; i < stress->messages; i++) {
		const struct rank_message expected = message_of(i);
		struct rank_message found;
		nap(stress, i, reader->index + 1);
		if (!ring_take(reader->ring, reader->index, &found, stress->spin_ns, patience_ns) ||
			memcmp(&found, &expected, sizeof(found)) != 0) {
			reader->wrong++;
		}
	}
	return NULL;
}

uint32_t ring_stress_run(const struct ring_stress *stress)
{
	struct ring *ring = aligned_alloc(CACHE_LINE, sizeof(*ring));
	struct reader readers[RING_READERS_MAX];
	pthread_t threads[RING_READERS_MAX];
	uint32_t wrong = 0, slowest;

	memset(ring, 0, sizeof(*ring));
	ring_init(ring, stress->readers, stress->first);
	for (uint32_t r = 0; r < stress->readers; r++) {
		readers[r] = (struct reader){.stress = stress, .ring = ring, .index = r};
		pthread_create(&threads[r], NULL, read_all, &readers[r]);
	}
	for (uint32_t i = 0; i < stress->messages; i++) {
		const struct rank_message message = message_of(i);
		nap(stress, i, 0);
		wrong += !ring_post(ring, &message, stress->spin_ns, patience_ns, &slowest);
	}
	for (uint32_t r = 0; r < stress->readers; r++) {
		pthread_join(threads[r], NULL);
		wrong += readers[r].wrong;
	}
	free(ring);
	return wrong;
}
