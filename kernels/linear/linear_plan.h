#ifndef KERNELS_LINEAR_LINEAR_PLAN_H
#define KERNELS_LINEAR_LINEAR_PLAN_H

#include "engine/shape/kernel_tiles.h"
#include "kernels/op/launch.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which kernel computes a linear layer. This is the only place that decides. The functions are pure
   and need no GPU: the forward pass, the budget of scratch memory, the kernel benchmark and the
   tests all use the same plan, and linear_run() (kernels/linear/linear.h) launches it.

       path                     kernel                     serves
       LINEAR_TINY              linear_tiny.cu, mma.sync   a few decode rows
       LINEAR_STREAM            linear_stream.cu, mma.sync up to 8 rows: wide weights, logits,
                                                           and split-K of many outputs
       LINEAR_SMALL             linear_small.cu, wgmma     up to 64 rows, M of one wgmma
       LINEAR_WIDE              linear_wide.cu, wgmma      more, while all tiles run in one wave;
                                                           with split-K from 2 rows on
       LINEAR_TALL              linear_tall.cu, wgmma      9 to 1,024 rows, and long prompts
       LINEAR_CUBLASLT          cublaslt.cu                any number of rows
       LINEAR_CUBLASLT_SPLIT_K  cublaslt.cu                any number of rows; leaves partial sums
                                                           in scratch for add_rms_norm_split_k()

   All paths of one split_k give a row the same bits. The limits in rows come from measurements
   on an H200, see kernels/linear/TUNING.md. */

enum linear_path {
	LINEAR_CUBLASLT,
	LINEAR_CUBLASLT_SPLIT_K,
	LINEAR_TINY,
	LINEAR_STREAM,
	LINEAR_SMALL,
	LINEAR_WIDE,
	LINEAR_TALL,
	LINEAR_NONE, /* none of our own kernels fits, see linear_plan_kernel() */
};

/* Split-K (linear_split_k() in engine/shape/kernel_tiles.h) decides the order of summation: each
   slice is one chain of matrix instructions over 16 inputs after 16, from zero, in float32. The
   partial sums are added in ascending order, ((s0 + s1) + s2) + s3, then the bias. Without split-K
   the order is that of cublaslt_linear(). */
struct linear_shape {
	uint32_t input_count;
	uint32_t output_count; /* rows of the weight; with has_silu all gates, then all ups */
	uint32_t split_k;      /* 1 or linear_split_k() */
	bool has_silu;	       /* out = silu(gate) * up */
	bool is_logits;	       /* out is float32, without rounding */
};

/* The properties of a GPU on which the choice depends. */
struct linear_device {
	bool has_sm90;
	uint32_t multiprocessors;
	uint32_t clusters;	    /* clusters of SPLIT_K blocks that are resident at a time */
	uint32_t shared_bytes;	    /* for one block a multiprocessor */
	uint32_t half_shared_bytes; /* of each block where two share a multiprocessor */
};

/* The properties of the H200, on which the limits were measured. Other devices with the same
   kernel path use them too. */
struct linear_device linear_device(enum kernel_path path);

struct linear_plan {
	enum linear_path path;
	struct linear_shape shape;
	uint32_t row_count;
	bool fuses_norm;	/* LINEAR_TINY, _STREAM: with the add_rms_norm() of its input */
	uint64_t scratch_bytes; /* (split_k, row_count, output_count) float32, or 0 */

	/* for our own kernels */
	uint32_t weight_rows;		      /* rows of the weight in the tile of a block */
	uint32_t tile_tokens;		      /* tokens in the tile of a block */
	uint32_t token_stages, weight_stages; /* stages of the rings; LINEAR_SMALL has one ring */
	uint32_t stage_chunks;		      /* LINEAR_WIDE: chunks of inputs in a stage */
	uint32_t blocks;	/* LINEAR_STREAM: each computes tiles of an equal share of rows */
	uint32_t sharers;	/* LINEAR_WIDE, _TALL: blocks that share weight rows by multicast */
	uint32_t token_sharers; /* LINEAR_TALL: blocks that share tokens by multicast */
	uint32_t shared_bytes;	/* dynamic shared memory of a block */
};

/* The fastest plan for row_count rows. has_norm: the input of the layer is the result of an
   add_rms_norm(). What the plan does not fuse needs a launch of its own: this norm, and
   silu_mul() for has_silu with a path of cuBLASLt. */
struct linear_plan linear_plan(const struct linear_shape *shape, uint32_t row_count, bool has_norm,
	const struct linear_device *device);

/* The fastest of our own kernels, even where cuBLASLt is faster. LINEAR_NONE where none fits. */
struct linear_plan linear_plan_kernel(const struct linear_shape *shape, uint32_t row_count,
	bool has_norm, const struct linear_device *device);

/* The plan for a given path of our own; LINEAR_NONE where it does not fit. */
struct linear_plan linear_plan_path(enum linear_path path, const struct linear_shape *shape,
	uint32_t row_count, const struct linear_device *device);

/* LINEAR_TALL: the tile of a block, and the blocks that share what they load (a cluster). */
struct linear_tall_tile {
	uint32_t groups;      /* of 64 rows of the weight: 1 or 2 without silu, 2 or 3 with it */
	uint32_t token_tiles; /* of equally many tokens; 0: of LINEAR_TALL_TOKENS each */
	uint32_t token_sharers, weight_sharers;
};

/* The plan for a given tile, for tests and measurements; LINEAR_NONE where it does not fit. */
struct linear_plan linear_plan_tall(const struct linear_shape *shape, uint32_t row_count,
	const struct linear_tall_tile *tile, const struct linear_device *device);

/* Whether our own kernels support this shape. */
bool linear_has_kernel(const struct linear_shape *shape, const struct linear_device *device);

/* The plans for a batch of row_count rows, of which the first decode_count are decode rows. out:
   (LINEAR_PLANS_MAX), in the order of the rows. Returns the number of plans.

   may_split_k: the layer has no bias, and its output goes to an add_rms_norm() that can add
   slices. Then decode rows use the split-K of the weight, and rows of prompts are summed in one
   chain. Else one plan serves all rows. */
enum { LINEAR_PLANS_MAX = 2 };
uint32_t linear_plan_batch(struct linear_plan *out, const struct linear_shape *shape,
	bool may_split_k, uint32_t decode_count, uint32_t row_count,
	const struct linear_device *device);

/* ---- constants of both the plan and the kernels ---- */

/* The tiles of LINEAR_WIDE with split-K, by rising size: X(rows of the weight, tokens, chunks of
   inputs in a stage, stages of tokens at most). The tokens follow the graphs of a step
   (engine/shape/graph_bucket.h), because a copy of tokens that are missing takes time: with a tile
   of 96 for 12 tokens a step of qwen3-0.6b takes 13 % longer (TUNING.md). */
#define LINEAR_WIDE_SPLIT_TILES(X)                                                                 \
	X(64, 8, 4, 8)                                                                             \
	X(64, 8, 2, 8)                                                                             \
	X(64, 16, 4, 8)                                                                            \
	X(64, 16, 2, 8)                                                                            \
	X(64, 24, 2, 8)                                                                            \
	X(64, 32, 2, 8)                                                                            \
	X(64, 48, 2, 6)                                                                            \
	X(64, 64, 2, 6)                                                                            \
	X(64, 80, 2, 4)                                                                            \
	X(64, 96, 2, 4)                                                                            \
	X(64, 112, 2, 3)                                                                           \
	X(64, 128, 2, 3)                                                                           \
	X(128, 16, 2, 4)                                                                           \
	X(128, 24, 2, 4)                                                                           \
	X(128, 32, 2, 4)                                                                           \
	X(128, 48, 2, 4)                                                                           \
	X(128, 64, 2, 4)                                                                           \
	X(128, 88, 1, 6)

enum {
	LINEAR_CHUNK = 64, /* bf16 inputs in a row of a tile in shared memory, 128 bytes */
	LINEAR_BARRIER_BYTES = 1024, /* for mbarriers, in front of the tiles; keeps tiles aligned */
	LINEAR_STAGES_MAX = 32,	     /* of a ring: room for mbarriers */
	LINEAR_TINY_ROWS = 4,	     /* the most for LINEAR_TINY without split-K */
	LINEAR_TINY_K_TILE = SPLIT_K_MULTIPLE,
	LINEAR_TINY_TOKEN_GAP = 16,  /* bytes after a token's inputs, against bank conflicts */
	LINEAR_TINY_SUM_GAP = 4,     /* floats after a token's sums, likewise */
	LINEAR_STREAM_TOKENS = 8,    /* the most, N of an mma.sync */
	LINEAR_STREAM_CHUNKS = 4,    /* of inputs in a stage */
	LINEAR_STREAM_ROWS = 16,     /* rows of the weight of a warp, M of an mma.sync */
	LINEAR_STREAM_WARPS_MAX = 8, /* of a tile */
	LINEAR_STREAM_ROW_WARPS = 8, /* that load one token */
	LINEAR_STREAM_ROOM = 1024,   /* shared memory of a norm's block */
	/* LINEAR_STREAM with split-K: shared memory of 16 rows, for 8 sums of each in float32 of
	   all slices but the first */
	LINEAR_STREAM_SUM_BYTES = (SPLIT_K - 1) * LINEAR_STREAM_ROWS * LINEAR_STREAM_TOKENS * 4,
	LINEAR_TALL_GROUPS = 3,	       /* the most of a tile, with silu only */
	LINEAR_TALL_TOKENS = 256,      /* the most of a tile with so many groups; of others half */
	LINEAR_TALL_EIGHT = 8,	       /* tokens, and rows of the weight, of which tiles consist */
	LINEAR_TALL_BAND = 8,	       /* token tiles that run together where there are more */
	LINEAR_NORM_WARP_INPUTS = 256, /* inputs of a norm warp, 8 a lane */
	LINEAR_NORM_WARPS_MAX = 8,
	/* LINEAR_STREAM: the most inputs of a fused norm */
	LINEAR_STREAM_NORM_INPUTS = 8192,
};

/* LINEAR_STREAM: whether the token, one alone, is in shared memory as a whole, behind the ring. */
static inline bool linear_stream_has_row(const struct linear_shape *shape, uint32_t row_count)
{
	return row_count == 1 && !shape->is_logits;
}

/* LINEAR_STREAM: bytes of the tokens in a stage; tiles of the weight behind them stay aligned. */
static inline uint32_t linear_stream_token_bytes(uint32_t row_count)
{
	return (LINEAR_STREAM_CHUNKS * row_count * (LINEAR_CHUNK * 2) + 1023) / 1024 * 1024;
}

/* LINEAR_TALL: N of its wgmma for so many tokens in a tile. */
static inline uint32_t linear_tall_columns(uint32_t tile_tokens)
{
	const uint32_t step = tile_tokens <= 128 ? 16 : 32;

	return (tile_tokens + step - 1) / step * step;
}

/* LINEAR_TALL: chunks of inputs in a stage. */
#define LINEAR_TALL_CHUNKS(rows, columns) ((rows) + (columns) <= 192 ? 2 : 1)

#ifdef __cplusplus
}
#endif

#endif
