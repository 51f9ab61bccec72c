#include "engine/tokenizer/tokenizer.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "engine/tokenizer/tokenizer_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer {
	struct tokenizer_data data;
	uint32_t id_limit;
	struct {
		uint32_t first, count;
	} added_by_byte[256];  /* range of data.added by the first byte */
	uint32_t *added_by_id; /* (id_limit) 1 + index in data.added, 0: none */
};

/* ---- opening ---- */

static void index_added(struct tokenizer *tokenizer)
{
	const struct tokenizer_data *data = &tokenizer->data;

	tokenizer->id_limit = data->bpe.id_limit;
	for (uint32_t i = 0; i < data->added_count; i++) {
		uint32_t beyond = (uint32_t)data->added[i].id + 1;
		if (beyond > tokenizer->id_limit) {
			tokenizer->id_limit = beyond;
		}
	}
	tokenizer->added_by_id = memory_take(tokenizer->id_limit, sizeof(*tokenizer->added_by_id));
	for (uint32_t i = 0; i < data->added_count; i++) {
		uint8_t byte = (uint8_t)data->added[i].content.bytes[0];
		if (tokenizer->added_by_byte[byte].count++ == 0) {
			tokenizer->added_by_byte[byte].first = i;
		}
		tokenizer->added_by_id[data->added[i].id] = i + 1;
	}
}

static enum status open_document(
	struct tokenizer **out, const struct json_document *document, struct error *error)
{
	struct tokenizer *tokenizer = memory_take(1, sizeof(*tokenizer));

	enum status status = tokenizer_data_read(&tokenizer->data, document, error);
	if (status != STATUS_OK) {
		tokenizer_close(tokenizer);
		return status;
	}
	index_added(tokenizer);
	*out = tokenizer;
	return STATUS_OK;
}

enum status tokenizer_open(struct tokenizer **out, const char *folder, struct error *error)
{
	struct json_document document = {.root = NULL};
	char path[PATH_BYTES_MAX];

	*out = NULL;
	TRY(path_format(path, error, "%s/tokenizer.json", folder));
	TRY(json_document_open(&document, path, error));
	enum status status = open_document(out, &document, error);
	json_document_close(&document);
	return status;
}

enum status tokenizer_parse(struct tokenizer **out, const char *name, const char *text,
	size_t byte_count, struct error *error)
{
	struct json_document document = {.root = NULL};

	*out = NULL;
	TRY(json_document_parse(&document, name, text, byte_count, error));
	enum status status = open_document(out, &document, error);
	json_document_close(&document);
	return status;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
	if (tokenizer == NULL) {
		return;
	}
	tokenizer_data_deinit(&tokenizer->data);
	free(tokenizer->added_by_id);
	free(tokenizer);
}

uint32_t tokenizer_id_limit(const struct tokenizer *tokenizer)
{
	return tokenizer->id_limit;
}

/* ---- added tokens ---- */

static const struct added_token *added_by_id(const struct tokenizer *tokenizer, int32_t id)
{
	if (id < 0 || (uint32_t)id >= tokenizer->id_limit || tokenizer->added_by_id[id] == 0) {
		return NULL;
	}
	return &tokenizer->data.added[tokenizer->added_by_id[id] - 1];
}

int32_t tokenizer_find_added(const struct tokenizer *tokenizer, const char *content)
{
	size_t bytes = strlen(content);

	for (uint32_t i = 0; i < tokenizer->data.added_count; i++) {
		const struct added_token *token = &tokenizer->data.added[i];
		if (token->content.byte_count == bytes &&
			memcmp(token->content.bytes, content, bytes) == 0) {
			return token->id;
		}
	}
	return -1;
}

/* The first added token in a text, the longest if several start there, or NULL. */
static const struct added_token *find_added(const struct tokenizer *tokenizer, const char *text,
	size_t byte_count, bool is_normalized, size_t *at)
{
	for (size_t i = 0; i < byte_count; i++) {
		uint8_t byte = (uint8_t)text[i];
		uint32_t first = tokenizer->added_by_byte[byte].first;
		uint32_t count = tokenizer->added_by_byte[byte].count;
		for (uint32_t j = first; j < first + count; j++) {
			const struct added_token *token = &tokenizer->data.added[j];
			size_t bytes = token->content.byte_count;
			if (token->is_normalized == is_normalized && bytes <= byte_count - i &&
				memcmp(text + i, token->content.bytes, bytes) == 0) {
				*at = i;
				return token;
			}
		}
	}
	return NULL;
}

/* ---- encoding ---- */

struct encoding {
	const struct tokenizer *tokenizer;
	struct bpe_scratch scratch;
	struct text normalized;
	struct token_list *out;
};

/* Encodes a piece without added tokens. */
static enum status encode_words(
	struct encoding *encoding, const char *text, size_t byte_count, struct error *error)
{
	const struct tokenizer_data *data = &encoding->tokenizer->data;
	struct split split;
	const char *word = NULL;
	size_t word_bytes = 0;

	if (byte_count == 0) {
		return STATUS_OK;
	}
	split_start(&split, data->splitter, text, byte_count);
	enum status status = split_next(&split, &word, &word_bytes, error);
	while (status == STATUS_OK && word != NULL) {
		bpe_encode(&data->bpe, &encoding->scratch, word, word_bytes, encoding->out);
		status = split_next(&split, &word, &word_bytes, error);
	}
	split_end(&split);
	return status;
}

/* Encodes a piece of normalized text: cuts out the added tokens that are matched after
   normalization. */
static enum status encode_normalized(
	struct encoding *encoding, const char *text, size_t byte_count, struct error *error)
{
	while (byte_count > 0) {
		size_t at = byte_count;
		const struct added_token *token =
			find_added(encoding->tokenizer, text, byte_count, true, &at);
		enum status status = encode_words(encoding, text, at, error);
		if (token == NULL || status != STATUS_OK) {
			return status;
		}
		token_list_add(encoding->out, token->id);
		text += at + token->content.byte_count;
		byte_count -= at + token->content.byte_count;
	}
	return STATUS_OK;
}

/* Encodes a piece between added tokens that are matched before normalization. */
static enum status encode_piece(
	struct encoding *encoding, const char *text, size_t byte_count, struct error *error)
{
	if (!encoding->tokenizer->data.is_nfc || byte_count == 0) {
		return encode_normalized(encoding, text, byte_count, error);
	}
	encoding->normalized.byte_count = 0;
	TRY(tokenizer_normalize(text, byte_count, &encoding->normalized, error));
	return encode_normalized(
		encoding, encoding->normalized.bytes, encoding->normalized.byte_count, error);
}

/* Encodes valid UTF-8: cuts out the added tokens that are matched before normalization. */
static enum status encode_text(
	struct encoding *encoding, const char *text, size_t byte_count, struct error *error)
{
	while (byte_count > 0) {
		size_t at = byte_count;
		const struct added_token *token =
			find_added(encoding->tokenizer, text, byte_count, false, &at);
		enum status status = encode_piece(encoding, text, at, error);
		if (token == NULL || status != STATUS_OK) {
			return status;
		}
		token_list_add(encoding->out, token->id);
		text += at + token->content.byte_count;
		byte_count -= at + token->content.byte_count;
	}
	return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t byte_count,
	struct token_list *out, struct error *error)
{
	struct encoding encoding = {.tokenizer = tokenizer, .out = out};
	struct utf8_stream stream = {.pending_count = 0};
	struct text repaired = {.bytes = NULL};
	enum status status = STATUS_OK;

	if (byte_count > INT32_MAX / 4) {
		return error_set(error, STATUS_INPUT,
			"found a text of %zu bytes, expected at most %d", byte_count,
			INT32_MAX / 4);
	}
	if (!utf8_is_valid(text, byte_count)) {
		utf8_push(&stream, text, byte_count, &repaired);
		utf8_end(&stream, &repaired);
		text = repaired.bytes;
		byte_count = repaired.byte_count;
	}
	status = encode_text(&encoding, text, byte_count, error);
	bpe_scratch_deinit(&encoding.scratch);
	free(encoding.normalized.bytes);
	free(repaired.bytes);
	return status;
}

/* ---- decoding ---- */

void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool skips_special,
	struct utf8_stream *stream, struct text *out)
{
	const struct added_token *token = added_by_id(tokenizer, id);
	size_t byte_count = 0;

	if (token == NULL) {
		const char *bytes = bpe_bytes(&tokenizer->data.bpe, id, &byte_count);
		utf8_push(stream, bytes, byte_count, out);
	} else if (!token->is_special || !skips_special) {
		utf8_push(stream, token->meaning.bytes, token->meaning.byte_count, out);
	}
}
