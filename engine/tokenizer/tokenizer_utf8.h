#ifndef ENGINE_TOKENIZER_TOKENIZER_UTF8_H
#define ENGINE_TOKENIZER_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/text.h"

/* A stream of bytes in pieces, decoded as UTF-8. Valid UTF-8 is passed through. Each maximal
   invalid prefix of a sequence, or else each single invalid byte, becomes one U+FFFD, as Unicode
   recommends and as Rust and Python do. A sequence that may continue in the next piece is kept
   until then. */

/* To be zeroed first. */
struct utf8_stream {
	char pending[4]; /* (pending_count) the start of a sequence */
	uint32_t pending_count;
	uint32_t needed_count;	 /* bytes of the whole sequence */
	uint8_t lowest, highest; /* bounds of the next byte */
};

void utf8_push(struct utf8_stream *stream, const char *bytes, size_t byte_count, struct text *out);

/* Ends the stream: an incomplete sequence becomes U+FFFD. */
void utf8_end(struct utf8_stream *stream, struct text *out);

bool utf8_is_valid(const char *bytes, size_t byte_count);

/* The code point at the start of valid UTF-8, and its length in bytes. */
uint32_t utf8_code_point(const char *bytes, uint32_t *byte_count);

/* Writes a code point below 0x110000; returns the number of bytes. */
uint32_t utf8_write(uint32_t code_point, char bytes[4]);

#endif
