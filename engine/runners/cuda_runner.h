#ifndef ENGINE_RUNNERS_CUDA_RUNNER_H
#define ENGINE_RUNNERS_CUDA_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/model/weights.h"
#include "engine/runner.h"
#include "engine/ranks/ranks.h"
#include "engine/runners/cuda_exchange.h"
#include "engine/runners/cuda_memory.h"
#include "kernels/attention/decode_list.h"
#include "kernels/op/launch.h"

/* The CUDA runner: computes tokens on the current GPU by engine/runners/cuda_forward.h, or on
   several, one process (rank) a GPU.

   A step's data lies in pinned host memory. The first kernel of the step copies it to fixed
   addresses on the device; its last kernel writes the tokens back (kernels/step_io/step_io.h). So a
   decode step is one captured graph, from the host's data to the host's tokens, and of a small
   model on one GPU a step with few prompt tokens is too (engine/shape/graph_bucket.h). Its batch is
   padded to the next larger of a list of sizes; padding stores nothing, attends to nothing and
   affects no row. Any other step with prompts, or one with more decode work than a graph has room
   for, is launched kernel by kernel (eager), in parts of half a layer. Between two parts the engine
   looks at the completion flag of the step in flight before, a load of host memory, and collects
   that step when it has ended.

   Several ranks launch the same steps. Rank 0 alone is a runner to its caller: it fills the slot of
   a step in memory that all ranks have pinned, posts the step's numbers to the other ranks, and
   launches. They launch with the same numbers and never answer: kernels wait for each other on the
   GPUs (engine/runners/cuda_exchange.h). Steps may be launched ahead as with one rank. Rank 0
   compares the tokens of all ranks after each step. A rank that fails, ends or does not answer ends
   the run with one error. Under mpirun ranks share no memory: each gets the bytes of a slot by
   message, sums travel by NCCL, and tokens are not compared.

   Times of a step, in ns, on rank 0:

       elapsed_ns   from the start of scheduling, or from the end of the step before if that was
                    later, to the arrival of the step's tokens on the host, as it is seen there:
                    while the next step is launched, after the part that is being launched
       gpu_ns       from the begin of the first kernel to the end of the last, on the GPU's timer
       idle_ns      from the end of the step before to the begin of the first kernel, likewise
       host_ns      elapsed_ns - gpu_ns

   Batch invariance: what a row computes does not depend on the other rows of a step, on their
   number, on padding, or on graph or eager launch. It does depend on the kind of the row. Rows of
   prompts (chunks of one token included) and decode rows have different orders of summation in two
   operations: attention, and linear layers with split-K (linear_split_k(): o and down in
   qwen3-0.6b and 1.7b, none in qwen3-8b). Positions of a prompt are computed by rows of the first
   kind, positions of a completion by decode rows. So the keys, values and sampled tokens of a
   request have the same bits

       in any batch, under any policy and limits, with graphs and eager, run after run;
       with a prompt computed whole or in chunks of any size;
       with a prefix found in blocks that rows of prompts filled.

   They may differ, within rounding, only where a position is computed by a row of the other kind:

       after a preemption, which computes the completion so far again as part of a prompt: at the
       positions that had been decoded, and at all that follow;
       with a prefix found in blocks that decode rows filled (a later turn of a conversation whose
       prompt repeats a completion), compared with the same prompt computed: at the decoded
       positions, and at all that follow.

   Both repeat bit for bit in every run, and only requests that hit such blocks are affected. All
   this holds within one kernel path, for one number of ranks: the general path and sm_90 have
   different bits, and so have the sums of two ranks and of one. How ranks exchange their sums does
   not change them. */

struct range_stack;

struct cuda_runner_options {
	const struct weights *weights;	    /* read when opened, not needed afterwards */
	const struct engine_config *engine; /* its kv_block_count may be 0 */
	uint64_t gpu_memory_utilization;    /* millionths, where kv_block_count is 0 */
	uint64_t seed;			    /* of the sampler's noise */
	bool is_eager;			    /* no graphs */
	enum decode_sharing sharing;	    /* whether decode attention reads shared blocks once */
	enum kernel_path path;		    /* the best that may be used */
	struct range_stack *stack;	    /* of the ranges open; NULL: disabled */
	struct ranks *ranks;		    /* by cuda_runner_start_ranks(); NULL: one rank */
	uint32_t first_device;		    /* the GPU of rank 0; rank r has the r-th behind it */
	enum cuda_transport transport;	    /* between ranks */
	uint32_t runs_after;		    /* see struct ranks_options */
};

/* Starts ranks 1 to rank_count - 1 and sets options->ranks. Nothing of CUDA may have been called.
   They read *options, then each opens the same runner on its GPU and follows rank 0, until the
   runner is closed. Where it is not opened, ranks_close() ends them. */
enum status cuda_runner_start_ranks(
	struct cuda_runner_options *options, uint32_t rank_count, struct error *error);

/* Opens the runner on the current GPU; with ranks, on first_device, and the ranks are the runner's
   from then on, also after a failure. *memory is always filled; its block_count is the number of KV
   blocks of the engine, given or computed: the least of all ranks. */
enum status cuda_runner_open(struct runner *out, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error);

/* For tests: the bytes of a KV block on this rank's GPU, all layers: (layers, k and v, kv_heads,
   block_size, head_dim) bf16, with 16-byte chunks permuted as in kernels/attention/paged_kv.h. */
uint64_t cuda_runner_block_bytes(const struct runner *runner);
enum status cuda_runner_read_block(
	const struct runner *runner, uint32_t block, uint16_t *out, struct error *error);

/* For tests: copies the logits of the latest step's first row_count sampled rows, without padding,
   (row_count, vocab_size) float32; with several ranks those of this rank's part of the
   vocabulary. */
enum status cuda_runner_logits(
	const struct runner *runner, uint32_t row_count, float *logits, struct error *error);

#endif
