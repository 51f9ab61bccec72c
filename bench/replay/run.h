#ifndef BENCH_REPLAY_RUN_H
#define BENCH_REPLAY_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/record/run_outcome.h"
#include "bench/fleet/groups.h"
#include "bench/options/progress.h"
#include "bench/replay/fleet.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/runners.h"

/* One run: a trace under a configuration, from options to outcome. run_replay() writes no files and
   prints nothing, so a command can do many runs in a process. bench/replay/run_to_folder.h writes a
   run to a result folder. */

/* Whether `quire replay` and `quire sweep` check every step unasked, as builds for debugging do.
   The runs of a plan are not checked: it would take 18 times as long. */
#ifdef QUIRE_CHECK_STEPS
enum { RUN_CHECKS_UNASKED = true };
#else
enum { RUN_CHECKS_UNASKED = false };
#endif

struct run_request {
	struct replay_config config; /* completed by the run: defaults, KV blocks, names of paths */
	char gpu[GPU_PROFILE_NAME_BYTES]; /* config.gpu of a run that named it */
	struct slo slo;
	const char *trace_path;
	const char *tape;	 /* folder of the recorded run; NULL: none */
	bool wants_kernel_times; /* the runner must measure its kernels */
	bool is_checking;	 /* engine_check() after every step */
	bool is_one_of_many;	 /* processes of mpirun are no ranks of it: they do other runs */
	/* Of several runs by the same processes of mpirun, with the same model, runner and limits:
	   whether an earlier one has joined them, and how many follow. */
	bool has_joined;
	uint32_t runs_after;
	enum progress_mode progress;
};

/* A run that is one of many. One that failed in its runner or was interrupted has an outcome too,
   and returns the failure's status. */
enum status run_replay(
	struct run_request *request, struct run_outcome *outcome, struct error *error);

/* ---- the same in separate calls, for callers that record the run ---- */

struct run {
	struct run_request *request; /* borrowed */
	struct workload_options workload;
	struct arrival_profile profile; /* the workload's, when arrivals are drawn */
	struct replay_recording recording;
	struct model_config model;
	const struct runner_entry *entry;
	struct runner_facts facts;
	struct kernel_source kernels; /* state NULL: none */
	struct fleet_groups groups;   /* of --fleet */
	/* Names of its groups' profiles, each once, with commas: of all, and of those whose times
	   were never compared with a GPU. Owned; empty: none, or equal replicas. */
	struct text profiles, uncalibrated;
	/* "steps are priced by PROFILE: WHY", of each profile with a gpu_note. Owned; empty: none.
	 */
	struct text profile_note;
	struct fleet fleet; /* its sinks may be set before run_play() */
	uint64_t seats;	    /* of the first replica, before --max-concurrency takes some */
	bool is_holding;    /* interrupts, from run_play() on */
};

/* Whether there are the model and, for a runner that prices steps, the GPU that are named. */
enum status run_check_names(const struct replay_config *config, struct error *error);

/* Opens model, runner and trace. The run must be closed, also after a failure. */
enum status run_open(struct run *run, struct run_request *request, struct error *error);

/* Replays. Only what makes an outcome impossible is an error: an invalid row, say. From here
   on until run_close() interrupts are held (engine/base/interrupt.h), and the replay polls them.
 */
enum status run_play(struct run *run, struct run_outcome *outcome, struct error *error);

/* The status of a run with this outcome. */
enum status run_outcome_status(const struct run_outcome *outcome, struct error *error);

void run_close(struct run *run);

/* Notes in the file where requests may be longer than the model was made for. model: NULL: the one
   that the configuration names. False: nothing was noted. */
bool run_note_positions(
	const struct replay_config *config, const struct model_config *model, FILE *file);

#endif
