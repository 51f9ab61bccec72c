#ifndef ENGINE_RUNNER_H
#define ENGINE_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/batch.h"

/* What turns a batch into tokens and time: the CUDA engine, the reference engine, the cost model or
   a tape. The engine knows a runner only by this interface. A new runner is one file and one row of
   the table in bench/replay/runners.h. */

enum step_mode { STEP_MODE_NONE, STEP_MODE_EAGER, STEP_MODE_GRAPH };

/* The time of a step, from the previous step's tokens on the host (after idling: from the start of
   scheduling) to its own tokens on the host. gpu_ns + host_ns is elapsed_ns. */
struct step_time {
	uint64_t elapsed_ns;
	uint64_t gpu_ns;
	uint64_t host_ns;
	uint64_t idle_ns; /* of the GPU, from the preceding step to this one, where it was measured
			     */
	enum step_mode mode;
	bool is_outside; /* priced, but unlike the steps that its prices were fitted to */
};

struct runner {
	const char *name;
	void *state;
	bool is_computing;	/* wants rows and tokens in the batch, and returns sampled tokens */
	bool takes_empty_steps; /* executes steps without rows too; of others they take no time */
	struct prefill_spread spread; /* of the GPU that computes the steps, or is modelled */
	uint32_t readers; /* sequences that one reading of a shared block serves; 0: not known */

	/* Runs one step. token_ids: (counts.sampled_rows), in row order, written by computing
	   runners only. *time: zeros before. A failure ends the run; requests that finished before
	   it stay finished. */
	enum status (*execute)(void *state, const struct batch *batch, int32_t *token_ids,
		struct step_time *time, struct error *error);

	/* The two halves of execute, for a runner that accepts a step before the preceding one has
	   ended; NULL: it does not. At most two steps are launched and not collected, and they are
	   collected in order. The batch may change as soon as launch returns. */
	enum status (*launch)(void *state, const struct batch *batch, struct error *error);

	/* For steps whose launch takes long, so that the step before can be collected in
	   mid-launch; NULL, both: launch() launches whole steps. launch_part() launches the next
	   part of the latest step, if one is left; *is_whole: none is left behind it. has_ended():
	   the oldest step in flight has ended, so collect() would not wait for the GPU. A step is
	   launched whole before it is collected and before another is launched. close() may come
	   in mid-launch. */
	enum status (*launch_part)(void *state, bool *is_whole, struct error *error);
	bool (*has_ended)(void *state);

	enum status (*collect)(
		void *state, int32_t *token_ids, struct step_time *time, struct error *error);

	/* When the next step starts, given that it could start at earliest_ns. NULL: at once. A
	   tape returns the recorded start; a runner that measures time starts measuring here. */
	enum status (*start)(
		void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error);

	/* What a step of such counts takes in a run of many, by a model. NULL: it has none. */
	enum status (*price)(void *state, const struct step_counts *counts, uint64_t *elapsed_ns,
		struct error *error);

	void (*close)(void *state); /* NULL: nothing to close */
};

#endif
