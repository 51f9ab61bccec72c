#ifndef TESTS_HARNESS_CUDA_RUN_H
#define TESTS_HARNESS_CUDA_RUN_H

#include "engine/engine.h"
#include "engine/runners/cuda_runner.h"
#include "kernels/op/number.h"
#include "tests/harness/cuda_device.h"

/* Runs of the real engine with the CUDA runner, and with the reference runner to compare with. */

/* A model to run: run_small_model with random weights, or a folder of tests/fixtures/models. */
struct subject {
	struct model_config model;
	struct weights *weights;
};

enum { FIXTURE_COUNT = 3 };

extern const struct model_config run_small_model;

void subject_open_small(struct subject *subject);
void subject_open_fixture(struct subject *subject, uint32_t i);
void subject_close(struct subject *subject);

/* Requests [0, REQUESTS) have random prompts and lengths. Two thirds of them share prefixes,
   half of these more than a split of decode attention. They end before their length where the
   engine has an EOS token. */
enum { REQUESTS = 24, PROMPT_MAX = 400, OUTPUT_MAX = 40 };

int32_t request_token(uint64_t seed, uint64_t request, uint64_t position, uint32_t vocab_size);
void add_request(struct engine *engine, uint64_t id, uint32_t vocab_size, bool is_forced);

/* Blocks of 64 tokens, at most 20 sequences of 512 tokens, and what comes with the policy but for
   asynchronous scheduling. */
struct engine_config run_config(const char *policy, uint32_t blocks);

struct run {
	struct runner runner;
	struct engine *engine; /* set by the functions below */
};

void open_cuda(struct run *run, const struct weights *weights, const struct engine_config *config,
	bool is_eager);
void open_cuda_path(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum kernel_path path, bool is_eager);
void open_reference_ranks(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum rounding rounding, uint32_t ranks);
void open_reference(struct run *run, const struct weights *weights,
	const struct engine_config *config, enum rounding rounding);

/* Expects that every block was given back. */
void close_run(struct run *run);

/* Runs all requests, under a policy and with blocks that force preemptions. Returns the count of
   their sampled tokens, which are written in the order in which requests end. */
uint32_t sample_all(const struct subject *subject, bool is_eager, int32_t *tokens);

#endif
