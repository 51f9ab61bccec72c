#ifndef ENGINE_BASE_NUMBER_H
#define ENGINE_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/integer.h"

/* Text to numbers and back, exactly: without floating point, blanks or signs.

   For any other text, or a number beyond 64 bits, they return false and leave *value unchanged. */

/* The word that agrees with a count: 1 request exceeds, 2 requests exceed. */
static inline const char *word_of_count(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

/* Digits only; leading zeros are allowed. */
bool digits_to_u64(const char *text, size_t bytes, uint64_t *value);
bool text_to_u64(const char *text, uint64_t *value); /* up to the NUL */

/* A decimal fraction such as 12, 0.5 or 6.1114e1, times 10^places. Further decimals are cut off. */
bool decimal_to_u64(const char *text, size_t bytes, uint32_t places, uint64_t *value);

/* A decimal fraction with at most six places and no exponent, in millionths. */
bool text_to_millionths(const char *text, uint64_t *value);

enum { NUMBER_TEXT_BYTES = 64, U64_DIGITS_MAX = 20 };

/* The digits of a value, without a NUL; text: (U64_DIGITS_MAX). Returns their number. */
size_t u64_digits(char *text, uint64_t value);

/* The text of value / 10^places, with exactly that many places, at most 18; text:
   (NUMBER_TEXT_BYTES). Returns its length. */
size_t decimal_text(char *text, u128 value, uint32_t places);

/* The same without zeros behind the last digit that counts: 2.5 and 2, not 2.500000. */
size_t short_decimal_text(char *text, u128 value, uint32_t places);

/* numerator / denominator with `places` places, rounded down; `none` when the denominator is 0. */
size_t ratio_text(char *text, u128 numerator, u128 denominator, uint32_t places, const char *none);

/* The same rounded to the nearest, a half up: for reading. Files have ratio_text(). */
size_t rounded_text(
	char *text, u128 numerator, u128 denominator, uint32_t places, const char *none);

#endif
