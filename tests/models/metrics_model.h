#ifndef TESTS_MODELS_METRICS_MODEL_H
#define TESTS_MODELS_METRICS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/record/metrics.h"
#include "tests/harness/property.h"
#include "tests/models/simulation.h"

/* The metrics beside a model that writes everything down. Two engines serve the same requests in
   step. One only counts, as a replay's does, and the metrics follow it. The other one fills rows
   and queues for the model, which looks at every row and every queue after every step, notes when
   each token came, and computes all figures at the end from these notes alone. The two engines
   decide the same, which the tests of the scheduler demand. */

enum {
	METRICS_MODEL_REQUESTS = 40,
	METRICS_MODEL_POSITIONS = 256,
	METRICS_MODEL_TEXT_BYTES = 1 << 16,
	METRICS_MODEL_EVENTS = 1 << 15,
	METRICS_MODEL_STEPS = 1 << 13,
	METRICS_MODEL_WAITS = 1 << 16
};

enum whereabouts { NOT_ARRIVED, WAITING, RUNNING, LEFT };

struct request_notes {
	enum whereabouts whereabouts;
	uint32_t prompt_count;
	uint64_t arrival_ns;
	const char *session;
	bool is_measured;
	bool is_awaited; /* seen to have arrived, and not to be rejected */
	bool was_scheduled;
	uint64_t first_scheduled_ns;
	uint32_t cached_tokens; /* at the first admission */
	uint32_t preemptions;
	uint64_t recomputed;
	uint32_t sampled_since_admission;
	bool was_in_pool[METRICS_MODEL_POSITIONS];    /* its K/V was there before */
	uint64_t token_ends[METRICS_MODEL_POSITIONS]; /* (token_count) */
	uint32_t token_count;
	uint64_t steps_before; /* its arrival was seen */
	uint64_t last_step;    /* that gave it a token */
};

/* A step, and what it computed. */
struct step_note {
	struct timeline_step step;
	uint64_t prompt_tokens, recomputed, finished, decode_rows;
	bool is_outside; /* unlike the steps that its price was fitted to */
};

/* A time that a request waited. */
struct wait_note {
	enum wait_cause cause;
	uint64_t start_ns, end_ns;
};

struct metrics_model {
	struct prop *prop;
	struct engine_config config;
	struct metrics_options options;
	struct drawn_requests drawn;
	struct runner counting, computing;
	struct engine *counted, *computed;
	uint64_t elapsed_ns; /* of the step to come */
	struct metrics metrics;
	struct table_writer table; /* requests.tsv, as the metrics write it */
	struct request_notes notes[METRICS_MODEL_REQUESTS];
	uint32_t next;
	uint64_t now_ns, steps;
	uint64_t stop_at_step; /* an interrupt or a failure before it */
	bool is_coarse;

	/* what must come out */
	char rows[METRICS_MODEL_TEXT_BYTES];
	size_t row_bytes;
	struct histogram latency[LATENCY_COUNT];
	struct timeline timeline;
	struct step_grid grid;
	struct step_note steps_noted[METRICS_MODEL_STEPS]; /* (steps) */
	struct wait_note waits[METRICS_MODEL_WAITS];	   /* (wait_count) */
	uint32_t wait_count;
	struct step_note step; /* the one being noted */
	uint64_t events[METRICS_MODEL_EVENTS];
	uint32_t event_words;
	struct metrics sums; /* only its counters are used */
};

/* Draws requests and options, and opens both engines and the metrics, which write their rows to
   requests_path. */
void metrics_model_open(struct metrics_model *model, struct prop *prop, const char *requests_path);

/* Serves the requests, to their end or to the step at which the run stops. */
void metrics_model_run(struct metrics_model *model);

/* Demands that the metrics know what the model knows. */
void metrics_model_require_same(struct metrics_model *model, const char *requests_path);

void metrics_model_close(struct metrics_model *model);

#endif
