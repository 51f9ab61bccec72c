#ifndef ENGINE_BASE_MEMORY_H
#define ENGINE_BASE_MEMORY_H

#include <stddef.h>

/* Host memory. Structures allocate what they need when they are opened, from limits in their
   configuration, and keep it. Headers document buffers that may grow.

   Exhaustion ends the program with one line and exit code 2, since no caller could continue. That
   holds for libraries too where they accept an allocator: cJSON (json_memory_init()), YAJL, zlib
   and PCRE2. Other failed allocations, such as a FILE or libzstd's, are errors of the call that
   needed them.

   Exhaustion may happen on any thread. The program ends by exit, so what is registered with
   atexit still runs. A process that was started (gnuplot) has memory of its own: its end shows
   in its exit code. */

/* Zeroed memory for `count` elements of `size` bytes. An overflow of the product is a failed check.
   Free with free(). */
void *memory_take(size_t count, size_t size);

/* `bytes` bytes that are not cleared, for an owner that writes each before it reads it. */
void *memory_take_uncleared(size_t bytes);

/* A state of XXH64 with seed 0 and no bytes yet. Free with XXH64_freeState(). */
struct XXH64_state_s *memory_take_hash(void);

/* Memory of this module (or NULL), grown or shrunk to `bytes` bytes. */
void *memory_resize(void *memory, size_t bytes);

/* Prints the requested size in one line and ends the program with exit code 2. */
_Noreturn void memory_exhausted(size_t bytes);

/* Grows a buffer of memory_take() (or NULL) to at least `count` elements (to the next power of
   two);
 *capacity is updated; new elements are not initialised. */
void *memory_grow(void *buffer, size_t *capacity, size_t count, size_t size);

#endif
