#include "workloads/trace/number.h"

enum { EXPONENT_MAX = 1000000 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool number_count(const char *text, size_t bytes, uint64_t *value)
{
	uint64_t sum = 0;

	if (bytes == 0 || bytes > 20) {
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		if (!is_digit(text[i])) {
			return false;
		}
		uint64_t digit = (uint64_t)(text[i] - '0');
		/* Nineteen digits fit in any case, so only the twentieth needs a look. */
		if (i == 19 && sum > (UINT64_MAX - digit) / 10) {
			return false;
		}
		sum = sum * 10 + digit;
	}
	*value = sum;
	return true;
}

/* "e-3": the exponent's value, capped far beyond what 64 bits can hold. */
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

/* Splits a decimal fraction into its digits, the count of those before the point, and an exponent.
 */
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

bool number_scaled(const char *text, size_t bytes, uint32_t places, uint64_t *value)
{
	struct decimal decimal;
	uint64_t sum = 0;

	if (!read_decimal(text, bytes, &decimal)) {
		return false;
	}
	/* kept digits of the mantissa reach the last place; zeroes fill up behind a short one. */
	int64_t kept = decimal.point + places;
	size_t i = 0;
	for (int64_t taken = 0; taken < kept; taken++) {
		if (i < decimal.mantissa_bytes && text[i] == '.') {
			i++;
		}
		uint64_t digit = i < decimal.mantissa_bytes ? (uint64_t)(text[i] - '0') : 0;
		i += i < decimal.mantissa_bytes;
		/* Below this the next digit fits in any case. */
		if (sum >= UINT64_MAX / 10 && sum > (UINT64_MAX - digit) / 10) {
			return false;
		}
		sum = sum * 10 + digit;
		if (sum == 0 && i >= decimal.mantissa_bytes) {
			break; /* nothing but zeroes, whatever the exponent */
		}
	}
	*value = sum;
	return true;
}
