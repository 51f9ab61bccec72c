#ifndef ENGINE_TOKENIZER_CHAT_TEMPLATE_H
#define ENGINE_TOKENIZER_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer.h"

/* A conversation of one user message in Qwen3's chat template:

       <|im_start|>system          only with a system message
       SYSTEM<|im_end|>
       <|im_start|>user
       PROMPT<|im_end|>
       <|im_start|>assistant
       <think>                     only when thinking is disabled: an empty thought

       </think>

   Each line ends in one line break as drawn, the empty thought in two. */

struct chat_template {
	const char *system; /* NULL: none */
	bool skips_thinking;
};

/* Checks that the template's special tokens are added tokens of the tokenizer. */
enum status chat_template_check(const struct chat_template *template,
	const struct tokenizer *tokenizer, struct error *error);

/* Appends the prompt in the template, up to where the model continues. */
void chat_template_apply(const struct chat_template *template, const char *prompt,
	size_t prompt_bytes, struct text *out);

#endif
