#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/model/tokenizer.h"
#include "workloads/line_reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/require.h"

/* The fixtures are made by tests/fixtures/tokenizer/make.py, which says what they hold. */
#define FIXTURES QUIRE_SOURCE_DIR "/tests/fixtures/tokenizer/"

/* A file's text, with room for changes; owned by the caller. */
static char *read_file(const char *path, size_t *byte_count)
{
	size_t capacity = 0;
	char *text = NULL;
	FILE *file = fopen(path, "rb");

	require(file != NULL, "cannot open %s", path);
	*byte_count = 0;
	for (size_t got = 1; got > 0; *byte_count += got) {
		text = memory_grow(text, &capacity, *byte_count + 4096, 1);
		got = fread(text + *byte_count, 1, 4095, file);
	}
	text[*byte_count] = '\0';
	fclose(file);
	return text;
}

static struct tokenizer *open_fixture(const char *name)
{
	char path[512];
	struct tokenizer *tokenizer = NULL;
	struct error error = {STATUS_OK, ""};
	size_t byte_count;

	snprintf(path, sizeof(path), FIXTURES "%s.json", name);
	char *text = read_file(path, &byte_count);
	enum status status = tokenizer_parse(&tokenizer, path, text, byte_count, &error);
	require(status == STATUS_OK, "%s", error.text);
	free(text);
	return tokenizer;
}

/* ---- the package's results ---- */

/* One line of a fixture. */
struct expectation {
	cJSON *root;
	char *bytes; /* to encode, NULL: nothing */
	size_t byte_count;
	int32_t *ids; /* (id_count) */
	uint32_t id_count;
	char *decoded; /* (decoded_bytes) */
	size_t decoded_bytes;
	bool skips_special;
};

static uint32_t hex_digit(char c)
{
	return c <= '9' ? (uint32_t)(c - '0') : (uint32_t)(c - 'a') + 10;
}

/* The field itself, or FIELD_hex or hex; NULL: neither. Owned by the caller. */
static char *bytes_field(const cJSON *root, const char *plain, const char *hex, size_t *byte_count)
{
	const cJSON *text = cJSON_GetObjectItemCaseSensitive(root, plain);
	const cJSON *digits = cJSON_GetObjectItemCaseSensitive(root, hex);
	const char *from = text != NULL	    ? text->valuestring
			   : digits != NULL ? digits->valuestring
					    : NULL;

	if (from == NULL) {
		return NULL;
	}
	*byte_count = text != NULL ? strlen(from) : strlen(from) / 2;
	char *out = memory_take(*byte_count + 1, 1);
	for (size_t i = 0; i < *byte_count; i++) {
		out[i] = text != NULL
				 ? from[i]
				 : (char)(hex_digit(from[2 * i]) << 4 | hex_digit(from[2 * i + 1]));
	}
	return out;
}

static struct expectation read_expectation(const char *line)
{
	struct expectation out = {.root = cJSON_Parse(line)};
	const cJSON *ids = cJSON_GetObjectItemCaseSensitive(out.root, "ids");
	const cJSON *id = NULL;

	require(cJSON_IsArray(ids), "a line without ids: %.60s", line);
	out.ids = memory_take((size_t)cJSON_GetArraySize(ids), sizeof(*out.ids));
	cJSON_ArrayForEach(id, ids)
	{
		out.ids[out.id_count++] = id->valueint;
	}
	out.bytes = bytes_field(out.root, "text", "hex", &out.byte_count);
	out.decoded = bytes_field(out.root, "decoded", "decoded_hex", &out.decoded_bytes);
	if (out.decoded == NULL) {
		out.decoded = memory_take(out.byte_count + 1, 1);
		memcpy(out.decoded, out.bytes, out.byte_count);
		out.decoded_bytes = out.byte_count;
	}
	out.skips_special = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(out.root, "skipping"));
	return out;
}

static void expectation_free(struct expectation *expectation)
{
	cJSON_Delete(expectation->root);
	free(expectation->bytes);
	free(expectation->ids);
	free(expectation->decoded);
}

static void require_encoded(
	const struct tokenizer *tokenizer, const struct expectation *expectation, uint64_t line)
{
	struct token_list ids = {.ids = NULL};
	struct error error = {STATUS_OK, ""};

	enum status status = tokenizer_encode(
		tokenizer, expectation->bytes, expectation->byte_count, &ids, &error);
	require(status == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < ids.count && i < expectation->id_count; i++) {
		require(ids.ids[i] == expectation->ids[i],
			"line %llu, token %u of '%.200s': %d, expected %d",
			(unsigned long long)line, i, expectation->bytes, ids.ids[i],
			expectation->ids[i]);
	}
	require(ids.count == expectation->id_count, "line %llu: %zu tokens, expected %u",
		(unsigned long long)line, ids.count, expectation->id_count);
	free(ids.ids);
}

/* Token by token: whatever has come out at any time is valid UTF-8. */
static void require_decoded(
	const struct tokenizer *tokenizer, const struct expectation *expectation, uint64_t line)
{
	struct utf8_stream stream = {.pending_count = 0};
	struct text text = {.bytes = NULL};

	for (uint32_t i = 0; i < expectation->id_count; i++) {
		size_t before = text.byte_count;
		tokenizer_decode(
			tokenizer, expectation->ids[i], expectation->skips_special, &stream, &text);
		require(utf8_is_valid(text.bytes + before, text.byte_count - before),
			"line %llu: half a character after token %u", (unsigned long long)line, i);
	}
	utf8_end(&stream, &text);
	require(text.byte_count == expectation->decoded_bytes &&
			(text.byte_count == 0 ||
				memcmp(text.bytes, expectation->decoded, text.byte_count) == 0),
		"line %llu: decoded '%.*s', expected '%s'", (unsigned long long)line,
		(int)text.byte_count, text.bytes == NULL ? "" : text.bytes, expectation->decoded);
	free(text.bytes);
}

static void require_expectations(const char *name, uint64_t line_count)
{
	struct tokenizer *tokenizer = open_fixture(name);
	struct line_reader *reader = NULL;
	struct error error = {STATUS_OK, ""};
	const char *line = NULL;
	size_t line_bytes;
	char path[512];

	snprintf(path, sizeof(path), FIXTURES "%s.jsonl", name);
	require_equal(line_reader_open(&reader, path, &error), STATUS_OK);
	for (;;) {
		require_equal(line_reader_next(reader, &line, &line_bytes, &error), STATUS_OK);
		if (line == NULL) {
			break;
		}
		struct expectation expectation = read_expectation(line);
		if (expectation.bytes != NULL) {
			require_encoded(tokenizer, &expectation, line_reader_line(reader));
		}
		require_decoded(tokenizer, &expectation, line_reader_line(reader));
		expectation_free(&expectation);
	}
	require_equal(line_reader_line(reader), line_count);
	line_reader_close(reader);
	tokenizer_close(tokenizer);
}

Test(tokenizer, a_thousand_strings_are_what_the_package_makes_of_them)
{
	require_expectations("qwen", 1100);
}

Test(tokenizer, a_small_vocabulary_of_the_older_form_too)
{
	require_expectations("small", 500);
}
