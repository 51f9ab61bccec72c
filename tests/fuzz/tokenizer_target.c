#include "tests/fuzz/targets.h"

#include <stdlib.h>
#include <string.h>

#include "bench/generate/generate_prompts.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/require.h"

static const char sample[] =
	"It's 12 \xc3\xa9t\xc3\xa9s\n\n\t<|im_end|> e\xcc\x81 two words \xff\xf0\x9f\x98\x80";

/* Every id that a text has is one of the tokenizer's, and its text is whole characters. */
static void decode(const struct tokenizer *tokenizer, const struct token_list *ids)
{
	struct text out = {0};
	struct utf8_stream stream = {0};

	for (size_t i = 0; i < ids->count; i++) {
		require((uint32_t)ids->ids[i] < tokenizer_id_limit(tokenizer), "an id too large");
		tokenizer_decode(tokenizer, ids->ids[i], i % 2 == 1, &stream, &out);
		require(utf8_is_valid(out.bytes, out.byte_count), "half a character");
	}
	utf8_end(&stream, &out);
	require(utf8_is_valid(out.bytes, out.byte_count), "half a character at the end");
	text_deinit(&out);
}

static void encode_prompts(const struct tokenizer *tokenizer, struct generate_prompts *prompts)
{
	const struct generate_prompt defaults = {.max_tokens = 4};
	const struct chat_template template = {.system = "be brief", .skips_thinking = true};
	struct error error = {0};

	generate_prompts_add(prompts, sample, sizeof(sample) - 1, &defaults);
	enum status status = generate_prompts_encode(prompts, tokenizer, NULL, &error);
	require_refused_in_one_line(status, &error);
	for (uint32_t i = 0; i < prompts->count; i++) {
		decode(tokenizer, &prompts->items[i].ids);
	}
	error = (struct error){0};
	status = chat_template_check(&template, tokenizer, &error);
	require_refused_in_one_line(status, &error);
	struct text text = {0};
	struct token_list ids = {0};
	chat_template_apply(&template, sample, sizeof(sample) - 1, &text);
	error = (struct error){0};
	status = tokenizer_encode(tokenizer, text.bytes, text.byte_count, &ids, &error);
	require_refused_in_one_line(status, &error);
	decode(tokenizer, &ids);
	text_deinit(&text);
	free(ids.ids);
}

bool fuzz_tokenizer(const uint8_t *bytes, size_t byte_count)
{
	static const char *const names[] = {"tokenizer.json", "prompts.jsonl", NULL};
	const struct generate_prompt defaults = {.max_tokens = 4};
	char folder[TEMPORARY_PATH_BYTES], path[SECTIONS_PATH_BYTES];
	struct generate_prompts prompts = {0};
	struct tokenizer *tokenizer = NULL;
	struct error error = {0};

	sections_unpack(bytes, byte_count, names, folder);
	sections_path(path, folder, "prompts.jsonl");
	enum status status = generate_prompts_read(&prompts, path, &defaults, &error);
	require_refused_in_one_line(status, &error);
	error = (struct error){0};
	status = tokenizer_open(&tokenizer, folder, &error);
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		encode_prompts(tokenizer, &prompts);
	}
	tokenizer_close(tokenizer);
	generate_prompts_deinit(&prompts);
	sections_remove(folder);
	return status == STATUS_OK;
}
