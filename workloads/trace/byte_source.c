#include "workloads/trace/byte_source.h"

#include "engine/base/check.h"
#include "engine/base/input_file.h"
#include "engine/base/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { PACKED_BYTES = 1 << 18, PATH_SHOWN = 200, MAGIC_BYTES = 4, GZIP_WINDOW = 15 + 16 };

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct byte_source {
	char *path;
	FILE *file;
	XXH64_state_t *hash;
	enum packing packing;
	bool is_inside_frame; /* compressed: a member or frame has begun and not ended */
	z_stream gzip;
	ZSTD_DStream *zstd;
	char *packed; /* (PACKED_BYTES): bytes from disk, not yet decompressed */
	size_t packed_start, packed_end;
};

static enum status read_disk(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error)
{
	errno = 0;
	*got = fread(buffer, 1, bytes, source->file);
	if (*got < bytes && ferror(source->file)) {
		return error_set(error, STATUS_FILE, "%.*s: cannot be read: %s", PATH_SHOWN,
			source->path, strerror(errno));
	}
	check(XXH64_update(source->hash, buffer, *got) == XXH_OK);
	return STATUS_OK;
}

static enum packing packing_of(const unsigned char *start, size_t bytes)
{
	if (bytes >= 2 && start[0] == 0x1f && start[1] == 0x8b) {
		return PACKING_GZIP;
	}
	if (bytes >= 4 && start[0] == 0x28 && start[1] == 0xb5 && start[2] == 0x2f &&
		start[3] == 0xfd) {
		return PACKING_ZSTD;
	}
	return PACKING_NONE;
}

static void *take(void *context, unsigned count, unsigned size)
{
	(void)context;
	return memory_take(count, size);
}

static void release(void *context, void *memory)
{
	(void)context;
	free(memory);
}

/* zstd's allocator cannot be replaced by its stable interface. */
static enum status no_zstd_memory(const struct byte_source *source, struct error *error)
{
	return error_set(error, STATUS_MEMORY, "zstd has no memory to unpack %.*s", PATH_SHOWN,
		source->path);
}

static enum status unpacker_open(struct byte_source *source, struct error *error)
{
	if (source->packing == PACKING_GZIP) {
		source->gzip.zalloc = take;
		source->gzip.zfree = release;
		check(inflateInit2(&source->gzip, GZIP_WINDOW) == Z_OK);
	}
	if (source->packing == PACKING_ZSTD) {
		source->zstd = ZSTD_createDStream();
		if (source->zstd == NULL) {
			return no_zstd_memory(source, error);
		}
	}
	return STATUS_OK;
}

static enum status open_file(struct byte_source *source, const char *path, struct error *error)
{
	errno = 0;
	TRY(input_file_open(&source->file, path, INPUT_FILE_OR_PIPE, error));
	setvbuf(source->file, NULL, _IONBF, 0); /* reads are large, so stdio's own buffer would only
						   add a copy */
	TRY(read_disk(source, source->packed, PACKED_BYTES, &source->packed_end, error));
	source->packing = packing_of((unsigned char *)source->packed, source->packed_end);
	return unpacker_open(source, error);
}

enum status byte_source_open(struct byte_source **out, const char *path, struct error *error)
{
	struct byte_source *source = memory_take(1, sizeof(*source));

	*out = NULL;
	source->path = memory_take(strlen(path) + 1, 1);
	strcpy(source->path, path);
	source->packed = memory_take(PACKED_BYTES, 1);
	source->hash = memory_take_hash();
	enum status status = open_file(source, path, error);
	if (status != STATUS_OK) {
		byte_source_close(source);
		return status;
	}
	*out = source;
	return STATUS_OK;
}

void byte_source_close(struct byte_source *source)
{
	if (source == NULL) {
		return;
	}
	if (source->packing == PACKING_GZIP) {
		inflateEnd(&source->gzip);
	}
	ZSTD_freeDStream(source->zstd);
	XXH64_freeState(source->hash);
	if (source->file != NULL) {
		fclose(source->file);
	}
	free(source->packed);
	free(source->path);
	free(source);
}

static enum status damaged(const struct byte_source *source, const char *why, struct error *error)
{
	return error_set(error, STATUS_INPUT,
		"%.*s: found a damaged %s stream (%s), expected a whole one", PATH_SHOWN,
		source->path, source->packing == PACKING_GZIP ? "gzip" : "zstd", why);
}

static enum status unpack_gzip(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error)
{
	z_stream *gzip = &source->gzip;

	if (!source->is_inside_frame) {
		check(inflateReset(gzip) == Z_OK);
		source->is_inside_frame = true;
	}
	gzip->next_in = (unsigned char *)source->packed + source->packed_start;
	gzip->avail_in = (unsigned)(source->packed_end - source->packed_start);
	gzip->next_out = (unsigned char *)buffer;
	gzip->avail_out = (unsigned)bytes;
	int result = inflate(gzip, Z_NO_FLUSH);
	source->packed_start = source->packed_end - gzip->avail_in;
	*got = bytes - gzip->avail_out;
	if (result == Z_STREAM_END) {
		source->is_inside_frame = false;
	} else if (result != Z_OK && result != Z_BUF_ERROR) {
		return damaged(source, gzip->msg == NULL ? "not gzip" : gzip->msg, error);
	}
	return STATUS_OK;
}

static enum status unpack_zstd(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error)
{
	ZSTD_inBuffer in = {source->packed, source->packed_end, source->packed_start};
	ZSTD_outBuffer out = {buffer, bytes, 0};
	size_t result = ZSTD_decompressStream(source->zstd, &out, &in);

	source->packed_start = in.pos;
	*got = out.pos;
	if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) {
		return no_zstd_memory(source, error);
	}
	if (ZSTD_isError(result)) {
		return damaged(source, ZSTD_getErrorName(result), error);
	}
	source->is_inside_frame = result != 0;
	return STATUS_OK;
}

static enum status refill(struct byte_source *source, struct error *error)
{
	source->packed_start = 0;
	return read_disk(source, source->packed, PACKED_BYTES, &source->packed_end, error);
}

static enum status read_packed(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error)
{
	*got = 0;
	while (*got == 0) {
		bool is_at_end = false;
		if (source->packed_start == source->packed_end) {
			TRY(refill(source, error));
			is_at_end = source->packed_end == 0;
		}
		if (is_at_end && !source->is_inside_frame) {
			return STATUS_OK;
		}
		/* At the end of the file the decompressor may still hold output of a complete
		   frame. */
		TRY(source->packing == PACKING_GZIP
				? unpack_gzip(source, buffer, bytes, got, error)
				: unpack_zstd(source, buffer, bytes, got, error));
		if (*got == 0 && is_at_end && source->is_inside_frame) {
			return damaged(source, "the file ends inside it", error);
		}
	}
	return STATUS_OK;
}

enum status byte_source_read(
	struct byte_source *source, char *buffer, size_t bytes, size_t *got, struct error *error)
{
	check(bytes > 0 && bytes <= 1 << 30);
	if (source->packing != PACKING_NONE) {
		return read_packed(source, buffer, bytes, got, error);
	}
	size_t held = source->packed_end - source->packed_start;
	if (held > 0) {
		*got = held < bytes ? held : bytes;
		memcpy(buffer, source->packed + source->packed_start, *got);
		source->packed_start += *got;
		return STATUS_OK;
	}
	return read_disk(source, buffer, bytes, got, error);
}

enum status byte_source_skip_rest(struct byte_source *source, struct error *error)
{
	do {
		TRY(refill(source, error));
	} while (source->packed_end > 0);
	return STATUS_OK;
}

uint64_t byte_source_xxh64(const struct byte_source *source)
{
	return XXH64_digest(source->hash);
}
