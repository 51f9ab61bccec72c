#ifndef ENGINE_REFERENCE_REFERENCE_RUNNER_H
#define ENGINE_REFERENCE_REFERENCE_RUNNER_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/model/weights.h"
#include "engine/runner.h"
#include "engine/reference/reference_forward.h"
#include "kernels/op/number.h"

/* The reference runner: computes tokens on the CPU by engine/reference/reference_forward.h. It is
   the reference for the GPU, and runs tiny models where there is no GPU. Any block size is allowed.

   It builds the block tables from the batch's additions, and keeps the last token that each row
   sampled. Its times are real and differ from run to run. elapsed_ns runs from the start of
   scheduling (the call of start, or else of execute) to the step's tokens. gpu_ns is the forward
   pass, host_ns the rest. Work of the caller between two steps, such as writing results, is in
   neither.

   With ranks the shares of tensor parallelism are computed one after the other, or by several
   processes, each with a runner of its own that executes every batch, and an exchange. */

struct reference_options {
	const struct weights *weights; /* read when opened, not needed afterwards */
	const struct engine_config *engine;
	enum rounding rounding;
	uint64_t seed; /* of the sampler's noise */
	struct forward_ranks ranks;
	uint32_t runs_after; /* see struct ranks_options */
};

/* KV blocks in `bytes` of host memory, at least 1. */
uint32_t reference_runner_blocks(
	const struct model_config *model, uint32_t block_size, uint64_t bytes);

enum status reference_runner_open(
	struct runner *out, const struct reference_options *options, struct error *error);

/* Logits of the latest step: (sampled_rows, vocab_size), overwritten by the next. With an exchange
   those of the process's own shares, see forward_logits(). */
const float *reference_runner_logits(const struct runner *runner);

#endif
