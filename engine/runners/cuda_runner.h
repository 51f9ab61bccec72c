#ifndef ENGINE_RUNNERS_CUDA_RUNNER_H
#define ENGINE_RUNNERS_CUDA_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/model/weights.h"
#include "engine/runner.h"
#include "kernels/op/launch.h"

/* The CUDA runner: computes tokens on the current GPU by engine/runners/cuda_forward.h.

   A step's data lies in pinned memory of the host, from where the step's first kernel copies it to
   fixed addresses on the device; its last kernel writes the tokens back
   (kernels/step_io/step_io.h). So a step that only decodes is one captured graph, from the host's
   data to the host's tokens. It is padded to the next larger of some batch sizes; padding rows
   store nothing, attend to nothing and touch no other row. A step with prompts, or with more decode
   work than a graph has room for, is launched operation by operation.

   elapsed_ns runs from the start of scheduling, or from the step before if that ended later, to the
   step's tokens on the host; gpu_ns is what the GPU's clock says from the first kernel's begin to
   the last one's end, idle_ns from the last one's end of the step before to that begin; host_ns is
   elapsed_ns without gpu_ns.

   What a row computes does not depend on the other rows of a step, on their number, on padding, on
   graph or eager launch. But there are two kinds of rows: those of prompts, chunks of one token
   included, and decode rows. Two operations have an order of sums for either kind and launches of
   their own: attention, and the products with weights that linear_split_k() cuts (those of o
   and down in qwen3-0.6b, none in qwen3-8b); in all others every row has the same order. Positions
   of a prompt are computed by rows of the one kind, those of a completion by the other. So the K/V
   and the sampled tokens of a request are the same bits

       alone and in any company, under any policy and limits, with graphs and eager, run after run;
       with a prompt computed whole or in chunks of any size;
       with a prefix found in blocks that rows of prompts filled.

   They may differ, within rounding, only where a position is computed by a row of the other kind:

       after a preemption, where the completion so far is computed again as a prompt's: at those
       positions that had been decoded, and at all behind them;
       with a prefix found in blocks that decode rows filled (a later turn of a conversation whose
       prompt repeats a completion), against the same prompt computed: at the decoded positions, and
       at all behind them.

   Either is the same again whenever the run is repeated, and nobody else's bits change but of those
   who find such blocks. All this is within one path of kernels: general and sm_90 have their own
   bits. */

struct range_watch;

struct cuda_runner_options {
	const struct weights *weights;	    /* read when opened, not needed afterwards */
	const struct engine_config *engine; /* its kv_block_count may be 0 */
	uint64_t gpu_memory_utilization;    /* millionths, where kv_block_count is 0 */
	uint64_t seed;			    /* of the sampler's noise */
	bool is_eager;			    /* no graphs */
	enum kernel_path path;		    /* of attention */
	struct range_watch *watch;	    /* of what is launched; NULL: nobody watches */
};

/* What the GPU offers and what is taken of it, in bytes. */
struct cuda_memory {
	char device[64];
	uint64_t total_bytes;
	uint64_t used_bytes;  /* by everything but the KV pool, other programs included */
	uint64_t block_bytes; /* a KV block and its share of the block tables */
	uint32_t block_count;
};

/* *memory is filled whether or not kv_block_count was given; block_count is what the engine gets.
 */
enum status cuda_runner_open(struct runner *out, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error);

/* A block of the KV pool as it lies on the GPU, all layers: (layers, k and v, kv_heads, block_size,
   head_dim) bf16, its 16-byte chunks permuted by kernels/attention/paged_kv.h; for tests. */
uint64_t cuda_runner_block_bytes(const struct runner *runner);
enum status cuda_runner_read_block(
	const struct runner *runner, uint32_t block, uint16_t *out, struct error *error);

/* Copies the logits of the latest step, (sampled_rows, vocab_size); for tests. */
enum status cuda_runner_logits(
	const struct runner *runner, uint32_t row_count, float *logits, struct error *error);

#endif
