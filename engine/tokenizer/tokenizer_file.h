#ifndef ENGINE_TOKENIZER_TOKENIZER_FILE_H
#define ENGINE_TOKENIZER_TOKENIZER_FILE_H

#include "engine/base/json.h"
#include "engine/tokenizer/tokenizer_bpe.h"
#include "engine/tokenizer/tokenizer_split.h"

/* The checked content of a tokenizer.json, for tokenizer.c only. */

struct added_token {
	int32_t id;
	bool is_special;
	bool is_normalized;  /* matched after normalization, else before */
	struct text content; /* text to match, normalized if is_normalized */
	struct text meaning; /* text it decodes to */
};

struct tokenizer_data {
	struct bpe bpe;
	struct splitter *splitter;
	bool is_nfc;
	struct added_token *added; /* (added_count), by first byte, then the longest first */
	uint32_t added_count;
	size_t added_capacity;
};

/* Fills zeroed data. The caller releases it, also after a failure. */
enum status tokenizer_data_read(
	struct tokenizer_data *out, const struct json_document *document, struct error *error);
void tokenizer_data_deinit(struct tokenizer_data *data);

/* Appends a text of valid UTF-8 in normalization form C. */
enum status tokenizer_normalize(
	const char *text, size_t byte_count, struct text *out, struct error *error);

#endif
