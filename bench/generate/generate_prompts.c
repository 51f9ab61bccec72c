#include "bench/generate/generate_prompts.h"

#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "workloads/trace/line_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS_MAX = 1 << 28, TEMPERATURE_MAX = 1000, PROMPTS_MAX = 1 << 24 };

void generate_prompts_add(struct generate_prompts *prompts, const char *text, size_t text_bytes,
	const struct generate_prompt *defaults)
{
	struct generate_prompt prompt = *defaults;

	prompt.text = (struct text){.bytes = NULL};
	prompt.ids = (struct token_list){.ids = NULL};
	text_add_bytes(&prompt.text, text, text_bytes);
	prompts->items = memory_grow(prompts->items, &prompts->capacity, (size_t)prompts->count + 1,
		sizeof(*prompts->items));
	prompts->items[prompts->count++] = prompt;
}

static enum status read_fields(
	const struct json_object *root, struct generate_prompt *out, struct error *error)
{
	double temperature = 0;

	if (json_has(root, "max_tokens")) {
		TRY(json_u32(root, "max_tokens", 1, MAX_TOKENS_MAX, &out->max_tokens, error));
	}
	if (json_has(root, "temperature")) {
		TRY(json_double(root, "temperature", 0, TEMPERATURE_MAX, &temperature, error));
		out->temperature = (float)temperature;
	}
	if (json_has(root, "ignore_eos")) {
		TRY(json_bool(root, "ignore_eos", &out->ignore_eos, error));
	}
	return STATUS_OK;
}

/* An unknown field may be a misspelled one and would silently have no effect. */
static enum status refuse_unknown(const struct json_object *root, struct error *error)
{
	static const char *const names[] = {"prompt", "max_tokens", "temperature", "ignore_eos"};
	const cJSON *node = NULL;

	cJSON_ArrayForEach(node, root->node)
	{
		bool is_known = false;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			is_known = is_known || strcmp(node->string, names[i]) == 0;
		}
		if (!is_known) {
			return json_refuse(root, node->string,
				"no fields but prompt, max_tokens, temperature, ignore_eos", error);
		}
	}
	return STATUS_OK;
}

static enum status read_prompt(struct generate_prompts *prompts,
	const struct json_document *document, struct generate_prompt *prompt, struct error *error)
{
	struct json_object root;
	const char *text = NULL;

	TRY(json_root(&root, document, error));
	TRY(refuse_unknown(&root, error));
	TRY(json_text(&root, "prompt", &text, error));
	TRY(read_fields(&root, prompt, error));
	generate_prompts_add(prompts, text, strlen(text), prompt);
	if (prompts->count > PROMPTS_MAX) {
		return error_set(error, STATUS_INPUT, "%s: expected at most %d prompts",
			document->name, PROMPTS_MAX);
	}
	return STATUS_OK;
}

/* name: "PATH:LINE", for errors. */
static enum status read_line(struct generate_prompts *prompts, const char *name, const char *line,
	size_t line_bytes, struct generate_prompt *prompt, struct error *error)
{
	struct json_document document = {.root = NULL};

	TRY(json_document_parse(&document, name, line, line_bytes, error));
	enum status status = read_prompt(prompts, &document, prompt, error);
	json_document_close(&document);
	return status;
}

static bool is_blank(const char *line, size_t line_bytes)
{
	return strspn(line, " \t") == line_bytes;
}

static enum status read_lines(struct generate_prompts *prompts, struct line_reader *reader,
	const struct generate_prompt *defaults, struct error *error)
{
	const char *line = NULL;
	size_t line_bytes = 0;
	char name[JSON_NAME_BYTES + 32];

	for (;;) {
		TRY(line_reader_next(reader, &line, &line_bytes, error));
		if (line == NULL) {
			break;
		}
		if (is_blank(line, line_bytes)) {
			continue;
		}
		struct generate_prompt prompt = *defaults;
		prompt.line = line_reader_line(reader);
		snprintf(name, sizeof(name), "%s:%llu", prompts->path,
			(unsigned long long)prompt.line);
		TRY(read_line(prompts, name, line, line_bytes, &prompt, error));
	}
	return prompts->count > 0
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT, "%s: found no prompt", prompts->path);
}

enum status generate_prompts_read(struct generate_prompts *prompts, const char *path,
	const struct generate_prompt *defaults, struct error *error)
{
	struct line_reader *reader = NULL;

	prompts->path = path;
	TRY(line_reader_open(&reader, path, error));
	enum status status = read_lines(prompts, reader, defaults, error);
	line_reader_close(reader);
	return status;
}

enum status generate_prompts_refuse(const struct generate_prompts *prompts,
	const struct generate_prompt *prompt, const char *what, struct error *error)
{
	if (prompt->line == 0) {
		return error_set(error, STATUS_USAGE, "--prompt: %s", what);
	}
	return error_set(error, STATUS_INPUT, "%.200s:%llu: field prompt: %s", prompts->path,
		(unsigned long long)prompt->line, what);
}

/* Fills in a prompt's ids. chat: a buffer for the text wrapped in the template. */
static enum status encode_prompt(const struct generate_prompts *prompts,
	struct generate_prompt *prompt, const struct tokenizer *tokenizer,
	const struct chat_template *template, struct text *chat, struct error *error)
{
	const struct text *text = &prompt->text;
	struct error inner = {STATUS_OK, ""};

	if (template != NULL) {
		chat->byte_count = 0;
		chat_template_apply(template, text->bytes, text->byte_count, chat);
		text = chat;
	}
	if (tokenizer_encode(tokenizer, text->bytes, text->byte_count, &prompt->ids, &inner) !=
		STATUS_OK) {
		return generate_prompts_refuse(prompts, prompt, inner.text, error);
	}
	if (prompt->ids.count == 0) {
		return generate_prompts_refuse(
			prompts, prompt, "found an empty text, expected at least one token", error);
	}
	return STATUS_OK;
}

enum status generate_prompts_encode(struct generate_prompts *prompts,
	const struct tokenizer *tokenizer, const struct chat_template *template,
	struct error *error)
{
	struct text chat = {.bytes = NULL};
	enum status status = STATUS_OK;

	if (template != NULL) {
		TRY(chat_template_check(template, tokenizer, error));
	}
	for (uint32_t i = 0; i < prompts->count && status == STATUS_OK; i++) {
		status = encode_prompt(
			prompts, &prompts->items[i], tokenizer, template, &chat, error);
	}
	free(chat.bytes);
	return status;
}

void generate_prompts_deinit(struct generate_prompts *prompts)
{
	for (uint32_t i = 0; i < prompts->count; i++) {
		free(prompts->items[i].text.bytes);
		free(prompts->items[i].ids.ids);
	}
	free(prompts->items);
	memset(prompts, 0, sizeof(*prompts));
}
