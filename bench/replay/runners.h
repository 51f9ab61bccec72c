#ifndef BENCH_REPLAY_RUNNERS_H
#define BENCH_REPLAY_RUNNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/replay/replay_config.h"
#include "engine/shape/model_config.h"
#include "engine/profiling/kernel_source.h"
#include "engine/model/weights.h"
#include "engine/runner.h"
#include "reports/results/results.h"
#include "sim/profile_choice.h"

/* The runners that --runner names, in the order of the help. A runner is one file, which defines
   `const struct runner_entry runner_NAME`, and one row here. */

#ifdef QUIRE_HAS_CUDA
#define CUDA_RUNNERS(X) X(cuda)
#else
#define CUDA_RUNNERS(X)
#endif

#define RUNNERS(X)                                                                                 \
	X(sim)                                                                                     \
	CUDA_RUNNERS(X)                                                                            \
	X(reference)                                                                               \
	X(tape)

struct runner_request {
	const struct model_config *model;
	const char *model_path;	 /* as --model names it */
	const char *tape;	 /* DIR of a recorded run, or NULL */
	bool tape_is_calibrated; /* its times were calibrated */
	struct prefill_spread tape_spread;
	uint32_t tape_readers;	       /* of a shared block, as struct runner has them */
	uint32_t replica;	       /* of a fleet */
	const struct runner *first;    /* of the first such replica, for others */
	uint32_t runs_after;	       /* see struct ranks_options (engine/ranks/ranks.h) */
	struct kernel_source *kernels; /* NULL, or where to open a source of kernel times; closed by
					  the caller, after the runner */
};

/* What is known of a runner once it is open. */
struct runner_facts {
	bool is_calibrated; /* its times were measured, or priced by a profile that was */
	char profile[160];  /* of a profile that was: on what and when; "": none was */
	double model_error; /* of one that was: the mean relative error of a step's price, by steps
			       that were held out of its fit, and how far a card is from the mean
			       of those measured, where that is known; 0: not known */
	bool knows_cards;   /* how far cards differ is known, and in model_error */
	/* of the profile that prices steps: its name, "" where none does, and what about it is not
	   as was asked for: a GPU's calibrated profile was not taken, or one that was named is of
	   another engine than the policy's; else "" */
	char gpu[GPU_PROFILE_NAME_BYTES];
	char gpu_note[GPU_PROFILE_NOTE_BYTES];
	uint64_t profile_xxh64;	  /* of its content; 0: no profile prices steps */
	bool records_steps;	  /* measured times cannot be had again: always write steps.tsv */
	char device[64];	  /* the GPU, for provenance.json; "": only the host computes */
	uint64_t found_kv_blocks; /* room it found by itself; 0: it did not look, or found none */
	bool is_beyond_memory;	  /* --kv-blocks is more than the GPU that is priced has room for */
	bool has_no_process;	  /* --engine-process same, of a profile that prices no process */
};

struct runner_entry {
	const char *name;
	const char *summary; /* for the help, behind the name */
	enum runner_kind kind;
	const char *own_gpu;   /* config.gpu of its runs, where no profile prices steps; or NULL */
	bool measures_kernels; /* opens a source of kernel times when it is asked for one */

	/* Opens the runner. A config->kv_blocks of 0 asks how many blocks there are and is filled
	   in. */
	enum status (*open)(struct runner *out, struct replay_config *config,
		const struct runner_request *request, struct runner_facts *facts,
		struct error *error);

	/* After the last step of a whole run; NULL: nothing to say. */
	enum status (*finish)(const struct runner *runner, struct error *error);
};

#define RUNNER_DECLARATION(name) extern const struct runner_entry runner_##name;
RUNNERS(RUNNER_DECLARATION)
#undef RUNNER_DECLARATION

/* Opens the weights that --weights, or else --model, names. */
enum status runner_open_weights(struct weights **out, struct replay_config *config,
	const struct runner_request *request, struct error *error);

/* As summary.json spells it. */
const char *runner_kind_name(enum runner_kind kind);

/* A hash of the program's commit and of every option. */
uint64_t launched_identity(const struct replay_config *config);

/* rank_launch_join() of a run (engine/ranks/launch.h): under mpirun all processes must have the
   same build and the same configuration. error: what this process has found wrong so far. */
enum status launched_join(const struct replay_config *config, struct error *error);

/* NULL past the end. */
const struct runner_entry *runner_at(uint32_t index);

/* Under mpirun the ranks are the processes that it started: sets tensor_parallel_size to their
   number, which it must be where it was given. */
enum status launched_take_ranks(struct replay_config *config, struct error *error);

/* launched_take_ranks(), if mpirun started this process. Refuses a runner that does not compute,
   and several replicas. */
enum status runner_take_launch(
	const struct runner_entry *entry, struct replay_config *config, struct error *error);

/* A note on stderr that names the options that were given and change nothing with this runner, if
   any. They are not refused, since one list of options is often given to a run and to its
   simulation. */
void runner_tell_idle_options(const struct replay_config *config);

/* An unknown name is refused with the names there are. */
enum status runner_find(const char *name, const struct runner_entry **out, struct error *error);

#endif
