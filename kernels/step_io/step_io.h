#ifndef KERNELS_STEP_IO_STEP_IO_H
#define KERNELS_STEP_IO_STEP_IO_H

#include "kernels/op/launch.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a step's input reaches the GPU and its tokens reach the host. At both ends a kernel accesses
   pinned host memory itself. So a step is one chain of kernels from input to tokens, can be
   captured in one CUDA graph, and waits for no copy engine.

       host (pinned, two slots each)            device
       host_data[slot]    ──── step_begin ───►  data         the step's lists
                          ──── step_begin ───►  tables       additions to the block tables
       host_tokens[slot]  ◄─── step_end ──────  sampled
       completions[slot]  ◄─── both ──────────  begin and end times; last, the completion flag

   The slots are a double buffer: the host fills one while the GPU runs the step of the other.
   The device counts steps, so the slot of a step is step_count % 2 on both sides. */

/* When several blocks read one 128-byte line of host memory, each read crosses the bus separately,
   1 us each, one after another (measured on an H200, engine/runners/TUNING.md). So no line is read
   twice: each block has its own copy of the header. One slot of host_data holds, in this order

       headers     struct step_header (STEP_BLOCKS), all equal
       data        data_bytes, of which chunk_count * STEP_CHUNK are copied to the device
       additions   struct table_addition (addition_count), scattered into the tables */

enum {
	STEP_CHUNK = 16,  /* bytes that a thread copies at once */
	STEP_BLOCKS = 16, /* blocks of step_begin */
	/* read before the header arrives; every slot has room for so many */
	STEP_SPECULATIVE_ADDITIONS = 64,
};

/* tables[row][index] = block. A step adds each entry at most once. */
struct table_addition {
	uint32_t row;
	uint32_t index;
	uint32_t block;
	uint32_t unused;
};

struct step_header {
	uint32_t chunk_count; /* of the data */
	uint32_t addition_count;
	uint32_t unused[30]; /* fills a line of 128 bytes */
};

/* What the device reports of a step. */
struct step_completion {
	uint64_t begin_ns; /* ns on the GPU's global timer */
	uint64_t end_ns;
	uint64_t done; /* the completion flag: 1 + the index of the step, written last */
	uint64_t unused;
};

struct step_io {
	uint64_t *step_count;		/* device: steps completed */
	unsigned char *data;		/* device: (data_bytes) */
	size_t data_bytes;		/* capacity, a multiple of STEP_CHUNK */
	const unsigned char *host_data; /* pinned: (2, host_stride), each slot as drawn above */
	size_t host_stride;		/* bytes, a multiple of sizeof(struct step_header) */
	uint32_t *tables;		/* device: (any, table_width) block indexes */
	uint32_t table_width;
	struct step_completion *completions; /* pinned: (2) */
	int32_t *host_tokens;		     /* pinned: (2, token_stride) */
	uint32_t token_stride;
	const int32_t *sampled; /* device: (token_count) */
};

/* Copies data to the device and updates the tables. The first speculative_bytes of the data (at
   most data_bytes) are copied before the header arrives, which saves one round trip over the
   bus. */
int step_begin(const struct step_io *io, size_t speculative_bytes, struct CUstream_st *stream);

/* Writes token_count sampled tokens to the host, then sets the completion flag. */
int step_end(const struct step_io *io, uint32_t token_count, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
