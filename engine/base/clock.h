#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

/* The end of every clock, 292 years: no time of a trace, a tape or a replay is beyond it, so that
   the sum of two times fits 64 bits. */
#define CLOCK_NS_MAX ((UINT64_C(1) << 63) - 1)

/* Real time in nanoseconds, for measurements: it never decreases, and its origin is arbitrary. Code
   that decides or simulates must not read it. */
uint64_t monotonic_ns(void);

/* Waits; a signal ends it early. */
void pause_ns(uint64_t ns);

#endif
