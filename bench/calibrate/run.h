#ifndef BENCH_CALIBRATE_RUN_H
#define BENCH_CALIBRATE_RUN_H

#include "bench/calibrate/plan.h"
#include "bench/calibrate/points.h"
#include "bench/replay/run_to_folder.h"

/* The measuring half of a calibration: writes the plan as a trace, replays it like any other trace,
   so that the measured times have the same meaning, and reads its steps as points.

   folder/plan.jsonl          the trace
   folder/run/                the result of its replay, with steps.tsv
   folder/plan_ahead.jsonl    a smaller one,
   folder/run_ahead/          whose steps are launched ahead, for the host's share of such
   folder/points.tsv          the steps of both, joined, as they are at no heat */

/* Only reads the steps of a folder that already holds both runs. Of request only --model counts. */
enum status calibrate_collect(const struct replay_request *request, const char *folder,
	const struct gpu_profile *gpu, struct calibrate_points *out, struct error *error);

/* request: config holds model, runner, weights and limits. Under mpirun every process comes here,
   after runner_take_launch(), and only rank 0 returns: the others are its ranks in both runs. */
enum status calibrate_run(const struct replay_request *request, const char *folder,
	const struct gpu_profile *gpu, uint64_t budget_s, struct calibrate_points *out,
	struct error *error);

/* Refuses to replace a file or run of an earlier calibration, whose steps took a GPU's time. */
enum status calibrate_refuse_old(const char *path, bool is_forced, struct error *error);

#endif
