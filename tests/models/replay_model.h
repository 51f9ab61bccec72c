#ifndef TESTS_MODELS_REPLAY_MODEL_H
#define TESTS_MODELS_REPLAY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/metrics.h"
#include "bench/replay/replay_config.h"
#include "engine/base/text.h"
#include "engine/engine.h"
#include "workloads/trace/trace.h"
#include "workloads/workload.h"

/* A naive replay: it holds the whole trace in memory, knows when each row arrives, and looks at all
   of them before each step. It drives an engine and metrics of its own, with the runner of a scene
   that the replay runs too. */

enum {
	REPLAY_MODEL_ROWS = 48,
	REPLAY_MODEL_LENGTH = 64,
	REPLAY_MODEL_TRACE_BLOCK = 4,
	REPLAY_MODEL_VOCABULARY = 1000,
};

#define REPLAY_MODEL_NO_ROW UINT32_MAX
#define REPLAY_MODEL_NEVER UINT64_MAX

/* What is simulated: options, a trace, and how the runner behaves. */
struct replay_scene {
	const char *timeline_path; /* NULL: no such file */
	struct replay_config config;
	struct workload_options load;
	struct engine_config engine;
	uint32_t row_count;
	uint64_t seed;	  /* of the runner */
	uint64_t unit_ns; /* of times: coarse ones meet each other often */
	uint64_t elapsed_limit;
	uint64_t delay_limit;  /* of its starts; 0: it has no start function */
	uint64_t fail_at_step; /* REPLAY_MODEL_NEVER: it does not */
	uint64_t interrupt_at_step;
	const char *trace_path;
	bool can_overlap;     /* steps are launched and collected */
	bool fails_at_launch; /* the step that fails */
	uint32_t most_parts;  /* of a launch; 0: steps are launched whole */
	uint64_t launched[2];
	uint32_t parts_left, parts_launched; /* of the latest step */
	uint64_t left_count;		     /* steps collected while one behind had parts left */
	uint64_t launch_count, collect_count, overlap_count;
};

struct replay_model_row {
	struct trace_row row; /* its pointers are not used */
	int32_t tokens[2 * REPLAY_MODEL_LENGTH];
	uint32_t parent; /* row that it follows, closed sessions only, or REPLAY_MODEL_NO_ROW */
	uint64_t time_ns;
	bool has_arrived, was_added;
	bool is_awaited; /* it arrived when the engine was full */
	uint64_t arrival_ns;
	uint64_t departure_ns; /* REPLAY_MODEL_NEVER until it has finished or was rejected */
};

/* A step that is decided, and has not started: asynchronous scheduling only. */
struct replay_model_step {
	bool is_decided;
	uint64_t waiting;
	struct step_time time;
};

struct replay_model {
	struct replay_scene *scene;
	struct runner runner;
	struct engine *engine;
	struct metrics metrics;
	struct replay_model_row rows[REPLAY_MODEL_ROWS];
	uint32_t row_count;
	uint64_t departures_ns[REPLAY_MODEL_ROWS]; /* of a closed loop, in order */
	uint32_t departure_count;
	uint32_t rejected[REPLAY_MODEL_ROWS]; /* since the last step ended */
	uint32_t rejected_count;
	struct replay_model_step ahead;
	uint64_t now_ns;
	bool has_failed;
	bool has_backlog;
	uint64_t backlog_at_last_arrival;
	struct text steps;
	uint64_t busy_ns;
};

/* The runner of a scene: its times are hashes of the step, and it fails and interrupts where the
   scene says. can_overlap: it can launch and collect. */
struct runner replay_scene_runner(struct replay_scene *scene, bool can_overlap);

/* Replays a scene, to the end of its trace or to the step that fails. requests: gets the rows of
   requests.tsv; those of steps.tsv come to model->steps. */
void replay_model_run(
	struct replay_model *model, struct replay_scene *scene, struct table_writer *requests);
void replay_model_close(struct replay_model *model);

#endif
