#ifndef WORKLOADS_TRACE_BYTE_SOURCE_H
#define WORKLOADS_TRACE_BYTE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The bytes of a file, decompressed if its first bytes are those of gzip or zstd, and hashed as
   stored on disk. Concatenated gzip members or zstd frames are one stream, as with the gzip and
   zstd tools. */

struct byte_source;

enum status byte_source_open(struct byte_source **out, const char *path, struct error *error);
void byte_source_close(struct byte_source *source);

/* Fills buffer: (bytes) with at most that many decompressed bytes; *got is 0 only at the end. A
   compressed stream that is damaged or truncated is STATUS_INPUT. */
enum status byte_source_read(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error);

/* Reads the rest of the file without decompressing it, for its hash only. */
enum status byte_source_skip_rest(struct byte_source *source, struct error *error);

/* XXH64 with seed 0 of the bytes read from disk so far. */
uint64_t byte_source_xxh64(const struct byte_source *source);

#endif
