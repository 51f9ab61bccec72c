#ifndef BENCH_GENERATE_GENERATE_PROMPTS_H
#define BENCH_GENERATE_GENERATE_PROMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

/* The texts that `quire generate` continues, in the order of the input. */

struct generate_prompt {
	struct text text;      /* as given */
	struct token_list ids; /* the model's input, chat template included */
	uint32_t max_tokens;
	float temperature; /* 0 is greedy */
	bool ignore_eos;
	uint64_t line; /* number in the file; 0: from the command line */
};

struct generate_prompts {
	struct generate_prompt *items; /* (count) */
	uint32_t count;
	size_t capacity;
	const char *path; /* borrowed; NULL: no file */
};

/* Adds a prompt with a copy of the text and the other fields of `defaults`. */
void generate_prompts_add(struct generate_prompts *prompts, const char *text, size_t text_bytes,
	const struct generate_prompt *defaults);

/* Adds a file's prompts: JSON objects, one a line, with the field prompt and, optionally,
   max_tokens, temperature and ignore_eos. Plain, gzip or zstd. */
enum status generate_prompts_read(struct generate_prompts *prompts, const char *path,
	const struct generate_prompt *defaults, struct error *error);

/* Fills in all ids. template NULL: texts are encoded without a template. */
enum status generate_prompts_encode(struct generate_prompts *prompts,
	const struct tokenizer *tokenizer, const struct chat_template *template,
	struct error *error);

/* An error about a prompt: names its option or its line in the file. */
enum status generate_prompts_refuse(const struct generate_prompts *prompts,
	const struct generate_prompt *prompt, const char *what, struct error *error);

void generate_prompts_deinit(struct generate_prompts *prompts);

#endif
