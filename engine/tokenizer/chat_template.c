#include "engine/tokenizer/chat_template.h"

#include <string.h>

enum status chat_template_check(const struct chat_template *template,
	const struct tokenizer *tokenizer, struct error *error)
{
	static const char *const needed[] = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};
	uint32_t count = template->skips_thinking ? 4 : 2;

	for (uint32_t i = 0; i < count; i++) {
		if (tokenizer_find_added(tokenizer, needed[i]) < 0) {
			return error_set(error, STATUS_INPUT,
				"the tokenizer has no added token %s, which Qwen3's chat template "
				"needs",
				needed[i]);
		}
	}
	return STATUS_OK;
}

static void append(struct text *out, const char *text)
{
	text_add_bytes(out, text, strlen(text));
}

void chat_template_apply(const struct chat_template *template, const char *prompt,
	size_t prompt_bytes, struct text *out)
{
	if (template->system != NULL) {
		append(out, "<|im_start|>system\n");
		append(out, template->system);
		append(out, "<|im_end|>\n");
	}
	append(out, "<|im_start|>user\n");
	text_add_bytes(out, prompt, prompt_bytes);
	append(out, "<|im_end|>\n<|im_start|>assistant\n");
	if (template->skips_thinking) {
		append(out, "<think>\n\n</think>\n\n");
	}
}
