#ifndef ENGINE_SHAPE_KERNEL_TILES_H
#define ENGINE_SHAPE_KERNEL_TILES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The sizes into which kernels cut their work, where scratch memory or step times depend on them.
   Kernels and estimates without a GPU share them. */
enum {
	SPLIT_K = 4,		  /* slices of a linear layer's inputs, see linear_split_k() */
	SPLIT_K_MULTIPLE = 128,	  /* inputs, of which a slice is a multiple */
	DECODE_SPLIT = 256,	  /* tokens of context in a split of decode attention */
	DECODE_MERGERS = 4,	  /* warps of a block that merge splits */
	DECODE_LONG = 16,	  /* splits of a row; with more, a launch is long */
	DECODE_ALONE = 96,	  /* the same of a row alone, at most: decode_long_alone() */
	DECODE_ROUND = 2048,	  /* tokens of a row alone that a cluster reads at a time */
	DECODE_COLUMN_BLOCK = 8,  /* query heads that one warp computes of a shared split */
	DECODE_COLUMN_BLOCKS = 4, /* warps that compute shared splits */
	PREFILL_QUERY_TILE = 128, /* queries in a tile of prefill attention */
	SAMPLER_TILE = 1024,	  /* logits in a tile of the sampler */
	SAMPLER_TILE_BYTES = 8,	  /* scratch of a tile */
};

/* Keys and values of a layer on one GPU, in bytes, that sharing has to save to be worth its own
   cost, where rows are short. Source: kernels/attention/TUNING.md, "Decode of long rows and of
   shared prefixes". On an H200 a step of short rows that saves 63 MiB takes 0.7 us a layer more
   with shared splits than without, and one that saves 93 MiB takes 7.2 us less. */
enum { DECODE_SHARING_LEAST = 72 << 20 };

/* Split-K: the number of equal slices into which the inputs of a weight (K of the GEMM) are cut. It
   depends on the shape of the weight alone, never on the number of rows (batch invariance). It is
   SPLIT_K for weights with many inputs and few outputs, for which one chain of matrix instructions
   over all inputs takes longer than reading the weight. Else it is 1. */
uint32_t linear_split_k(uint32_t input_count, uint32_t output_count);

/* The same as DECODE_LONG of a launch of one row, which a cluster of blocks for each key/value head
   computes faster up to so many splits. With fewer heads fewer multiprocessors are clusters. */
uint32_t decode_long_alone(uint64_t kv_heads);

/* Rows that one reading of a shared split serves: each of DECODE_COLUMN_BLOCKS warps has the query
   heads of whole rows. 0: a row has more query heads to a key/value head than a warp computes, so
   that no reading serves several. */
uint32_t decode_readers(uint64_t heads, uint64_t kv_heads);

/* The counters of decode attention: one of claims, and for each row and key/value head
   DECODE_MERGERS of stored splits. */
uint64_t decode_counters(uint64_t rows, uint64_t kv_heads);

#ifdef __cplusplus
}
#endif

#endif
