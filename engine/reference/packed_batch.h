#ifndef ENGINE_REFERENCE_PACKED_BATCH_H
#define ENGINE_REFERENCE_PACKED_BATCH_H

#include <stddef.h>

#include "engine/batch.h"

/* A batch in one piece of memory, for another process: the struct, then its lists, each aligned to
   8 bytes. */

/* The most bytes that a batch of these sizes needs. */
size_t packed_batch_bytes(uint32_t rows, uint32_t tokens, uint64_t additions);

/* Returns the bytes written. to: aligned to 8 bytes. */
size_t packed_batch_write(void *to, const struct batch *batch);

/* A batch whose lists lie in `from`. */
void packed_batch_read(struct batch *batch, void *from);

#endif
