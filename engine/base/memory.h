#ifndef ENGINE_BASE_MEMORY_H
#define ENGINE_BASE_MEMORY_H

#include <stddef.h>

/* Host memory. Structures allocate what they need when they are opened, from limits in their
   configuration, and keep it. Headers document buffers that may grow. */

/* Zeroed memory for `count` elements of `size` bytes. An overflow of the product is a failed check;
   exhaustion ends the program with one line and exit code 2, since no caller could continue. Free
   with free(). */
void *memory_take(size_t count, size_t size);

/* Prints the requested size in one line and ends the program with exit code 2. */
_Noreturn void memory_exhausted(size_t bytes);

/* Grows a buffer of memory_take() (or NULL) to at least `count` elements (to the next power of
   two);
 *capacity is updated; new elements are not initialised. */
void *memory_grow(void *buffer, size_t *capacity, size_t count, size_t size);

#endif
