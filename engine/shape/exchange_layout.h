#ifndef ENGINE_SHAPE_EXCHANGE_LAYOUT_H
#define ENGINE_SHAPE_EXCHANGE_LAYOUT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The memory that a rank shares with its peers (tensor parallelism, kernels/exchange/exchange.h).
   Every rank allocates one piece of `bytes`, all ranks with the same layout:

       partials     (EXCHANGE_PARTIALS, tokens, width) bf16: sums of this rank, read by peers
       slots        (EXCHANGE_SLOTS, ranks, push_rows, width) bf16: rows that peers have pushed
       candidates   (EXCHANGE_SLOTS, ranks, samples) uint64: best ids that peers have pushed
       flags        (ranks, EXCHANGE_BLOCKS_MAX) uint64: how far each block of a peer has come

   width: hidden_size. Each part starts at a multiple of 256 bytes. */

enum {
	EXCHANGE_RANKS_MAX = 8,
	EXCHANGE_WIDTH_MAX = 6144, /* hidden_size of the largest Qwen3 is 5,120 */
	EXCHANGE_PARTIALS = 2,
	EXCHANGE_SLOTS = 4,
	EXCHANGE_BLOCKS_MAX = 1024,    /* thread blocks of an exchange */
	EXCHANGE_PUSH_BYTES = 1 << 22, /* the most that a rank pushes to a peer at once */
};

struct exchange_layout {
	uint32_t ranks;	    /* in [1, EXCHANGE_RANKS_MAX] */
	uint32_t width;	    /* a multiple of 8, at most EXCHANGE_WIDTH_MAX */
	uint32_t tokens;    /* rows of a step, at most */
	uint32_t samples;   /* rows of a step that are sampled, at most */
	uint32_t push_rows; /* an exchange of up to so many rows pushes, others pull */

	/* offsets from the start of a rank's memory, in bytes */
	uint64_t partials, slots, candidates, flags;
	uint64_t bytes; /* of the whole */
};

struct exchange_layout exchange_layout(
	uint32_t ranks, uint32_t width, uint64_t tokens, uint64_t samples);

#ifdef __cplusplus
}
#endif

#endif
