#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

/* Real time, for what measures: the clock never goes back, and its origin means nothing. What
   decides or simulates must not read it. */
uint64_t monotonic_ns(void);

#endif
