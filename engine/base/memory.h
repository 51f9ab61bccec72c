#ifndef ENGINE_BASE_MEMORY_H
#define ENGINE_BASE_MEMORY_H

#include <stddef.h>

/* Host memory. Structures take what they need when they are opened, from limits in their
   configuration, and keep it; what is allowed to grow says so in its header. */

/* Zeroed memory for `count` elements of `size` bytes. An overflow of the product is a failed check;
   exhaustion ends the program with one line and exit code 2, since nothing here can go on without
   it. Free with free(). */
void *memory_take(size_t count, size_t size);

/* Says what was asked for in one line and ends the program with exit code 2. */
_Noreturn void memory_exhausted(size_t bytes);

/* Grows a buffer made by memory_take to at least `count` elements (to the next power of two);
 *capacity is updated; new elements are not initialised. */
void *memory_grow(void *buffer, size_t *capacity, size_t count, size_t size);

#endif
