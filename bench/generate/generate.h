#ifndef BENCH_GENERATE_GENERATE_H
#define BENCH_GENERATE_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/generate/generate_prompts.h"
#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"

/* Runs prompts through the engine, one step at a time, so that a caller can show answers while they
   grow. All prompts are known from the start, and request i answers prompt i. */

struct generate_answer {
	struct token_list ids; /* of the completion, including the token that ended it */
	struct text text;      /* the ids without special tokens; valid UTF-8 at any time */
	bool is_finished;
	bool is_stopped;	/* by an end-of-sequence token, else by max_tokens */
	uint32_t cached_tokens; /* of the prompt, found in the prefix cache at the latest
				   admission */
	struct utf8_stream stream;
};

/* Time and tokens of all steps. The time of a mixed step is divided in proportion to its tokens. */
struct generate_speed {
	uint64_t prefill_tokens, prefill_ns;
	uint64_t decode_tokens, decode_ns;
};

struct generation {
	struct engine *engine;
	const struct runner *runner;
	const struct tokenizer *tokenizer;
	const struct generate_prompts *prompts;
	struct generate_answer *answers; /* (prompts->count) */
	uint32_t added_count;		 /* prompts that the engine has been given */
	uint32_t finished_count;
	struct generate_speed speed;
};

/* Checks every prompt against the limits before anything is computed. All arguments are borrowed
   and must outlive the generation. */
enum status generation_open(struct generation *generation, const struct engine_config *config,
	const struct runner *runner, const struct tokenizer *tokenizer,
	const struct generate_prompts *prompts, struct error *error);

/* Computes one step. Sets *is_done when all answers are finished. */
enum status generation_step(struct generation *generation, bool *is_done, struct error *error);

/* Accepts a zeroed struct. */
void generation_close(struct generation *generation);

/* Tokens per second, rounded down; 0 if elapsed_ns is 0. */
uint64_t generate_rate(uint64_t tokens, uint64_t elapsed_ns);

#endif
