#ifndef ENGINE_BASE_TEXT_H
#define ENGINE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing text. A zeroed one is empty. `bytes` is owned, ends in a NUL that is not counted, and
   is NULL while the text is empty. */
struct text {
	char *bytes;
	size_t byte_count;
	size_t capacity;
};

void text_deinit(struct text *text);

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t byte_count);

/* As printf() writes it, of any length. No argument may be the text's own bytes. */
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of the UTF-8 byte order mark with which `bytes` begin: 3 or 0. Some editors write one at
   the start of a file, of which it is no part. */
size_t text_order_mark(const char *bytes, size_t count);

/* Replaces in place what a terminal might obey or cannot show: line breaks and tabs by a space,
   other control characters (C0, DEL, C1, so escape sequences too) and invalid UTF-8 by a `?` for
   each byte. For every text from outside that is printed; error_set() does it for errors. */
void text_make_printable(char *string);

/* Replaces only invalid UTF-8. */
void text_repair_utf8(char *string);

/* For HTML, inside elements and quoted attributes: & < > " ' become references; invalid UTF-8 and
   control characters become U+FFFD, line breaks and tabs become spaces. */
void text_add_escaped(struct text *text, const char *string);

/* A word of a command line, in single quotes where a shell would change it. */
void text_add_shell_word(struct text *text, const char *word);

/* For a gnuplot script: an expression that is the string, cleaned of the same characters. */
void text_add_gnuplot_string(struct text *text, const char *string);

/* Whether a name may be what was meant by a mistyped word, and nearer than any so far: it is a few
   edits away, with small and capital letters alike. *edits: the fewest so far, TEXT_EDITS_NONE at
   first. */
enum { TEXT_EDITS_NONE = 4, TEXT_NAME_BYTES_MAX = 64 };
bool text_is_meant(const char *word, const char *name, uint32_t *edits);

/* Numbers for reading. A missing value (has_value false) is an en dash. */
enum number_format {
	NUMBER_COUNT,	/* 12,031 */
	NUMBER_RATE,	/* three to four significant digits, 1,204 or 3.14 */
	NUMBER_SHARE,	/* in [0, 1], as 6.05 % */
	NUMBER_MS,	/* milliseconds as a number, for columns that name the unit */
	NUMBER_TIME_MS, /* milliseconds with the unit that suits: 856 ms, 22.4 s, 250 µs */
	NUMBER_TIME_S,	/* seconds, likewise */
};

void text_add_number(struct text *text, enum number_format format, bool has_value, double value);

/* A count and the word that agrees with it: "1 request", "12,031 requests". */
void text_add_count(struct text *text, uint64_t count, const char *one, const char *many);

/* The difference of value from base: "+3.20 %", from a factor of ten on "x12.3", for shares in
   points ("+1.20 pt"); "=" if they are equal, an approximately-equal sign if nearly so. Appends
   nothing if either is NULL. */
void text_add_difference(
	struct text *text, enum number_format format, const double *base, const double *value);

#endif
