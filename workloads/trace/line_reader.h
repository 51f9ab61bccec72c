#ifndef WORKLOADS_TRACE_LINE_READER_H
#define WORKLOADS_TRACE_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A file as a stream of lines, plain or compressed with gzip or zstd (recognised by its first
   bytes, not by its name), hashed as it is read. Memory is a buffer of one line, at most
   LINE_BYTES_MAX. A UTF-8 byte order mark at the start and a carriage return at the end of a line
   are dropped. */

enum { LINE_BYTES_MAX = 1 << 28 };

struct line_reader;

/* Opens PATH. A folder, or a file that cannot be read, is an error. */
enum status line_reader_open(struct line_reader **out, const char *path, struct error *error);
void line_reader_close(struct line_reader *reader);

/* The next line without its line end, zero-terminated, valid until the next call. At the end of the
   file *line is NULL. */
enum status line_reader_next(
	struct line_reader *reader, const char **line, size_t *line_bytes, struct error *error);

/* The latest line returned, still valid. */
void line_reader_last(const struct line_reader *reader, const char **line, size_t *line_bytes);

/* Lines returned so far, which is the number of the latest one. */
uint64_t line_reader_line(const struct line_reader *reader);
const char *line_reader_path(const struct line_reader *reader);

/* Returns the latest line once more on the next call. At most one line can be unread. */
void line_reader_unread(struct line_reader *reader);

/* Reads to the end of the file without returning lines, so that the hash covers the whole file. */
enum status line_reader_finish(struct line_reader *reader, struct error *error);

/* XXH64 with seed 0 of the bytes read so far, as stored on disk. */
uint64_t line_reader_xxh64(const struct line_reader *reader);

#endif
