#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

/* Real time in nanoseconds, for measurements: it never decreases, and its origin is arbitrary. Code
   that decides or simulates must not read it. */
uint64_t monotonic_ns(void);

#endif
