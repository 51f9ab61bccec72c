#include "engine/base/text.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 512 };

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void text_deinit(struct text *text)
{
	free(text->bytes);
	memset(text, 0, sizeof(*text));
}

void text_add_bytes(struct text *text, const char *bytes, size_t byte_count)
{
	text->bytes =
		memory_grow(text->bytes, &text->capacity, text->byte_count + byte_count + 1, 1);
	if (byte_count > 0) { /* else bytes may be NULL */
		memcpy(text->bytes + text->byte_count, bytes, byte_count);
	}
	text->byte_count += byte_count;
	text->bytes[text->byte_count] = '\0';
}

void text_add(struct text *text, const char *string)
{
	text_add_bytes(text, string, strlen(string));
}

void text_format(struct text *text, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	int size = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	check(size >= 0);
	text->bytes =
		memory_grow(text->bytes, &text->capacity, text->byte_count + (size_t)size + 1, 1);
	va_start(arguments, format);
	vsnprintf(text->bytes + text->byte_count, (size_t)size + 1, format, arguments);
	va_end(arguments);
	text->byte_count += (size_t)size;
}

/* ---- text from outside ---- */

/* Bytes of the UTF-8 character at `string`, 0 if it is invalid: an overlong form, a surrogate, or
   beyond U+10FFFF. */
static size_t utf8_size(const unsigned char *string)
{
	size_t size = string[0] < 0x80			       ? 1
		      : string[0] >= 0xc2 && string[0] <= 0xdf ? 2
		      : string[0] >= 0xe0 && string[0] <= 0xef ? 3
		      : string[0] >= 0xf0 && string[0] <= 0xf4 ? 4
							       : 0;
	for (size_t i = 1; i < size; i++) {
		if ((string[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	bool is_overlong =
		(string[0] == 0xe0 && string[1] < 0xa0) || (string[0] == 0xf0 && string[1] < 0x90);
	bool is_outside = (string[0] == 0xed && string[1] >= 0xa0) ||
			  (string[0] == 0xf4 && string[1] >= 0x90);
	return is_overlong || is_outside ? 0 : size;
}

static bool is_blank(char c)
{
	return c == '\n' || c == '\r' || c == '\t';
}

/* C0, DEL and C1. */
static bool is_control(const char *string)
{
	const unsigned char *bytes = (const unsigned char *)string;

	return *bytes < 0x20 || *bytes == 0x7f || (bytes[0] == 0xc2 && bytes[1] < 0xa0);
}

size_t text_order_mark(const char *bytes, size_t count)
{
	static const char mark[] = "\xef\xbb\xbf";
	const size_t size = sizeof(mark) - 1;

	return count >= size && memcmp(bytes, mark, size) == 0 ? size : 0;
}

void text_make_printable(char *string)
{
	while (*string != '\0') {
		size_t size = utf8_size((const unsigned char *)string);
		size_t bytes = size == 0 ? 1 : size;
		if (is_blank(*string)) {
			*string = ' ';
		} else if (size == 0 || is_control(string)) {
			memset(string, '?', bytes);
		}
		string += bytes;
	}
}

void text_repair_utf8(char *string)
{
	while (*string != '\0') {
		size_t size = utf8_size((const unsigned char *)string);
		if (size == 0) {
			*string = '?';
		}
		string += size == 0 ? 1 : size;
	}
}

/* Appends the next character in printable form and returns the bytes read. */
static size_t add_clean(struct text *text, const char *string)
{
	size_t size = utf8_size((const unsigned char *)string);

	if (is_blank(*string)) {
		text_add(text, " ");
	} else if (size == 0 || is_control(string)) {
		text_add(text, replacement);
	} else {
		text_add_bytes(text, string, size);
	}
	return size == 0 ? 1 : size;
}

static const char *html_reference(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

void text_add_escaped(struct text *text, const char *string)
{
	while (*string != '\0') {
		const char *reference = html_reference(*string);
		if (reference != NULL) {
			text_add(text, reference);
			string++;
		} else {
			string += add_clean(text, string);
		}
	}
}

void text_add_shell_word(struct text *text, const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_-+=:,./@%";

	if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
		text_add(text, word);
		return;
	}
	text_add(text, "'");
	for (; *word != '\0'; word++) {
		if (*word == '\'') {
			text_add(text, "'\\''");
		} else {
			text_add_bytes(text, word, 1);
		}
	}
	text_add(text, "'");
}

void text_add_gnuplot_string(struct text *text, const char *string)
{
	/* At the start of a string gnuplot takes a doubled quote for its end. */
	while (*string == '\'') {
		text_add(text, "\"'\".");
		string++;
	}
	text_add(text, "'");
	while (*string != '\0') {
		if (*string == '\'') {
			text_add(text, "''");
			string++;
		} else {
			string += add_clean(text, string);
		}
	}
	text_add(text, "'");
}

/* ---- numbers ---- */

/* Decimal places that show about three significant digits, six at most. */
static int places_of(double value)
{
	double size = fabs(value);
	int places = 0;

	if (size == 0) {
		return 2;
	}
	while (places < 6 && size < 99.95) {
		size *= 10;
		places++;
	}
	return places;
}

/* A decimal whose integer part is in groups of three. */
static void add_grouped(struct text *text, double value, int places)
{
	char digits[NUMBER_BYTES];
	int size = snprintf(digits, sizeof(digits), "%.*f", places, fabs(value));

	check(size > 0);
	check(size < NUMBER_BYTES);
	size_t whole = strcspn(digits, ".");
	if (value < 0) {
		text_add(text, "\xe2\x88\x92"); /* a minus sign */
	}
	for (size_t i = 0; i < whole; i++) {
		if (i > 0 && (whole - i) % 3 == 0) {
			text_add(text, ",");
		}
		text_add_bytes(text, digits + i, 1);
	}
	text_add(text, digits + whole);
}

static void add_time_ms(struct text *text, double ms)
{
	double size = fabs(ms);
	bool is_s = size >= 999.5;
	bool is_us = size < 0.9995 && size > 0;
	double value = is_s ? ms / 1e3 : is_us ? ms * 1e3 : ms;

	add_grouped(text, value, size == 0 ? 0 : places_of(value));
	text_add(text, is_s ? "\u00a0s" : is_us ? "\u00a0\u00b5s" : "\u00a0ms");
}

void text_add_number(struct text *text, enum number_format format, bool has_value, double value)
{
	if (!has_value) {
		text_add(text, "\u2013");
		return;
	}
	switch (format) {
	case NUMBER_COUNT:
		add_grouped(text, value, 0);
		break;
	case NUMBER_RATE:
	case NUMBER_MS:
		add_grouped(text, value, places_of(value));
		break;
	case NUMBER_SHARE:
		add_grouped(text, 100 * value, 100 * fabs(value) >= 9.995 ? 1 : 2);
		text_add(text, "\u00a0%");
		break;
	case NUMBER_TIME_MS:
		add_time_ms(text, value);
		break;
	case NUMBER_TIME_S:
		add_time_ms(text, value * 1e3);
		break;
	}
}

void text_add_count(struct text *text, uint64_t count, const char *one, const char *many)
{
	text_add_number(text, NUMBER_COUNT, true, (double)count);
	text_add(text, " ");
	text_add(text, word_of_count(count, one, many));
}

void text_add_difference(
	struct text *text, enum number_format format, const double *base, const double *value)
{
	if (base == NULL || value == NULL) {
		return;
	}
	double difference = *value - *base;
	if (difference == 0) {
		text_add(text, "=");
		return;
	}
	bool is_share = format == NUMBER_SHARE;
	if (!is_share && *base == 0) {
		text_add(text, "from 0");
		return;
	}
	double shown = is_share ? 100 * difference : 100 * difference / fabs(*base);
	double size = fabs(shown);
	if (size < 0.005) {
		text_add(text, "\u2248");
		return;
	}
	if (!is_share && shown >= 1000) {
		text_add(text, "\u00d7");
		add_grouped(text, *value / *base, places_of(*value / *base));
		return;
	}
	if (shown > 0) {
		text_add(text, "+");
	}
	add_grouped(text, shown, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
	text_add(text, is_share ? "\u00a0pt" : "\u00a0%");
}

/* ---- names that were meant ---- */

static char small_letter(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Edits that turn one name into another. */
static uint32_t count_edits(const char *a, const char *b)
{
	uint32_t row[TEXT_NAME_BYTES_MAX + 1];
	size_t a_bytes = strlen(a), b_bytes = strlen(b);

	if (a_bytes > TEXT_NAME_BYTES_MAX || b_bytes > TEXT_NAME_BYTES_MAX) {
		return UINT32_MAX;
	}
	for (size_t j = 0; j <= b_bytes; j++) {
		row[j] = (uint32_t)j;
	}
	for (size_t i = 1; i <= a_bytes; i++) {
		uint32_t diagonal = row[0];
		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			bool is_other = small_letter(a[i - 1]) != small_letter(b[j - 1]);
			uint32_t change = diagonal + is_other;
			diagonal = row[j];
			row[j] = u32_min(change, u32_min(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_bytes];
}

bool text_is_meant(const char *word, const char *name, uint32_t *edits)
{
	uint32_t count = count_edits(word, name);

	/* At most half of the name differs. */
	if (count > strlen(name) / 2 || count >= *edits) {
		return false;
	}
	*edits = count;
	return true;
}
