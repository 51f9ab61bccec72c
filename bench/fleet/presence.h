#ifndef BENCH_FLEET_PRESENCE_H
#define BENCH_FLEET_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When the replicas of a fleet could work. A replica can from the start of the run, or from its
   join, until it fails, or until the last request that it had when it was drained has ended.
   Figures that say how much of a fleet was used, and how evenly, are over this time: nothing is
   expected of a replica that is not there. */

struct presence_span {
	uint64_t from_ns, until_ns; /* UINT64_MAX: it has not ended */
};

struct presence {
	struct presence_of {
		struct presence_span *spans; /* (count) in order of time */
		size_t count, capacity;
	} * each; /* (replica_count) */
	uint32_t replica_count;
};

/* No replica is there. Must be closed. */
void presence_open(struct presence *presence, uint32_t replica_count);
void presence_close(struct presence *presence);

/* A replica is there from now on, or until now. One that already is, or is not, stays so. now_ns
   must not fall. */
void presence_begin(struct presence *presence, uint32_t replica, uint64_t now_ns);
void presence_end(struct presence *presence, uint32_t replica, uint64_t now_ns);

/* Of [start_ns, end_ns), the time in which a replica was there, and the sum of all. */
uint64_t presence_of(
	const struct presence *presence, uint32_t replica, uint64_t start_ns, uint64_t end_ns);
double presence_of_all(const struct presence *presence, uint64_t start_ns, uint64_t end_ns);

#endif
