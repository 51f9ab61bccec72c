#ifndef TESTS_MODELS_REFERENCE_RUN_H
#define TESTS_MODELS_REFERENCE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/model/weights.h"
#include "engine/reference/reference_forward.h"
#include "kernels/op/number.h"

/* Runs of the real engine over the reference runner, all requests there from the start. */

/* What a run made of a request. Tokens and logits are found by position in the sequence. */
struct answer {
	uint32_t prompt_count;
	uint32_t token_count;  /* prompt and completion */
	int32_t *tokens;       /* (token_count); owned */
	uint64_t *logits_hash; /* (token_count) XXH64 of the logits that the token was chosen
				  from; 0 in the prompt; owned */
};

struct reference_run {
	struct answer *answers; /* (request_count), by request id */
	uint32_t request_count;
	bool has_logits;
	uint64_t event_hash; /* XXH64 of (step, kind, request, a, b) of all events */
	uint64_t steps, preemptions, cached_tokens, mixed_steps, chunks;
};

struct reference_run_options {
	const struct weights *weights;
	const struct engine_config *engine;
	enum rounding rounding;
	uint64_t seed;
	struct forward_ranks ranks; /* all shares in this process, one after the other, */
	bool has_processes;	    /* or a process for each; there are no logits then */
	bool is_one_by_one; /* a request is added only when the preceding one has finished */
	bool is_fed_back;   /* decode rows say -1 for their token: what the row sampled last; for
			     requests that are not forced */

	/* Called for each sampled row with its logits (vocab_size); NULL: disabled. */
	void (*look)(void *context, uint64_t request, uint32_t position, const float *logits);
	void *context;
};

/* Serves requests of ids 0 to request_count - 1, which all must fit. */
void reference_run(struct reference_run *run, const struct request *requests,
	uint32_t request_count, const struct reference_run_options *options);
void reference_run_deinit(struct reference_run *run);

/* The same tokens, chosen from bitwise the same logits (which a run of processes has not). */
void require_same_answers(
	const struct reference_run *a, const struct reference_run *b, const char *what);

/* Shape of a tiny model with 4 query and 2 key/value heads, two layers and biases. */
struct model_config tiny_model(uint32_t vocab_size);

/* The same with 16 query and 8 key/value heads, which 1, 2, 4 and 8 ranks can divide. */
struct model_config tiny_model_of_8_heads(uint32_t vocab_size);

struct weights *open_weights(const struct model_config *model, const char *source);

#endif
