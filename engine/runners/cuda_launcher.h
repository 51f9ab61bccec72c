#ifndef ENGINE_RUNNERS_CUDA_LAUNCHER_H
#define ENGINE_RUNNERS_CUDA_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/ranks/ranks.h"
#include "engine/runners/cuda_exchange.h"
#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_step_data.h"

/* Enqueues steps on the stream and counts them. Step n uses slot n % CUDA_STEP_SLOTS of the step
   data, so at most CUDA_STEP_SLOTS steps are in flight.

   Every rank launches the same steps, each on its own GPU. "Collective" functions are called by all
   ranks in the same order. */

struct cuda_launcher {
	struct cuda_forward *forward;
	struct CUstream_st *stream;
	struct nvtx_ranges *ranges;	/* NULL: disabled */
	struct ranks *ranks;		/* NULL: one rank */
	struct cuda_exchange *exchange; /* of the ranks, or NULL */
	struct cuda_step_data data;
	uint64_t launched, collected; /* steps; launched - collected are in flight */

	/* the step that is being enqueued */
	bool is_launching; /* parts of it are left */
	uint32_t sample_count;
};

/* 0, or the index of this rank. */
uint32_t cuda_launcher_rank(const struct cuda_launcher *launcher);

/* Whether this process fills the slots that its GPU reads: rank 0 does, and a rank that shares no
   memory with it. What rank 0 posts is filled in both cases. */
bool cuda_launcher_fills(const struct cuda_launcher *launcher);

/* Selects the slot of the next step's data; returns its index. */
uint32_t cuda_launcher_next_slot(struct cuda_launcher *launcher);

/* Enqueues a step, from the host's data to the host's tokens: cuda_launcher_begin() its first
   kernel, cuda_launcher_run_part() the next part of the forward pass, and behind the last part the
   last kernel. is_launching says whether parts are left; cuda_launcher_run_rest() runs these. The
   step is not counted, because a captured step runs later. After a failure nothing is left. */
enum status cuda_launcher_begin(struct cuda_launcher *launcher,
	const struct cuda_step_layout *layout, const struct cuda_batch *batch, struct error *error);
enum status cuda_launcher_run_part(struct cuda_launcher *launcher, struct error *error);
enum status cuda_launcher_run_rest(struct cuda_launcher *launcher, struct error *error);

/* All of a step. */
enum status cuda_launcher_run(struct cuda_launcher *launcher, const struct cuda_step_layout *layout,
	const struct cuda_batch *batch, struct error *error);

/* Whether the oldest step in flight has ended on this rank's GPU. Reads a word of host memory. */
bool cuda_launcher_has_ended(const struct cuda_launcher *launcher);

/* Polls the completion flag that a rank's GPU sets at the end of the oldest step in flight. Fails
   if this GPU, an exchange or another rank does. */
enum status cuda_launcher_await(
	const struct cuda_launcher *launcher, uint32_t rank, struct error *error);

/* For waits: whether the GPU, an exchange between ranks or another rank has failed. A failure of
   this rank ends all ranks. */
enum status cuda_launcher_look(const struct cuda_launcher *launcher, struct error *error);

/* Ends all ranks with this rank's error, without which they would wait for it. Where another rank
   has failed before, its error is the cause of this one, and takes its place. */
void cuda_launcher_fail(const struct cuda_launcher *launcher, struct error *error);

/* Collective: a barrier; error is this rank's so far, and everybody's on return. Rank 0 alone fills
   slots, and all wait here before they launch what was filled. */
enum status cuda_launcher_meet(struct cuda_launcher *launcher, struct error *error);

/* Collective: meets, then runs a step whose tokens are discarded, waits for its end and counts
   it. */
enum status cuda_launcher_run_silent(struct cuda_launcher *launcher,
	const struct cuda_step_layout *layout, const struct cuda_batch *batch, struct error *error);

#endif
