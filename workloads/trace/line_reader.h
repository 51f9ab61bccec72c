#ifndef WORKLOADS_TRACE_LINE_READER_H
#define WORKLOADS_TRACE_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A file as a stream of lines, plain or compressed with gzip or zstd (told by its first bytes, not
   by its name), hashed on the way. Memory is a buffer of one line, at most LINE_BYTES_MAX. A byte
   order mark of UTF-8 at the start is dropped, and so is a carriage return at the end of a line. */

enum { LINE_BYTES_MAX = 1 << 28 };

struct line_reader;

/* Opens PATH; a folder, or a file that cannot be read, is refused here. */
enum status line_reader_open(struct line_reader **out, const char *path, struct error *error);
void line_reader_close(struct line_reader *reader);

/* The next line without its end; it is followed by a zero byte and dies with the next call. At the
   end of the file *line is NULL. */
enum status line_reader_next(
	struct line_reader *reader, const char **line, size_t *line_bytes, struct error *error);

/* The line that was handed out last, still valid. */
void line_reader_last(const struct line_reader *reader, const char **line, size_t *line_bytes);

/* Lines handed out so far, that is, the number of the last one. */
uint64_t line_reader_line(const struct line_reader *reader);
const char *line_reader_path(const struct line_reader *reader);

/* Makes the next line come again. One step back at most. */
void line_reader_unread(struct line_reader *reader);

/* Reads on to the end of the file without handing out lines, so that the hash is that of all. */
enum status line_reader_finish(struct line_reader *reader, struct error *error);

/* XXH64 with seed 0 of the file's bytes as they lie on disk, as far as they were read. */
uint64_t line_reader_xxh64(const struct line_reader *reader);

#endif
