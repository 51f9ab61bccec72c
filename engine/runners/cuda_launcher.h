#ifndef ENGINE_RUNNERS_CUDA_LAUNCHER_H
#define ENGINE_RUNNERS_CUDA_LAUNCHER_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_step_data.h"

/* Enqueues steps on the stream and counts them. Step n uses slot n % CUDA_STEP_SLOTS of the step
   data, so at most CUDA_STEP_SLOTS steps are in flight. */

struct cuda_launcher {
	struct cuda_forward *forward;
	struct CUstream_st *stream;
	struct nvtx_ranges *ranges; /* NULL: disabled */
	struct cuda_step_data data;
	uint64_t launched, collected; /* steps; launched - collected are in flight */
};

/* Selects the slot of the next step's data; returns its index. */
uint32_t cuda_launcher_next_slot(struct cuda_launcher *launcher);

/* Enqueues a step, from the host's data to the host's tokens. Does not count it, because a
   captured step runs later. */
enum status cuda_launcher_run(struct cuda_launcher *launcher, const struct cuda_step_layout *layout,
	const struct cuda_batch *batch, struct error *error);

/* Runs a step whose tokens are discarded: waits for its end and counts it. */
enum status cuda_launcher_run_silent(struct cuda_launcher *launcher,
	const struct cuda_step_layout *layout, const struct cuda_batch *batch, struct error *error);

#endif
