#ifndef TESTS_MODELS_SIMULATION_H
#define TESTS_MODELS_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "tests/harness/property.h"

/* Whole runs: requests arrive on a clock, the engine serves them over a runner of the tests, and
   everything that must hold is demanded after each step. */

struct simulation_request {
	int32_t *tokens; /* (prompt_count + max_tokens) the prompt, then tokens to force */
	uint32_t prompt_count;
	uint32_t max_tokens;
	uint64_t arrival_ns; /* not falling */
	float temperature;
	bool ignore_eos;
	bool is_forced;
};

struct drawn_requests {
	struct simulation_request *requests; /* (request_count) */
	uint32_t request_count;
	uint32_t vocabulary; /* of prompts and of sampled tokens */
	uint64_t seed;	     /* of sampled tokens and elapsed times */
};

/* What a run made of a request. */
struct simulated_outcome {
	enum fit fit;
	int32_t *tokens; /* (token_count) completion; owned */
	uint32_t token_count;
	uint32_t preemptions;
};

struct simulated_run {
	struct simulated_outcome *outcomes; /* (request_count) */
	uint32_t request_count;
	uint64_t event_hash; /* XXH64 of (step, kind, request, a, b) of all events */
	uint64_t steps, preemptions, cached_tokens, end_ns;
};

/* Draws a configuration that passes validation: small pools, odd block sizes, tight budgets. */
struct engine_config simulation_draw_config(struct prop *prop);

/* Draws requests, of which some are too long or never fit if `config` is given; else all are
   smaller than 64 tokens. Prefixes of older requests are common. */
void requests_draw(
	struct prop *prop, struct drawn_requests *drawn, const struct engine_config *config);
void requests_deinit(struct drawn_requests *drawn);

/* The same requests with a run's completions as forced tokens. */
void requests_force(struct drawn_requests *forced, const struct drawn_requests *drawn,
	const struct simulated_run *run);

/* Serves requests to their end over the oracle (is_counting false) or over a runner that computes
   nothing, for which all requests must be forced. */
void simulation_run(struct simulated_run *run, const struct drawn_requests *drawn,
	const struct engine_config *config, bool is_counting);
void simulated_run_deinit(struct simulated_run *run);

#endif
