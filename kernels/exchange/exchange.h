#ifndef KERNELS_EXCHANGE_EXCHANGE_H
#define KERNELS_EXCHANGE_EXCHANGE_H

#include "engine/shape/exchange_layout.h"
#include "engine/shape/kernel_tiles.h"
#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The exchange between the ranks of tensor parallelism, one GPU a rank. It takes the place of the
   add_rms_norm() behind o and behind down, whose outputs are partial sums there:

       sum      = round((((0 + p[0]) + p[1]) + ...) + p[ranks - 1])       in float32
       residual = round(residual + sum)
       out      = rms_norm(residual)                             kernels/rows/rms_norm.h

   p[r] is the partial sum of rank r, rounded to bf16. The order of the sum is that of the ranks,
   for every number of rows and on every rank, so residual and out have the same bits on all ranks,
   and a row has the same bits in any company.

   Ranks exchange by memory that each has mapped from all others. Two ways, with the same bits:

       push   (up to layout.push_rows rows) a rank stores its rows into a slot of each peer, which
              polls its own memory until every element has arrived. A slot that is empty holds
              0xffff, which no partial sum contains (a NaN is pushed as 0x7fff). Whoever has read an
              element empties it. A sender uses a slot again EXCHANGE_SLOTS exchanges later, when
              each peer has sent something else in the meantime, behind its reads.
       pull   a block tells each peer that its rows are complete, by a flag in the peer's memory,
              waits for the same block of each peer, then reads their rows. Flags count up and are
              never reset. A partial buffer is written again two exchanges later, behind a flag or
              a push of every peer that came behind its reads.

   What a rank must keep to, and all ranks alike:

     - launches exchanges 0 to per_step - 1 of every step in this order, with the same rows, also
       those with no rows; they keep the ranks in step
     - counts steps in step_count, which no kernel of a step changes before its last exchange
     - has an even number of exchanges in a step, so that two in a row use two partial buffers
     - runs no two exchanges at once, and leaves the GPU to itself: all blocks of an exchange must
       be resident together, or ranks could wait for each other for ever

   A block that waits looks at the clock and at the abort word from time to time. When `limit_ns`
   have passed or the word is set, the exchange ends with wrong values, the report says why, and
   later exchanges do not wait. */

enum exchange_end {
	EXCHANGE_RUNS,
	EXCHANGE_TIMED_OUT, /* a peer did not answer within limit_ns */
	EXCHANGE_ABORTED,   /* *abort was set */
};

/* The first wait that was given up. */
struct exchange_report {
	uint32_t end;	/* enum exchange_end, written last */
	uint32_t index; /* of the exchange in its step; per_step: the candidates */
	uint32_t peer;	/* a rank that it waited for */
	uint32_t unused;
	uint64_t step;
};

/* Copied into each launch. Addresses are those of this process and GPU. */
struct exchange {
	struct exchange_layout layout;
	uint32_t rank;
	uint32_t per_step; /* exchanges in a step, candidates not counted */
	/* Ranks on this GPU: 1, or all of them in tests and benchmarks on one GPU, with rank 0. */
	uint32_t local_ranks;
	uint32_t multiprocessors; /* of the GPU with the fewest, so that grids are the same */
	uint64_t limit_ns;	  /* of a wait */

	/* of each rank (layout.bytes), its own included; filled with 0xff before the first exchange
	   of any rank */
	unsigned char *memory[EXCHANGE_RANKS_MAX];
	const uint64_t *step_count;	/* device: steps completed, the same on all ranks */
	const volatile uint32_t *abort; /* pinned, shared by all ranks: not 0 ends every wait */
	uint32_t *aborted;		/* device, zeroed: enum exchange_end, kept once it is set */
	struct exchange_report *report; /* pinned, zeroed */
};

static const uint64_t EXCHANGE_LIMIT_NS = UINT64_C(10000000000);

/* The operands of an exchange. With local_ranks > 1 those of rank r follow at r * row_count rows,
   and slices at r * SPLIT_K * slice_rows rows. */
struct exchange_norm {
	uint16_t *out;		/* (row_count, width) */
	uint16_t *residual;	/* (any, width) */
	const uint16_t *weight; /* (width) */
	/* NULL: all rows; or (row_count) rows to gather, as for add_rms_norm(): the residual stream
	   is not written then */
	const uint32_t *index;
	uint32_t row_count;
	float epsilon;
	/* NULL, or (SPLIT_K, slice_rows, width) float32: split-K slices of the partial sums of rows
	   [0, slice_rows). Their sum in ascending order, ((s0 + s1) + s2) + s3, is rounded to bf16.
	   Later rows are in the partial buffer. */
	const float *slices;
	uint32_t slice_rows;
};

/* The buffer of the exchange with this index: (tokens, width) bf16, into which the linear layer
   in front of it writes this rank's partial sums. */
uint16_t *exchange_partial(const struct exchange *exchange, uint32_t index);

int exchange_add_rms_norm(const struct exchange_norm *norm, const struct exchange *exchange,
	uint32_t index, struct CUstream_st *stream);

/* The second kernel of the sampler: the best of the tiles of each rank's share of the vocabulary
   (sampler_tiles()), then the best over ranks. Every rank stores the token, as sampler() does.
   tiles: (row_count, tile_count); with local_ranks > 1, tiles, token_ids and last_tokens of rank r
   follow at r * row_count rows. Once a step, behind its exchanges. */
int exchange_candidates(int32_t *token_ids, int32_t *last_tokens, const void *tiles,
	uint32_t tile_count, const uint32_t *rows, uint32_t row_count,
	const struct exchange *exchange, struct CUstream_st *stream);

/* Empties a rank's memory before the first exchange. */
int exchange_clear(
	unsigned char *memory, const struct exchange_layout *layout, struct CUstream_st *stream);

/* Counts a step, for callers that have no step_end() (kernels/step_io/step_io.h). */
int exchange_end_step(uint64_t *step_count, struct CUstream_st *stream);

/* ---- without peer memory: a library has gathered what all ranks sent ---- */

/* parts: (ranks, part_rows, width) bf16, the partial sums in the order of the ranks; width as for
   exchange_add_rms_norm(), whose bits it has. norm->slices must be NULL. */
int exchange_gathered_add_rms_norm(const struct exchange_norm *norm, const uint16_t *parts,
	uint32_t ranks, uint32_t part_rows, uint32_t width, struct CUstream_st *stream);

/* partial: (slice_rows, width) bf16, the sums of slices (SPLIT_K, slice_rows, width) float32. */
int exchange_sum_slices(uint16_t *partial, const float *slices, uint32_t slice_rows, uint32_t width,
	struct CUstream_st *stream);

/* words: (row_count) the best of each row's tiles, by candidate_pack(). And the tokens from words
   that were gathered: (ranks, row_count). kernels/sampling/candidate.h */
int exchange_pack_candidates(uint64_t *words, const void *tiles, uint32_t tile_count,
	uint32_t row_count, struct CUstream_st *stream);
int exchange_pick_candidates(int32_t *token_ids, int32_t *last_tokens, const uint64_t *words,
	const uint32_t *rows, uint32_t row_count, uint32_t ranks, struct CUstream_st *stream);

/* ---- on the CPU ---- */

/* out: (count) the sum of the partial sums, in the order of the ranks, rounded once. parts: (ranks)
   pointers to (count) values, which the linear layers have rounded. add_rms_norm_cpu() adds it to
   the residual stream. */
void exchange_sum_cpu(float *out, const float *const *parts, uint32_t ranks, size_t count,
	enum rounding rounding);

#ifdef __cplusplus
}
#endif

#endif
