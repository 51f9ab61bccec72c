#include "engine/tokenizer/tokenizer_file.h"

#include <utf8proc.h>

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_LIMIT = 1 << 24, ADDED_MAX = 1 << 14 };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- checks of fields ---- */

/* Refuses fields other than these. */
static enum status refuse_others(const struct json_object *object, const char *const *names,
	size_t count, struct error *error)
{
	const cJSON *node = NULL;

	cJSON_ArrayForEach(node, object->node)
	{
		bool is_known = false;
		for (size_t i = 0; i < count; i++) {
			is_known = is_known || strcmp(names[i], node->string) == 0;
		}
		if (!is_known) {
			return json_refuse(object, node->string, "no such field", error);
		}
	}
	return STATUS_OK;
}

static enum status require_text(const struct json_object *object, const char *field,
	const char *expected, struct error *error)
{
	char quoted[64];
	const char *text = NULL;

	TRY(json_text(object, field, &text, error));
	if (strcmp(text, expected) == 0) {
		return STATUS_OK;
	}
	snprintf(quoted, sizeof(quoted), "\"%s\"", expected);
	return json_refuse(object, field, quoted, error);
}

static enum status require_null(
	const struct json_object *object, const char *field, struct error *error)
{
	return json_has(object, field) ? json_refuse(object, field, "null or nothing", error)
				       : STATUS_OK;
}

/* A flag that must be present and false. */
static enum status require_false(
	const struct json_object *object, const char *field, struct error *error)
{
	bool value = false;

	TRY(json_bool(object, field, &value, error));
	return value ? json_refuse(object, field, "false", error) : STATUS_OK;
}

/* A flag that must be false or missing. */
static enum status require_not_true(
	const struct json_object *object, const char *field, struct error *error)
{
	return json_has(object, field) ? require_false(object, field, error) : STATUS_OK;
}

/* An element of an array field as an object, "field[index]". */
static enum status array_object(const struct json_object *object, const char *field,
	const cJSON *node, uint32_t index, struct json_object *out, struct error *error)
{
	const char *dot = object->path[0] == '\0' ? "" : ".";

	if (!cJSON_IsObject(node)) {
		return json_refuse(object, field, "an array of objects", error);
	}
	out->document = object->document;
	out->node = node;
	int length = snprintf(
		out->path, sizeof(out->path), "%.96s%s%s[%u]", object->path, dot, field, index);
	check(length > 0);
	return STATUS_OK;
}

/* ---- the steps before and after the model ---- */

static enum status read_normalizer(
	const struct json_object *root, struct tokenizer_data *out, struct error *error)
{
	static const char *const names[] = {"type"};
	struct json_object object;

	if (!json_has(root, "normalizer")) {
		return STATUS_OK;
	}
	TRY(json_object(root, "normalizer", &object, error));
	TRY(require_text(&object, "type", "NFC", error));
	TRY(refuse_others(&object, names, COUNT_OF(names), error));
	out->is_nfc = true;
	return STATUS_OK;
}

static enum status read_split(
	const struct json_object *object, struct tokenizer_data *out, struct error *error)
{
	static const char *const names[] = {"type", "pattern", "behavior", "invert"};
	static const char *const pattern_names[] = {"Regex"};
	struct json_object pattern;
	const char *text = NULL;

	TRY(require_text(object, "type", "Split", error));
	TRY(require_text(object, "behavior", "Isolated", error));
	TRY(require_not_true(object, "invert", error));
	TRY(refuse_others(object, names, COUNT_OF(names), error));
	TRY(json_object(object, "pattern", &pattern, error));
	TRY(refuse_others(&pattern, pattern_names, COUNT_OF(pattern_names), error));
	TRY(json_text(&pattern, "Regex", &text, error));
	struct error inner = {STATUS_OK, ""};
	enum status status = splitter_open(&out->splitter, text, &inner);
	if (status != STATUS_OK) {
		return error_set(error, status, "%s: field %s.Regex: %s", object->document->name,
			pattern.path, inner.text);
	}
	return STATUS_OK;
}

/* A ByteLevel that changes only the spelling of bytes. trim_offsets is ignored, since offsets are
   not computed. */
static enum status read_byte_level(
	const struct json_object *object, bool has_regex, struct error *error)
{
	static const char *const names[] = {
		"type", "add_prefix_space", "trim_offsets", "use_regex"};

	TRY(require_text(object, "type", "ByteLevel", error));
	TRY(refuse_others(object, names, COUNT_OF(names), error));
	if (!has_regex) {
		return STATUS_OK;
	}
	/* Both are true when they are missing. */
	TRY(require_false(object, "add_prefix_space", error));
	return require_false(object, "use_regex", error);
}

static enum status read_pre_tokenizer(
	const struct json_object *root, struct tokenizer_data *out, struct error *error)
{
	static const char *const names[] = {"type", "pretokenizers"};
	struct json_object object, inner;

	TRY(json_object(root, "pre_tokenizer", &object, error));
	TRY(require_text(&object, "type", "Sequence", error));
	TRY(refuse_others(&object, names, COUNT_OF(names), error));
	const cJSON *list = json_find(&object, "pretokenizers");
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 2) {
		return json_refuse(&object, "pretokenizers", "a Split and a ByteLevel", error);
	}
	TRY(array_object(&object, "pretokenizers", list->child, 0, &inner, error));
	TRY(read_split(&inner, out, error));
	TRY(array_object(&object, "pretokenizers", list->child->next, 1, &inner, error));
	return read_byte_level(&inner, true, error);
}

static enum status read_end(const struct json_object *root, struct error *error)
{
	struct json_object object;

	TRY(json_object(root, "decoder", &object, error));
	TRY(read_byte_level(&object, false, error));
	if (!json_has(root, "post_processor")) {
		return STATUS_OK;
	}
	TRY(json_object(root, "post_processor", &object, error));
	return read_byte_level(&object, false, error);
}

/* ---- the model ---- */

static enum status read_vocabulary(
	const struct json_object *vocabulary, struct bpe *bpe, struct error *error)
{
	const cJSON *node = NULL;

	cJSON_ArrayForEach(node, vocabulary->node)
	{
		double value = cJSON_IsNumber(node) ? node->valuedouble : -1;
		size_t bytes = strlen(node->string);
		if (!(value >= 0 && value < ID_LIMIT) || value != (int32_t)value) {
			return json_refuse(
				vocabulary, node->string, "an id in [0, 16777216)", error);
		}
		if (bytes == 0 || !utf8_is_valid(node->string, bytes)) {
			return json_refuse(vocabulary, node->string, "a token in UTF-8", error);
		}
		if (!bpe_add_token(bpe, node->string, bytes, (int32_t)value)) {
			return json_refuse(
				vocabulary, node->string, "every token and every id once", error);
		}
	}
	for (uint32_t i = 0; i < 256; i++) {
		if (bpe->byte_ids[i] < 0) {
			return error_set(error, STATUS_INPUT,
				"%s: field %s: found no token for the byte 0x%02x, expected one "
				"for every byte",
				vocabulary->document->name, vocabulary->path, i);
		}
	}
	return STATUS_OK;
}

/* "a b", or ["a", "b"]: the two spellings; false for anything else. */
static bool merge_spellings(const cJSON *node, const char **left, size_t *left_bytes,
	const char **right, size_t *right_bytes)
{
	if (cJSON_IsString(node)) {
		const char *space = strchr(node->valuestring, ' ');
		if (space == NULL || strchr(space + 1, ' ') != NULL) {
			return false;
		}
		*left = node->valuestring;
		*left_bytes = (size_t)(space - node->valuestring);
		*right = space + 1;
		*right_bytes = strlen(space + 1);
		return true;
	}
	const cJSON *first = cJSON_IsArray(node) ? node->child : NULL;
	const cJSON *second = first == NULL ? NULL : first->next;
	if (!cJSON_IsString(first) || !cJSON_IsString(second) || second->next != NULL) {
		return false;
	}
	*left = first->valuestring;
	*left_bytes = strlen(first->valuestring);
	*right = second->valuestring;
	*right_bytes = strlen(second->valuestring);
	return true;
}

static enum status read_merge(const struct json_object *model, const cJSON *node, uint32_t index,
	struct bpe *bpe, struct text *joined, struct error *error)
{
	const char *left = NULL, *right = NULL;
	size_t left_bytes = 0, right_bytes = 0;

	if (!merge_spellings(node, &left, &left_bytes, &right, &right_bytes)) {
		return error_set(error, STATUS_INPUT,
			"%s: field model.merges[%u]: expected \"a b\" or [\"a\", \"b\"]",
			model->document->name, index);
	}
	joined->byte_count = 0;
	text_add_bytes(joined, left, left_bytes);
	text_add_bytes(joined, right, right_bytes);
	int32_t left_id = bpe_find(bpe, left, left_bytes);
	int32_t right_id = bpe_find(bpe, right, right_bytes);
	int32_t id =
		joined->byte_count == 0 ? -1 : bpe_find(bpe, joined->bytes, joined->byte_count);
	if (left_id < 0 || right_id < 0 || id < 0) {
		return error_set(error, STATUS_INPUT,
			"%s: field model.merges[%u]: found '%.*s' and '%.*s', expected two tokens "
			"of the vocabulary that join to a third",
			model->document->name, index, (int)u64_min(left_bytes, 40), left,
			(int)u64_min(right_bytes, 40), right);
	}
	if (!bpe_add_merge(bpe, left_id, right_id, id)) {
		return error_set(error, STATUS_INPUT,
			"%s: field model.merges[%u]: found '%.*s' and '%.*s' again, expected them "
			"once",
			model->document->name, index, (int)u64_min(left_bytes, 40), left,
			(int)u64_min(right_bytes, 40), right);
	}
	return STATUS_OK;
}

/* Refuses BPE settings that are not supported. */
static enum status refuse_settings(const struct json_object *model, struct error *error)
{
	static const char *const names[] = {"type", "dropout", "unk_token",
		"continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
		"ignore_merges", "vocab", "merges"};
	static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};

	TRY(refuse_others(model, names, COUNT_OF(names), error));
	TRY(require_text(model, "type", "BPE", error));
	TRY(require_null(model, "dropout", error));
	TRY(require_null(model, "unk_token", error));
	for (size_t i = 0; i < COUNT_OF(affixes); i++) {
		if (json_has(model, affixes[i])) {
			TRY(require_text(model, affixes[i], "", error));
		}
	}
	TRY(require_not_true(model, "fuse_unk", error));
	return require_not_true(model, "byte_fallback", error);
}

static enum status read_merges(
	const struct json_object *model, const cJSON *merges, struct bpe *bpe, struct error *error)
{
	struct text joined = {.bytes = NULL};
	enum status status = STATUS_OK;
	const cJSON *node = NULL;
	uint32_t index = 0;

	cJSON_ArrayForEach(node, merges)
	{
		status = read_merge(model, node, index++, bpe, &joined, error);
		if (status != STATUS_OK) {
			break;
		}
	}
	free(joined.bytes);
	return status;
}

static enum status read_model(
	const struct json_object *root, struct tokenizer_data *out, struct error *error)
{
	struct json_object model, vocabulary;

	TRY(json_object(root, "model", &model, error));
	TRY(refuse_settings(&model, error));
	if (json_has(&model, "ignore_merges")) {
		TRY(json_bool(&model, "ignore_merges", &out->bpe.ignores_merges, error));
	}
	TRY(json_object(&model, "vocab", &vocabulary, error));
	const cJSON *merges = json_find(&model, "merges");
	if (!cJSON_IsArray(merges)) {
		return json_refuse(&model, "merges", "an array", error);
	}
	bpe_init(&out->bpe, (uint32_t)cJSON_GetArraySize(vocabulary.node),
		(uint32_t)cJSON_GetArraySize(merges));
	TRY(read_vocabulary(&vocabulary, &out->bpe, error));
	return read_merges(&model, merges, &out->bpe, error);
}

/* ---- added tokens ---- */

/* The id must be the one of that text in the vocabulary, or else be unused. */
static enum status check_added(const struct tokenizer_data *data, const struct json_object *object,
	const char *content, int32_t id, struct error *error)
{
	size_t bytes = strlen(content);

	if (bytes == 0 || !utf8_is_valid(content, bytes)) {
		return json_refuse(object, "content", "a text in UTF-8", error);
	}
	int32_t own = bpe_find(&data->bpe, content, bytes);
	bool is_taken = (uint32_t)id < data->bpe.id_limit && data->bpe.tokens[id].is_there;
	if (own >= 0 ? own != id : is_taken) {
		return json_refuse(
			object, "id", "the id of its text in the vocabulary, or a free one", error);
	}
	for (uint32_t i = 0; i < data->added_count; i++) {
		const struct text *other = &data->added[i].content;
		if (data->added[i].id == id) {
			return json_refuse(object, "id", "every id once", error);
		}
		if (other->byte_count == bytes && memcmp(other->bytes, content, bytes) == 0) {
			return json_refuse(object, "content", "every text once", error);
		}
	}
	return STATUS_OK;
}

static enum status read_added(
	struct tokenizer_data *out, const struct json_object *object, struct error *error)
{
	static const char *const names[] = {
		"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"};
	static const char *const unknown[] = {"single_word", "lstrip", "rstrip"};
	const char *content = NULL;
	uint32_t id = 0;
	struct added_token token = {.is_special = false};

	TRY(refuse_others(object, names, COUNT_OF(names), error));
	TRY(json_u32(object, "id", 0, ID_LIMIT - 1, &id, error));
	TRY(json_text(object, "content", &content, error));
	for (size_t i = 0; i < COUNT_OF(unknown); i++) {
		TRY(require_not_true(object, unknown[i], error));
	}
	TRY(json_bool(object, "special", &token.is_special, error));
	TRY(json_bool(object, "normalized", &token.is_normalized, error));
	TRY(check_added(out, object, content, (int32_t)id, error));
	token.id = (int32_t)id;
	if (token.is_normalized && out->is_nfc) {
		TRY(tokenizer_normalize(content, strlen(content), &token.content, error));
	} else {
		text_add_bytes(&token.content, content, strlen(content));
	}
	bpe_meaning(token.content.bytes, token.content.byte_count, &token.meaning);
	out->added = memory_grow(out->added, &out->added_capacity, (size_t)out->added_count + 1,
		sizeof(*out->added));
	out->added[out->added_count++] = token;
	return STATUS_OK;
}

/* By first byte, then longest first, then by id, so that the order is unique. */
static int compare_added(const void *a, const void *b)
{
	const struct added_token *x = a, *y = b;
	uint8_t x_first = (uint8_t)x->content.bytes[0], y_first = (uint8_t)y->content.bytes[0];

	if (x_first != y_first) {
		return x_first < y_first ? -1 : 1;
	}
	if (x->content.byte_count != y->content.byte_count) {
		return x->content.byte_count > y->content.byte_count ? -1 : 1;
	}
	return x->id < y->id ? -1 : x->id > y->id;
}

static enum status read_all_added(
	const struct json_object *root, struct tokenizer_data *out, struct error *error)
{
	const cJSON *list = json_find(root, "added_tokens");
	const cJSON *node = NULL;
	struct json_object object;
	uint32_t index = 0;

	if (!json_has(root, "added_tokens")) {
		return STATUS_OK;
	}
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > ADDED_MAX) {
		return json_refuse(root, "added_tokens", "an array of at most 16384", error);
	}
	cJSON_ArrayForEach(node, list)
	{
		TRY(array_object(root, "added_tokens", node, index++, &object, error));
		TRY(read_added(out, &object, error));
	}
	if (out->added_count > 0) {
		qsort(out->added, out->added_count, sizeof(*out->added), compare_added);
	}
	return STATUS_OK;
}

/* ---- the whole file ---- */

enum status tokenizer_data_read(
	struct tokenizer_data *out, const struct json_document *document, struct error *error)
{
	static const char *const names[] = {"version", "truncation", "padding", "added_tokens",
		"normalizer", "pre_tokenizer", "post_processor", "decoder", "model"};
	struct json_object root;

	TRY(json_root(&root, document, error));
	TRY(refuse_others(&root, names, COUNT_OF(names), error));
	TRY(require_text(&root, "version", "1.0", error));
	TRY(require_null(&root, "truncation", error));
	TRY(require_null(&root, "padding", error));
	TRY(read_normalizer(&root, out, error));
	TRY(read_pre_tokenizer(&root, out, error));
	TRY(read_end(&root, error));
	TRY(read_model(&root, out, error));
	return read_all_added(&root, out, error);
}

void tokenizer_data_deinit(struct tokenizer_data *data)
{
	for (uint32_t i = 0; i < data->added_count; i++) {
		free(data->added[i].content.bytes);
		free(data->added[i].meaning.bytes);
	}
	free(data->added);
	splitter_close(data->splitter);
	bpe_deinit(&data->bpe);
	memset(data, 0, sizeof(*data));
}

enum status tokenizer_normalize(
	const char *text, size_t byte_count, struct text *out, struct error *error)
{
	size_t plain = 0;
	utf8proc_uint8_t *composed = NULL;

	while (plain < byte_count && (uint8_t)text[plain] < 0x80) {
		plain++;
	}
	if (plain == byte_count) {
		text_add_bytes(out, text, byte_count);
		return STATUS_OK;
	}
	utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text,
		(utf8proc_ssize_t)byte_count, &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	if (length < 0) {
		return error_set(error, STATUS_MEMORY, "cannot normalize a text: %s",
			utf8proc_errmsg(length));
	}
	text_add_bytes(out, (const char *)composed, (size_t)length);
	free(composed);
	return STATUS_OK;
}
