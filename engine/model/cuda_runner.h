#ifndef MODEL_CUDA_RUNNER_H
#define MODEL_CUDA_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/model/weights.h"
#include "engine/runner.h"

/* The CUDA runner: computes tokens on the current GPU by engine/model/cuda_forward.h.

   A step's data goes up in one copy from pinned memory, to places that do not change from step to
   step. So a step that only decodes is a captured graph, from the embedding of the fed-back tokens
   to the sampled ones. It is padded to the next larger of some batch sizes; padding rows store
   nothing, attend to nothing and touch no other row. A step with prompts, or with more decode work
   than a graph has room for, is launched operation by operation.

   elapsed_ns runs from the start of scheduling to the step's tokens on the host; gpu_ns is measured
   by events around the step's work on the GPU, host_ns is the rest. */

struct range_watch;

struct cuda_runner_options {
	const struct weights *weights;	    /* read when opened, not needed afterwards */
	const struct engine_config *engine; /* its kv_block_count may be 0 */
	uint64_t gpu_memory_utilization;    /* millionths, where kv_block_count is 0 */
	uint64_t seed;			    /* of the sampler's noise */
	bool is_eager;			    /* no graphs */
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

/* Copies the logits of the latest step, (sampled_rows, vocab_size); for tests. */
enum status cuda_runner_logits(
	const struct runner *runner, uint32_t row_count, float *logits, struct error *error);

#endif
