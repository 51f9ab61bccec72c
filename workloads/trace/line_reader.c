#include "workloads/trace/line_reader.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/text.h"
#include "workloads/trace/byte_source.h"
#include "workloads/trace/source_line.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

struct line_reader {
	char *path;
	struct byte_source *source;
	char *buffer; /* (capacity): [start, end) is unread */
	size_t capacity, start, end;
	uint64_t line;
	const char *last; /* for unread */
	size_t last_bytes;
	bool is_last_again;
	bool is_at_end; /* the source is exhausted */
};

enum status line_reader_open(struct line_reader **out, const char *path, struct error *error)
{
	struct line_reader *reader = memory_take(1, sizeof(*reader));
	enum status status = byte_source_open(&reader->source, path, error);

	*out = NULL;
	if (status != STATUS_OK) {
		line_reader_close(reader);
		return status;
	}
	reader->path = memory_take(strlen(path) + 1, 1);
	strcpy(reader->path, path);
	reader->buffer = memory_grow(NULL, &reader->capacity, BUFFER_BYTES, 1);
	*out = reader;
	return STATUS_OK;
}

void line_reader_close(struct line_reader *reader)
{
	if (reader == NULL) {
		return;
	}
	byte_source_close(reader->source);
	free(reader->buffer);
	free(reader->path);
	free(reader);
}

/* Makes room in the buffer and reads more. One byte stays free for the terminating zero. */
static enum status read_more(struct line_reader *reader, struct error *error)
{
	size_t held = reader->end - reader->start;
	size_t got = 0;

	memmove(reader->buffer, reader->buffer + reader->start, held);
	reader->start = 0;
	reader->end = held;
	if (held > LINE_BYTES_MAX) {
		struct source_line at = {reader->path, reader->line + 1};
		return source_line_error(error, &at, NULL, reader->buffer, held,
			"a line of at most %d bytes", LINE_BYTES_MAX);
	}
	if (held + BUFFER_BYTES / 2 > reader->capacity) {
		reader->buffer = memory_grow(reader->buffer, &reader->capacity, held * 2, 1);
	}
	TRY(byte_source_read(
		reader->source, reader->buffer + held, reader->capacity - held - 1, &got, error));
	reader->end += got;
	reader->is_at_end = got == 0;
	return STATUS_OK;
}

/* Finds the end of the line that begins at start, reading on as needed; at the end of the file the
   line ends there. */
static enum status find_line_end(
	struct line_reader *reader, size_t *line_bytes, struct error *error)
{
	size_t seen = 0;

	for (;;) {
		size_t held = reader->end - reader->start;
		const char *from = reader->buffer + reader->start + seen;
		const char *found = memchr(from, '\n', held - seen);
		if (found != NULL) {
			*line_bytes = (size_t)(found - (reader->buffer + reader->start));
			return STATUS_OK;
		}
		if (reader->is_at_end) {
			*line_bytes = held;
			return STATUS_OK;
		}
		seen = held;
		TRY(read_more(reader, error));
	}
}

enum status line_reader_next(
	struct line_reader *reader, const char **line, size_t *line_bytes, struct error *error)
{
	if (reader->is_last_again) {
		reader->is_last_again = false;
		reader->line++;
		*line = reader->last;
		*line_bytes = reader->last_bytes;
		return STATUS_OK;
	}
	size_t bytes = 0;
	TRY(find_line_end(reader, &bytes, error));
	*line = NULL;
	*line_bytes = 0;
	if (bytes == 0 && reader->start == reader->end) {
		return STATUS_OK;
	}
	char *text = reader->buffer + reader->start;
	reader->start += bytes + (reader->start + bytes < reader->end);
	reader->line++;
	size_t mark = reader->line == 1 ? text_order_mark(text, bytes) : 0;
	text += mark;
	bytes -= mark;
	if (bytes > 0 && text[bytes - 1] == '\r') {
		bytes--;
	}
	text[bytes] = '\0';
	reader->last = text;
	reader->last_bytes = bytes;
	*line = text;
	*line_bytes = bytes;
	return STATUS_OK;
}

void line_reader_last(const struct line_reader *reader, const char **line, size_t *line_bytes)
{
	check(reader->last != NULL);
	*line = reader->last;
	*line_bytes = reader->last_bytes;
}

uint64_t line_reader_line(const struct line_reader *reader)
{
	return reader->line;
}

const char *line_reader_path(const struct line_reader *reader)
{
	return reader->path;
}

void line_reader_unread(struct line_reader *reader)
{
	check(reader->last != NULL && !reader->is_last_again);
	reader->is_last_again = true;
	reader->line--;
}

enum status line_reader_finish(struct line_reader *reader, struct error *error)
{
	return reader->is_at_end ? STATUS_OK : byte_source_skip_rest(reader->source, error);
}

uint64_t line_reader_xxh64(const struct line_reader *reader)
{
	return byte_source_xxh64(reader->source);
}
