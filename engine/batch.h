#ifndef ENGINE_BATCH_H
#define ENGINE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/number.h"

/* A batch: what one step computes. Rows come in queue order: decode rows (one token each), then
   prefill rows (a chunk each); a policy may place both in one step.

   The counts are always filled. They suffice to price a step or to check it against a recording.
   Rows and tokens are filled only for a runner that computes (runner.is_computing). A running
   sequence keeps its row index from admission to preemption or end. The runner stores the block
   tables by row index, and the batch carries only the entries added to them. */

/* The counts of a step, in the order of the columns of steps.tsv. X(column). */
#define STEP_COUNT_LIST(X)                                                                         \
	X(decode_rows)                                                                             \
	X(prefill_rows)                                                                            \
	X(prefill_tokens)	  /* tokens computed by prefill rows */                            \
	X(cached_tokens)	  /* tokens found in the prefix cache by admissions of the step */ \
	X(decode_context_tokens)  /* sum over decode rows of the tokens they attend to */          \
	X(decode_longest_context) /* most of them, of one decode row */                            \
	X(prefill_attention_pairs) /* sum over prefill tokens of the tokens each attends to */     \
	X(prefill_longest_context) /* most of them, of one prefill token */                        \
	X(prefill_context_tokens)  /* sum over prefill rows of what their last token attends to */ \
	X(prefill_shared_tokens)   /* of these, saved by blocks that several prefill rows hold */  \
	X(prefill_tiles)	   /* of at most PREFILL_TILE tokens of a prefill row */           \
	X(prefill_tile_keys)	   /* sum over these of the tokens their last one attends to */    \
	X(prefill_chain_keys)	   /* of the longest chain of tiles; 0: not known */               \
	X(prefill_half_chain_keys) /* the same where half-full tiles count half; 0: not known */   \
	X(sampled_rows)		   /* rows that end in a sampled token */                          \
	X(running)		   /* sequences running, placed or not, after scheduling */        \
	X(waiting)		   /* sequences waiting in the engine after scheduling */          \
	X(used_blocks)                                                                             \
	X(shared_tokens)      /* saved by blocks that several decode rows hold */                  \
	X(reread_tokens)      /* of a block that k of them hold, (k - 1) / k of its tokens */      \
	X(repeat_tokens)      /* of such a block, its tokens times block_repeats() */              \
	X(cached_free_blocks) /* free blocks whose content can still be found */                   \
	X(free_blocks)                                                                             \
	X(preemptions) /* in this step */

struct step_counts {
#define STEP_COUNT_FIELD(column) uint64_t column;
	STEP_COUNT_LIST(STEP_COUNT_FIELD)
#undef STEP_COUNT_FIELD
};

/* One entry of a block table that the runner must set before the step: table[row][index] = block.
 */
struct block_addition {
	uint32_t row;
	uint32_t index;
	uint32_t block;
};

struct batch {
	uint64_t step; /* number of the step, from 0 */
	bool is_ahead; /* priced as launched before the preceding step has ended */
	struct step_counts counts;

	/* for computing runners; (row_count) each unless noted otherwise */
	uint32_t row_count;
	uint32_t row_capacity;
	uint32_t *row;		  /* stable row of the sequence: index of its block table */
	uint32_t *query_start;	  /* (row_count + 1): row r computes tokens [query_start[r],
				     query_start[r + 1]) of the token arrays */
	uint32_t *context_length; /* tokens that the row's last token attends to, itself included */
	bool *is_sampled;	  /* the row's last token yields a next token */
	uint64_t *request;	  /* keys of the sampler's noise: request and the sampled token's */
	uint32_t *sample_position; /* position in its sequence */
	float *temperature;

	uint32_t token_count;
	uint32_t token_capacity;
	int32_t *token_id;  /* (token_count); -1 in a decode row: the row's last sampled token,
			       fed back on the device */
	uint32_t *position; /* (token_count) in its sequence, from 0 */
	int64_t *slot;	    /* (token_count) block * block_size + offset in the KV pool */

	uint32_t addition_count;
	size_t addition_capacity;
	struct block_addition *additions; /* (addition_count), in order; the buffer may grow */
};

/* row_capacity and token_capacity may be 0 when no runner computes. */
void batch_init(struct batch *batch, uint32_t row_capacity, uint32_t token_capacity);
void batch_deinit(struct batch *batch);

/* Empties the batch for a new step. */
void batch_clear(struct batch *batch, uint64_t step);

struct sequence;

/* Appends a row that computes tokens [first, first + count) of a settled sequence. */
void batch_add_row(struct batch *batch, const struct sequence *sequence, uint32_t first,
	uint32_t count, bool is_sampled, uint32_t block_size);

void batch_add_addition(struct batch *batch, uint32_t row, uint32_t index, uint32_t block);

/* Pairs (query, key) of causal attention for `count` tokens behind `first` others. */
static inline uint64_t batch_attention_pairs(uint64_t first, uint64_t count)
{
	return count * first + count * (count + 1) / 2;
}

/* ---- tiles ---- */

/* The work of prefill attention in a step, counted as the kernel cuts it.

   A row's queries are cut into tiles of PREFILL_TILE, the last one in part. Every tile is
   computed once for each query head, by one multiprocessor, which walks through the keys of the
   tile's last query. The longest tiles come first. */

/* Queries in a tile; the kernels' own constant is PREFILL_QUERY_TILE (engine/shape/kernel_tiles.h),
   and sim/operation_prices.c asserts that they are equal. */
enum { PREFILL_TILE = 128 };

/* Tiles of `count` queries. */
static inline uint64_t prefill_tile_count(uint64_t count)
{
	return u64_divide_up(count, PREFILL_TILE);
}

/* The keys of all tiles of `count` tokens behind `first` others. */
static inline uint64_t prefill_tile_keys(uint64_t first, uint64_t count)
{
	uint64_t tiles = prefill_tile_count(count), tile = PREFILL_TILE;

	return tiles == 0 ? 0 : tiles * first + tile * (tiles * (tiles - 1) / 2) + count;
}

/* What the tiles are spread over; 0, 0: not known. */
enum { PREFILL_MULTIPROCESSORS_MAX = 4096 };
struct prefill_spread {
	uint32_t heads; /* query heads of a rank */
	uint32_t multiprocessors;
};

/* A tile of a list: its keys, and whether more than half of its queries are there. */
static inline uint32_t prefill_tile(uint32_t keys, bool is_full)
{
	return keys << 1 | is_full;
}

/* The keys of a tile of a list. */
static inline uint64_t prefill_tile_reach(uint32_t tile)
{
	return tile >> 1;
}

static inline bool prefill_tile_is_full(uint32_t tile)
{
	return tile & 1;
}

/* The keys that the busiest multiprocessor walks through, if all heads' tiles are dealt to the
   multiprocessors in falling order of their keys, in rounds, every other one backwards. It is at
   least the longest tile's keys and the mean of all, and never falls when a tile or a key is added.
   kernels/attention/prefill_sm90.cu deals so, but tiles of nearly equal length in another order
   (prefill_tiles_fill()): its busiest has up to a sixteenth more or less. 0 where the spread is not
   known. tiles: (count), in falling order. */
uint64_t prefill_chain_keys(
	const uint32_t *tiles, uint32_t count, const struct prefill_spread *spread);

/* Whether prefill attention has a multiprocessor for each half of each tile of each head. */
static inline bool prefill_is_halved(uint64_t tiles, const struct prefill_spread *spread)
{
	return 2 * tiles * spread->heads <= spread->multiprocessors;
}

/* The same where a tile at most half full counts half of its keys, rounded up: one of the two
   warpgroups that compute a tile has nothing to do then. Where all tiles fill at most half of the
   multiprocessors the kernel halves them, and each counts half.

   longest: the most keys of a tile. alone: the most of prefill_half_chain_of_prompt() of the
   prompts; the chain is at least that. Tiles of several prompts are dealt in falling order of what
   they count, since in that of their keys a prompt with a token more could make the chain
   shorter. */
uint64_t prefill_half_chain_keys(const uint32_t *tiles, uint32_t count, uint64_t longest,
	uint64_t alone, const struct prefill_spread *spread);

/* Both of a single prompt: `count` tokens behind `first` others. */
uint64_t prefill_chain_of_prompt(
	uint64_t first, uint64_t count, const struct prefill_spread *spread);
uint64_t prefill_half_chain_of_prompt(
	uint64_t first, uint64_t count, const struct prefill_spread *spread);

/* Lists the tiles of a prompt, in falling order. Returns their number. */
uint32_t prefill_tiles_list(uint32_t *tiles, uint32_t first, uint32_t count);

/* Puts tiles in falling order of their keys. */
void prefill_tiles_sort(uint32_t *tiles, uint32_t count);

#endif
