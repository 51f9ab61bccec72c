#include "engine/base/number.h"

#include "engine/base/check.h"

#include <string.h>

enum { EXPONENT_MAX = 1000000 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool digits_to_u64(const char *text, size_t bytes, uint64_t *value)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (!is_digit(text[i])) {
			return false;
		}
		uint64_t digit = (uint64_t)(text[i] - '0');
		/* Nineteen digits always fit. */
		if (i >= 19 && sum > (UINT64_MAX - digit) / 10) {
			return false;
		}
		sum = sum * 10 + digit;
	}
	if (bytes == 0) {
		return false;
	}
	*value = sum;
	return true;
}

bool text_to_u64(const char *text, uint64_t *value)
{
	uint64_t sum = 0;
	size_t bytes = 0;

	/* Fast path for table cells: up to 19 digits cannot overflow. */
	for (; bytes < 19 && is_digit(text[bytes]); bytes++) {
		sum = sum * 10 + (uint64_t)(text[bytes] - '0');
	}
	if (bytes > 0 && text[bytes] == '\0') {
		*value = sum;
		return true;
	}
	return digits_to_u64(text, strlen(text), value);
}

/* What follows the e of 1e-3, capped far beyond what 64 bits can hold. */
static bool read_exponent(const char *text, size_t bytes, int64_t *exponent)
{
	size_t i = 0;
	bool is_negative = false;

	if (bytes > 0 && (text[0] == '+' || text[0] == '-')) {
		is_negative = text[0] == '-';
		i = 1;
	}
	if (i == bytes) {
		return false;
	}
	*exponent = 0;
	for (; i < bytes; i++) {
		if (!is_digit(text[i])) {
			return false;
		}
		if (*exponent < EXPONENT_MAX) {
			*exponent = *exponent * 10 + (text[i] - '0');
		}
	}
	*exponent = is_negative ? -*exponent : *exponent;
	return true;
}

struct decimal {
	size_t mantissa_bytes; /* digits and the point */
	int64_t point;	       /* digits before the decimal point, exponent included */
};

static bool read_decimal(const char *text, size_t bytes, struct decimal *decimal)
{
	size_t i = 0;
	size_t digits = 0;
	int64_t exponent = 0;

	while (i < bytes && is_digit(text[i])) {
		i++;
	}
	digits = i;
	decimal->point = (int64_t)i;
	if (digits > 0 && i < bytes && text[i] == '.') {
		size_t start = ++i;
		while (i < bytes && is_digit(text[i])) {
			i++;
		}
		if (i == start) {
			return false;
		}
	}
	decimal->mantissa_bytes = i;
	if (digits == 0) {
		return false;
	}
	if (i < bytes) {
		if ((text[i] != 'e' && text[i] != 'E') ||
			!read_exponent(text + i + 1, bytes - i - 1, &exponent)) {
			return false;
		}
	}
	decimal->point += exponent;
	return true;
}

bool decimal_to_u64(const char *text, size_t bytes, uint32_t places, uint64_t *value)
{
	struct decimal decimal;
	uint64_t sum = 0;

	if (!read_decimal(text, bytes, &decimal)) {
		return false;
	}
	/* The number of digits up to the last decimal place; a short mantissa is padded with zeros.
	   */
	int64_t kept = decimal.point + places;
	size_t i = 0;
	for (int64_t taken = 0; taken < kept; taken++) {
		if (i < decimal.mantissa_bytes && text[i] == '.') {
			i++;
		}
		uint64_t digit = i < decimal.mantissa_bytes ? (uint64_t)(text[i] - '0') : 0;
		i += i < decimal.mantissa_bytes;
		/* Below a tenth of the range the next digit always fits. */
		if (sum >= UINT64_MAX / 10 && sum > (UINT64_MAX - digit) / 10) {
			return false;
		}
		sum = sum * 10 + digit;
		if (sum == 0 && i >= decimal.mantissa_bytes) {
			break; /* the number is 0, whatever the exponent */
		}
	}
	*value = sum;
	return true;
}

bool text_to_millionths(const char *text, uint64_t *value)
{
	const char *point = strchr(text, '.');
	size_t whole_bytes = point == NULL ? strlen(text) : (size_t)(point - text);
	size_t places = point == NULL ? 0 : strlen(point + 1);
	char digits[32];

	if (whole_bytes == 0 || whole_bytes > 20 || places > 6 || (point != NULL && places == 0)) {
		return false;
	}
	memcpy(digits, text, whole_bytes);
	memcpy(digits + whole_bytes, point == NULL ? "" : point + 1, places);
	memset(digits + whole_bytes + places, '0', 6 - places);
	digits[whole_bytes + 6] = '\0';
	return text_to_u64(digits, value);
}

static size_t digit_count(uint64_t value)
{
	static const uint64_t powers[U64_DIGITS_MAX] = {0, 10, 100, 1000, 10000, 100000, 1000000,
		10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000,
		10000000000000, 100000000000000, 1000000000000000, 10000000000000000,
		100000000000000000, 1000000000000000000, 10000000000000000000U};
	/* 1233 / 4096 is a little more than log10(2). */
	size_t bits = 64 - (size_t)__builtin_clzll(value | 1);
	size_t count = bits * 1233 >> 12;

	return count + (value >= powers[count]);
}

size_t u64_digits(char *text, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
				    "31323334353637383940414243444546474849505152535455565758596061"
				    "62636465666768697071727374757677787980818283848586878889909192"
				    "93949596979899";
	size_t count = digit_count(value);
	char *at = text + count;

	while (value >= 10) {
		at -= 2;
		memcpy(at, pairs + 2 * (value % 100), 2);
		value /= 100;
	}
	if (at > text) {
		*text = (char)('0' + value);
	}
	return count;
}

size_t decimal_text(char *text, u128 value, uint32_t places)
{
	char reversed[NUMBER_TEXT_BYTES];
	size_t count = 0;

	check(places <= 18);
	do {
		if (count == places && places > 0) {
			reversed[count++] = '.';
			places = 0; /* the point is written once */
		}
		if (value <= UINT64_MAX) {
			uint64_t small = (uint64_t)value;
			reversed[count++] = (char)('0' + small % 10);
			value = small / 10;
		} else {
			reversed[count++] = (char)('0' + (char)(value % 10));
			value /= 10;
		}
	} while (value > 0 || (places > 0 && count <= places));
	for (size_t i = 0; i < count; i++) {
		text[i] = reversed[count - 1 - i];
	}
	text[count] = '\0';
	return count;
}

size_t short_decimal_text(char *text, u128 value, uint32_t places)
{
	size_t length = decimal_text(text, value, places);

	if (places == 0) {
		return length;
	}
	while (text[length - 1] == '0') {
		length--;
	}
	length -= text[length - 1] == '.';
	text[length] = '\0';
	return length;
}

/* The quotient with `places` places, and what is added to the remainder before it is cut off. */
static size_t quotient_text(
	char *text, u128 numerator, u128 denominator, uint32_t places, u128 added, const char *none)
{
	u128 scale = 1;

	if (denominator == 0) {
		strcpy(text, none);
		return strlen(none);
	}
	for (uint32_t i = 0; i < places; i++) {
		scale *= 10;
	}
	/* Whole and fraction separately, so that the product stays in range. */
	u128 whole = numerator / denominator;
	u128 rest = numerator % denominator;
	return decimal_text(text, whole * scale + (rest * scale + added) / denominator, places);
}

size_t ratio_text(char *text, u128 numerator, u128 denominator, uint32_t places, const char *none)
{
	return quotient_text(text, numerator, denominator, places, 0, none);
}

size_t rounded_text(char *text, u128 numerator, u128 denominator, uint32_t places, const char *none)
{
	return quotient_text(text, numerator, denominator, places, denominator / 2, none);
}
