#include "engine/tokenizer/tokenizer_utf8.h"

#include "engine/base/check.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

/* Begins a sequence with its first byte, which is not ASCII; false: not a valid first byte. */
static bool start(struct utf8_stream *stream, uint8_t byte)
{
	stream->lowest = 0x80;
	stream->highest = 0xbf;
	if (byte >= 0xc2 && byte <= 0xdf) {
		stream->needed_count = 2;
	} else if (byte >= 0xe0 && byte <= 0xef) {
		stream->needed_count = 3;
		stream->lowest = byte == 0xe0 ? 0xa0 : 0x80;  /* else an overlong form */
		stream->highest = byte == 0xed ? 0x9f : 0xbf; /* else a surrogate */
	} else if (byte >= 0xf0 && byte <= 0xf4) {
		stream->needed_count = 4;
		stream->lowest = byte == 0xf0 ? 0x90 : 0x80;
		stream->highest = byte == 0xf4 ? 0x8f : 0xbf; /* else beyond U+10FFFF */
	} else {
		return false;
	}
	stream->pending[0] = (char)byte;
	stream->pending_count = 1;
	return true;
}

void utf8_push(struct utf8_stream *stream, const char *bytes, size_t byte_count, struct text *out)
{
	size_t i = 0;

	while (i < byte_count) {
		uint8_t byte = (uint8_t)bytes[i];
		if (stream->pending_count == 0) {
			size_t plain = i;
			while (plain < byte_count && (uint8_t)bytes[plain] < 0x80) {
				plain++;
			}
			text_add_bytes(out, bytes + i, plain - i);
			i = plain;
			if (i == byte_count) {
				return;
			}
			if (!start(stream, (uint8_t)bytes[i])) {
				text_add_bytes(out, replacement, sizeof(replacement) - 1);
			}
			i++;
			continue;
		}
		if (byte < stream->lowest || byte > stream->highest) {
			/* The byte is examined again as the first of a sequence. */
			utf8_end(stream, out);
			continue;
		}
		stream->pending[stream->pending_count++] = (char)byte;
		stream->lowest = 0x80;
		stream->highest = 0xbf;
		i++;
		if (stream->pending_count == stream->needed_count) {
			text_add_bytes(out, stream->pending, stream->pending_count);
			stream->pending_count = 0;
		}
	}
}

void utf8_end(struct utf8_stream *stream, struct text *out)
{
	if (stream->pending_count > 0) {
		text_add_bytes(out, replacement, sizeof(replacement) - 1);
		stream->pending_count = 0;
	}
}

bool utf8_is_valid(const char *bytes, size_t byte_count)
{
	struct utf8_stream stream = {.pending_count = 0};

	for (size_t i = 0; i < byte_count; i++) {
		uint8_t byte = (uint8_t)bytes[i];
		if (stream.pending_count == 0) {
			if (byte >= 0x80 && !start(&stream, byte)) {
				return false;
			}
			continue;
		}
		if (byte < stream.lowest || byte > stream.highest) {
			return false;
		}
		stream.lowest = 0x80;
		stream.highest = 0xbf;
		stream.pending_count = (stream.pending_count + 1) % stream.needed_count;
	}
	return stream.pending_count == 0;
}

uint32_t utf8_code_point(const char *bytes, uint32_t *byte_count)
{
	uint32_t lead = (uint8_t)bytes[0];
	uint32_t count = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
	uint32_t code_point = count == 1 ? lead : lead & (0x7fU >> count);

	for (uint32_t i = 1; i < count; i++) {
		code_point = code_point << 6 | ((uint8_t)bytes[i] & 0x3fU);
	}
	*byte_count = count;
	return code_point;
}

uint32_t utf8_write(uint32_t code_point, char bytes[4])
{
	check(code_point < 0x110000);
	if (code_point < 0x80) {
		bytes[0] = (char)code_point;
		return 1;
	}
	uint32_t count = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
	for (uint32_t i = count - 1; i > 0; i--) {
		bytes[i] = (char)(0x80 | (code_point & 0x3f));
		code_point >>= 6;
	}
	bytes[0] = (char)((0xf00U >> count & 0xf0) | code_point);
	return count;
}
