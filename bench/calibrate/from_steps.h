#ifndef BENCH_CALIBRATE_FROM_STEPS_H
#define BENCH_CALIBRATE_FROM_STEPS_H

#include "bench/calibrate/fit.h"
#include "bench/calibrate/step_log.h"
#include "bench/replay/replay_config.h"

/* A profile of another engine's steps, from its log (bench/calibrate/step_log.h). The fit is that
   of a calibration (bench/calibrate/fit.h): this only prepares points, and says how far off the
   prices are on a phase of the log that they were not fitted to. */

/* How the steps of a held-out phase are predicted. */
struct phase_errors {
	uint64_t steps;
	double measured_s, predicted_s;			/* all steps */
	double measured_median_ms, predicted_median_ms; /* lower medians */
	struct profile_errors each;
};

struct from_steps_request {
	const char *path, *left_out_phase, *held_out_phase;
	const char *source; /* what was recorded; NULL: not said */
	/* What a step, and each of its rows, takes at least on the host of an engine in a process
	   of its own; millionths of a microsecond, 0: nothing beyond the prices. */
	uint64_t host_step_us, host_row_us;
	/* Its model, ranks, seed, and the log's engine: block size, share of the memory and, unless
	   0, the KV blocks it found. Gets the defaults of policy vllm. */
	struct replay_config *config;
};

struct from_steps_result {
	struct step_log log; /* to be freed, also after a failure; its points have predictions */
	struct calibrate_fit fit;
	struct phase_errors phase; /* zero where no phase is held out */
	size_t step_count;	   /* of the log, to fit prices to */
};

/* gpu: a profile of rates; gets what the engine holds of the memory, and the host's times, for
   calibrate_profile_write(). */
enum status from_steps(struct from_steps_result *out, const struct from_steps_request *request,
	struct gpu_profile *gpu, struct error *error);

/* The same from the lines of CALIBRATE_ENGINE_LIST in front of the points that a log became; what
   they do not say stays as it is. */
enum status from_steps_read_engine(
	const struct calibrate_origin *origin, struct gpu_profile *gpu, struct error *error);

#endif
