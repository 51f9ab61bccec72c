#ifndef WORKLOADS_TRACE_BYTE_SOURCE_H
#define WORKLOADS_TRACE_BYTE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The bytes of a file, unpacked on the way when its first bytes say gzip or zstd, and hashed as
   they lie on disk. Concatenated gzip members and zstd frames are one stream, as for their own
   tools. */

struct byte_source;

enum status byte_source_open(struct byte_source **out, const char *path, struct error *error);
void byte_source_close(struct byte_source *source);

/* Fills buffer: (bytes) with at most that many unpacked bytes; *got is 0 only at the end. A packed
   stream that is damaged or cut short is STATUS_INPUT. */
enum status byte_source_read(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error);

/* Reads the rest of the file as it lies on disk, for its hash only. */
enum status byte_source_skip_rest(struct byte_source *source, struct error *error);

/* XXH64 with seed 0 of the bytes read from disk so far. */
uint64_t byte_source_xxh64(const struct byte_source *source);

#endif
