#ifndef ENGINE_TOKENIZER_TOKENIZER_UTF8_H
#define ENGINE_TOKENIZER_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/text.h"

/* Bytes that arrive in pieces, as UTF-8. What is valid goes through as it is. Of what is not, each
   longest start of a sequence, or else each single byte, becomes one U+FFFD: the practice that
   Unicode recommends, and that Rust and Python follow too. A sequence that may go on in the
   next piece is kept until then. */

/* Zero it to start. */
struct utf8_stream {
	char pending[4]; /* (pending_count) the start of a sequence */
	uint32_t pending_count;
	uint32_t needed_count;	 /* bytes of the whole sequence */
	uint8_t lowest, highest; /* of its next byte */
};

void utf8_push(struct utf8_stream *stream, const char *bytes, size_t byte_count, struct text *out);

/* Replaces what was kept, since nothing follows. */
void utf8_end(struct utf8_stream *stream, struct text *out);

bool utf8_is_valid(const char *bytes, size_t byte_count);

/* The code point at the start of valid UTF-8, and its length in bytes. */
uint32_t utf8_code_point(const char *bytes, uint32_t *byte_count);

/* Writes a code point below 0x110000; returns how many bytes it took. */
uint32_t utf8_write(uint32_t code_point, char bytes[4]);

#endif
