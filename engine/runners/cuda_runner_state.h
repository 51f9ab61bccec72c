#ifndef ENGINE_RUNNERS_CUDA_RUNNER_STATE_H
#define ENGINE_RUNNERS_CUDA_RUNNER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "engine/runner.h"
#include "engine/runners/cuda_exchange.h"
#include "engine/runners/cuda_graphs.h"
#include "engine/runners/cuda_launcher.h"

/* The state of a CUDA runner, for its two files: cuda_runner.c runs steps, cuda_runner_open.c opens
   and closes, on every rank. */

/* A step in flight: launched, and its tokens not yet collected. */
struct flight {
	uint64_t start_ns;
	uint32_t sampled_count, decode_count;
	uint32_t prompt_sample; /* where the samples of prompts begin, behind those of padding */
	enum step_mode mode;
};

struct cuda_runner {
	struct cuda_launcher launcher;
	struct cuda_exchange exchange; /* launcher.exchange, where there are ranks */
	struct cuda_graphs graphs;
	struct engine_config engine;
	bool has_registered; /* the ranks' memory is pinned for this GPU */
	struct prefill_spread spread;
	uint32_t readers; /* of a shared block, at once */

	struct flight flights[CUDA_STEP_SLOTS];
	const char *range;    /* around the launches of the latest step */
	uint64_t start_ns;    /* when scheduling of the step began; 0: unknown */
	uint64_t host_end_ns; /* when the latest step's tokens arrived on the host */
	uint64_t gpu_end_ns;  /* when that step ended on the GPU's timer; 0: no step yet */
};

/* Launches a step whose slot is filled, by its numbers: a graph, or the first kernel of an eager
   step, whose parts are then left to the launcher. What every rank does. */
enum status cuda_runner_launch(
	struct cuda_runner *runner, const struct rank_message *step, struct error *error);

/* The interface of an open runner. */
struct runner cuda_runner_functions(struct cuda_runner *runner);

void cuda_runner_close(void *state);

#endif
