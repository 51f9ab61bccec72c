#ifndef TESTS_HARNESS_RING_STRESS_H
#define TESTS_HARNESS_RING_STRESS_H

#include <stdint.h>

/* The ring of engine/ranks between threads: this one writes, the others read. */

struct ring_stress {
	uint32_t readers;
	uint32_t messages;
	uint32_t first;	  /* count before the first message */
	uint32_t naps;	  /* in so many messages each thread sleeps once, for 3 ms; 0: never */
	uint64_t spin_ns; /* of every wait */
};

/* Messages that a reader found to be wrong, and timeouts. */
uint32_t ring_stress_run(const struct ring_stress *stress);

#endif
