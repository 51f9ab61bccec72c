#ifndef ENGINE_TOKENIZER_CHAT_TEMPLATE_H
#define ENGINE_TOKENIZER_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer.h"

/* A conversation of one user message as Qwen3 was taught to read it:

       <|im_start|>system          only with a system message
       SYSTEM<|im_end|>
       <|im_start|>user
       PROMPT<|im_end|>
       <|im_start|>assistant
       <think>                     only when it is not to think: an empty thought

       </think>

   Line breaks are as drawn, one ends each line, the empty thought ends in two. */

struct chat_template {
	const char *system; /* NULL: none */
	bool skips_thinking;
};

/* The tokens that the template is made of must be added tokens of the tokenizer. */
enum status chat_template_check(const struct chat_template *template,
	const struct tokenizer *tokenizer, struct error *error);

/* Appends the text that the model continues. */
void chat_template_apply(const struct chat_template *template, const char *prompt,
	size_t prompt_bytes, struct text *out);

#endif
