#ifndef KERNELS_LINEAR_LINEAR_PLAN_H
#define KERNELS_LINEAR_LINEAR_PLAN_H

#include "kernels/op/launch.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which kernel computes a linear layer. It is decided here and nowhere else, by pure functions that
   need no GPU: the forward pass, the budget of scratch memory, the kernel bench and the tests all
   read the same plan, and linear_run() (kernels/linear/linear.h) carries it out.

   path                     kernel                     rows of decode that it is for
   LINEAR_TINY              linear_tiny.cu, mma.sync   few, whose latency is that of one chain
   LINEAR_SMALL             linear_small.cu, wgmma     up to the 64 rows of one instruction
   LINEAR_WIDE              linear_wide.cu, wgmma      more, as long as all tiles run at a time
   LINEAR_CUBLASLT          cublaslt.cu                any; and all rows of prompts
   LINEAR_CUBLASLT_SPLIT_K  cublaslt.cu                any; float32 sums of slices go to scratch,
						       and add_rms_norm_split_k() adds them

   The bits of a row follow from the split-K order alone, whichever of them computes it. */

enum linear_path {
	LINEAR_CUBLASLT,
	LINEAR_CUBLASLT_SPLIT_K,
	LINEAR_TINY,
	LINEAR_SMALL,
	LINEAR_WIDE,
	LINEAR_NONE, /* no kernel of ours fits, see linear_plan_kernel() */
};

/* Split-K: into how many equal slices the inputs (the K of the GEMM) of a weight are cut, whatever
   the number of rows. SPLIT_K where there are many inputs and so few outputs that one chain for
   each takes longer than reading the weight, else 1. Each slice is one chain of matrix instructions
   over 16 inputs after 16, from zero, in float32; the sums of the slices are then added in
   ascending order, ((s0 + s1) + s2) + s3, and the bias to that. With 1 the order is that of
   cublaslt_linear(). */
uint32_t linear_split_k(uint32_t input_count, uint32_t output_count);

struct linear_shape {
	uint32_t input_count;
	uint32_t output_count; /* rows of the weight; with has_silu the gates, then the ups */
	uint32_t split_k;      /* order of the sums: 1 or linear_split_k() */
	bool has_silu;	       /* out = silu(gate) * up */
};

/* What of a GPU the choice depends on. */
struct linear_device {
	bool has_sm90;
	uint32_t multiprocessors;
	uint32_t clusters;	    /* of SPLIT_K blocks, that run at a time */
	uint32_t shared_bytes;	    /* of a block alone on its multiprocessor */
	uint32_t half_shared_bytes; /* of a block that leaves room for another like it */
};

/* Of the H200, on which the choices were measured; other devices of its path use the same. */
struct linear_device linear_device(enum kernel_path path);

struct linear_plan {
	enum linear_path path;
	struct linear_shape shape;
	uint32_t row_count;
	bool fuses_norm;	/* LINEAR_TINY: add_rms_norm() of the input comes with it */
	uint64_t scratch_bytes; /* (split_k, row_count, output_count) float32, or 0 */

	/* of a launch of our own kernels */
	uint32_t weight_rows;		      /* of a block's tile */
	uint32_t tile_tokens;		      /* of a block's tile */
	uint32_t token_stages, weight_stages; /* of the rings; LINEAR_SMALL has one ring */
	uint32_t sharers;		      /* LINEAR_WIDE: blocks that multicast a weight */
	uint32_t shared_bytes;		      /* of a block */
};

/* The fastest way for row_count rows. has_norm: the layer's input is add_rms_norm() of something.
   If the plan does not fuse it, that is a launch of its own. So is silu_mul(), with has_silu and a
   path of cuBLASLt. */
struct linear_plan linear_plan(const struct linear_shape *shape, uint32_t row_count, bool has_norm,
	const struct linear_device *device);

/* The fastest of our own kernels, for any number of rows, even where cuBLASLt is faster. */
struct linear_plan linear_plan_kernel(const struct linear_shape *shape, uint32_t row_count,
	bool has_norm, const struct linear_device *device);

/* One of our own kernels, by its name; LINEAR_NONE where it does not fit. */
struct linear_plan linear_plan_path(enum linear_path path, const struct linear_shape *shape,
	uint32_t row_count, const struct linear_device *device);

/* Whether our own kernels serve a weight of this shape. */
bool linear_has_kernel(const struct linear_shape *shape, const struct linear_device *device);

/* The plans for a batch whose first decode_count rows are decode rows, in the order of the rows.
   Returns how many: 0 to LINEAR_PLANS_MAX. may_split_k: the layer has no bias, and the
   add_rms_norm() behind it can add the slices. Then decode rows are summed in the split-K order of
   the weight, and rows of prompts in one chain. Else all rows have one plan. */
enum { LINEAR_PLANS_MAX = 2 };
uint32_t linear_plan_batch(struct linear_plan *out, const struct linear_shape *shape,
	bool may_split_k, uint32_t decode_count, uint32_t row_count,
	const struct linear_device *device);

/* ---- what the plan and the kernels agree on ---- */

enum {
	LINEAR_CHUNK = 64,	       /* inputs of a row of a tile in shared memory */
	LINEAR_BARRIER_BYTES = 1024,   /* in front of the tiles; keeps them aligned */
	LINEAR_STAGES_MAX = 32,	       /* of a ring: its barriers have room for so many */
	LINEAR_TINY_ROWS = 4,	       /* for which linear_tiny.cu is made without split-K */
	LINEAR_TINY_K_TILE = 128,      /* inputs, of which a slice is a multiple */
	LINEAR_TINY_TOKEN_GAP = 16,    /* bytes behind a token's inputs, against bank conflicts */
	LINEAR_TINY_SUM_GAP = 4,       /* floats behind a token's sums, too */
	LINEAR_NORM_WARP_INPUTS = 256, /* of a warp that normalises, 8 a lane */
	LINEAR_NORM_WARPS_MAX = 8,
};

#ifdef __cplusplus
}
#endif

#endif
