#ifndef KERNELS_STEP_IO_STEP_H
#define KERNELS_STEP_IO_STEP_H

#include "kernels/op/launch.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The edges of a step on the GPU: its data comes from the host's memory, its tokens go back there.
   Both are kernels that reach into pinned memory themselves, so that a step is one chain of kernels
   from the host's data to the host's tokens and can be one graph, and nothing waits for a copy
   engine.

       host                                  device
       host_data[step % 2] ── step_begin ──► data         lists of the step
			   ── step_begin ──► tables       additions to the block tables
       host_tokens[step % 2] ◄── step_end ── sampled
       marks[step % 2]     ◄── both ──       times, and at last the number of the step

   What the host fills and reads is there twice, so that it can fill the next step while one runs;
   the device counts the steps and so knows whose turn it is. */

/* A line of the host's memory that several threads ask for goes over the bus once for each of them,
   one after the other, 1 us a time. So no line is asked for twice: every block has a head of its
   own, and all of them say the same. Each turn of the host's data is one after another

       heads       (STEP_BLOCKS)
       data        up to edges.data_bytes, copied to the device
       additions   struct table_addition, put into the tables */

enum {
	STEP_CHUNK = 16,	  /* data is copied in chunks of so many bytes */
	STEP_BLOCKS = 16,	  /* of the first kernel */
	STEP_SURE_ADDITIONS = 64, /* are read unasked, there must be room for so many */
};

/* tables[row][index] = block; no entry twice in a step. */
struct table_addition {
	uint32_t row;
	uint32_t index;
	uint32_t block;
	uint32_t unused;
};

struct step_head {
	uint32_t chunk_count; /* of the data */
	uint32_t addition_count;
	uint32_t unused[30]; /* a line is 128 bytes */
};

/* What the device tells of a step, in the host's memory. */
struct step_mark {
	uint64_t begin_ns; /* of the GPU's clock */
	uint64_t end_ns;
	uint64_t done; /* 1 + the number of the step, written after everything else */
	uint64_t unused;
};

struct step_edges {
	uint64_t *count; /* device: steps that ended */
	unsigned char *data;
	size_t data_bytes;		/* there is room for, a multiple of STEP_CHUNK */
	const unsigned char *host_data; /* pinned: two of host_stride bytes, as said above */
	size_t host_stride;		/* a multiple of sizeof(struct step_head) */
	uint32_t *tables;		/* (any, table_width) */
	uint32_t table_width;
	struct step_mark *marks; /* pinned: (2) */
	int32_t *host_tokens;	 /* pinned: (2, token_stride) */
	uint32_t token_stride;
	const int32_t *sampled; /* device */
};

/* sure_bytes of the data, at most data_bytes, are copied without looking at a head first, which
   costs a way to the host less. */
int step_begin(const struct step_edges *edges, size_t sure_bytes, struct CUstream_st *stream);

/* Brings token_count sampled tokens to the host, then tells it that they are there. */
int step_end(const struct step_edges *edges, uint32_t token_count, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
