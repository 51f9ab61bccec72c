#include "bench/fleet/presence.h"

#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>

void presence_open(struct presence *presence, uint32_t replica_count)
{
	presence->replica_count = replica_count;
	presence->each = memory_take(replica_count, sizeof(*presence->each));
}

void presence_close(struct presence *presence)
{
	for (uint32_t i = 0; presence->each != NULL && i < presence->replica_count; i++) {
		free(presence->each[i].spans);
	}
	free(presence->each);
	*presence = (struct presence){0};
}

/* The span that has not ended, or NULL. */
static struct presence_span *open_span(const struct presence_of *own)
{
	struct presence_span *last = own->count == 0 ? NULL : &own->spans[own->count - 1];

	return last != NULL && last->until_ns == UINT64_MAX ? last : NULL;
}

void presence_begin(struct presence *presence, uint32_t replica, uint64_t now_ns)
{
	struct presence_of *own = &presence->each[replica];

	if (open_span(own) == NULL) {
		own->spans = memory_grow(
			own->spans, &own->capacity, own->count + 1, sizeof(*own->spans));
		own->spans[own->count++] = (struct presence_span){now_ns, UINT64_MAX};
	}
}

void presence_end(struct presence *presence, uint32_t replica, uint64_t now_ns)
{
	struct presence_span *span = open_span(&presence->each[replica]);

	if (span != NULL) {
		span->until_ns = now_ns;
	}
}

uint64_t presence_of(
	const struct presence *presence, uint32_t replica, uint64_t start_ns, uint64_t end_ns)
{
	const struct presence_of *own = &presence->each[replica];
	uint64_t sum = 0;

	for (size_t i = 0; i < own->count; i++) {
		uint64_t from_ns = u64_max(own->spans[i].from_ns, start_ns);
		uint64_t until_ns = u64_min(own->spans[i].until_ns, end_ns);
		sum += until_ns - u64_min(from_ns, until_ns);
	}
	return sum;
}

double presence_of_all(const struct presence *presence, uint64_t start_ns, uint64_t end_ns)
{
	double sum = 0;

	for (uint32_t i = 0; i < presence->replica_count; i++) {
		sum += (double)presence_of(presence, i, start_ns, end_ns);
	}
	return sum;
}
