#ifndef ENGINE_BASE_NUMBER_H
#define ENGINE_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text to numbers, exactly: without floating point, blanks or signs. Each returns false, and leaves
   *value as it was, when the text is something else or its number does not fit in 64 bits. */

/* Digits alone; leading zeros are allowed. */
bool digits_to_u64(const char *text, size_t bytes, uint64_t *value);
bool text_to_u64(const char *text, uint64_t *value); /* up to the NUL */

/* A decimal fraction such as 12, 0.5 or 6.1114e1, times 10^places. Further places are cut off. */
bool decimal_to_u64(const char *text, size_t bytes, uint32_t places, uint64_t *value);

/* A decimal fraction with at most six places and no exponent, in millionths. */
bool text_to_millionths(const char *text, uint64_t *value);

#endif
