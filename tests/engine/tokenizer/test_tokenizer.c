#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_split.h"
#include "workloads/trace/line_reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The fixtures are made by tests/fixtures/tokenizer/make.py, which says what they hold. */
#define FIXTURES QUIRE_SOURCE_DIR "/tests/fixtures/tokenizer/"

static struct tokenizer *open_fixture(const char *name)
{
	char path[512];
	struct tokenizer *tokenizer = NULL;
	struct error error = {STATUS_OK, ""};
	size_t byte_count;

	snprintf(path, sizeof(path), FIXTURES "%s.json", name);
	char *text = file_read(path, &byte_count);
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

/* Closes the tokenizer. */
static void require_expectations(struct tokenizer *tokenizer, const char *name, uint64_t line_count)
{
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
	require_expectations(open_fixture("qwen"), "qwen", 1100);
}

Test(tokenizer, a_small_vocabulary_of_the_older_form_too)
{
	require_expectations(open_fixture("small"), "small", 500);
}

/* ---- UTF-8 in pieces ---- */

/* Pushes bytes in pieces of so many and returns what comes out, ended; owned by the caller. */
static struct text push_pieces(const char *bytes, size_t byte_count, size_t piece_bytes)
{
	struct utf8_stream stream = {.pending_count = 0};
	struct text out = {.bytes = NULL};

	for (size_t i = 0; i < byte_count; i += piece_bytes) {
		size_t count = byte_count - i < piece_bytes ? byte_count - i : piece_bytes;
		utf8_push(&stream, bytes + i, count, &out);
		require(utf8_is_valid(out.bytes, out.byte_count), "half a character came out");
	}
	utf8_end(&stream, &out);
	return out;
}

Test(tokenizer, broken_sequences_are_replaced_as_unicode_recommends)
{
	/* The examples of table 3-8 to 3-11 of the Unicode standard, and their like. */
	static const struct {
		const char *bytes;
		const char *expected;
	} cases[] = {
		{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", "********A"},
		{"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", "********A"},
		{"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", "*****A**B"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "****A"},
		{"\xe2\x82", "*"},
		{"\xf0\x9f\x98", "*"},
		{"\xf0\x9f\x98\xc3\xa9", "*\xc3\xa9"},
		{"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z",
			"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"},
		{"\xf4\x8f\xbf\xbf\xef\xbf\xbf\xc2\x80", "\xf4\x8f\xbf\xbf\xef\xbf\xbf\xc2\x80"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text expected = {.bytes = NULL};
		for (const char *c = cases[i].expected; *c != '\0'; c++) {
			text_add_bytes(
				&expected, *c == '*' ? "\xef\xbf\xbd" : c, *c == '*' ? 3 : 1);
		}
		for (size_t piece = 1; piece < 10; piece++) {
			struct text out =
				push_pieces(cases[i].bytes, strlen(cases[i].bytes), piece);
			require(out.byte_count == expected.byte_count &&
					memcmp(out.bytes, expected.bytes, out.byte_count) == 0,
				"case %zu in pieces of %zu: '%.*s'", i, piece, (int)out.byte_count,
				out.bytes);
			free(out.bytes);
		}
		free(expected.bytes);
	}
}

/* Every code point and every string of two bytes: what is valid goes through, and no more. */
Test(tokenizer, valid_is_what_unicode_says)
{
	for (uint32_t point = 0; point < 0x110000; point++) {
		char bytes[4];
		uint32_t used;
		uint32_t count = utf8_write(point, bytes);
		bool is_surrogate = point >= 0xd800 && point < 0xe000;
		require(utf8_is_valid(bytes, count) == !is_surrogate, "U+%04X", point);
		require_equal(utf8_code_point(bytes, &used), point);
		require_equal(used, count);
		for (uint32_t cut = 1; cut < count; cut++) {
			require(!utf8_is_valid(bytes, cut), "a part of U+%04X", point);
		}
	}
	uint32_t valid = 0;
	for (uint32_t i = 0; i < 1 << 16; i++) {
		const char bytes[2] = {(char)(i >> 8), (char)i};
		valid += utf8_is_valid(bytes, 2);
	}
	require_equal(valid, 128 * 128 + 0x800 - 0x80);
}

/* ---- byte pair encoding beside a naive one ---- */

struct naive_merge {
	uint64_t pair;
	uint32_t rank;
	int32_t id;
};

/* Joins the leftmost pair of lowest rank, looked for anew each time. */
static void encode_naively(
	const struct naive_merge *merges, uint32_t merge_count, int32_t *ids, uint32_t *count)
{
	for (;;) {
		uint32_t best = UINT32_MAX, at = 0, id = 0;
		for (uint32_t i = 0; i + 1 < *count; i++) {
			uint64_t pair = (uint64_t)(uint32_t)ids[i] << 32 | (uint32_t)ids[i + 1];
			for (uint32_t j = 0; j < merge_count; j++) {
				if (merges[j].pair == pair && merges[j].rank < best) {
					best = merges[j].rank;
					at = i;
					id = (uint32_t)merges[j].id;
				}
			}
		}
		if (best == UINT32_MAX) {
			return;
		}
		ids[at] = (int32_t)id;
		*count -= 1;
		memmove(ids + at + 1, ids + at + 2, (*count - at - 1) * sizeof(*ids));
	}
}

enum { PAIRED_BYTES = 4, PAIRED_TOKENS = 40, WORD_BYTES = 60 };

/* A vocabulary over few letters, whose merges are drawn: pairs of known tokens. */
struct drawn_vocabulary {
	struct bpe bpe;
	struct naive_merge merges[PAIRED_TOKENS];
	uint32_t merge_count;
	char spellings[PAIRED_TOKENS][WORD_BYTES];
	uint32_t token_count;
};

static void draw_vocabulary(struct prop *prop, struct drawn_vocabulary *drawn)
{
	memset(drawn, 0, sizeof(*drawn));
	bpe_init(&drawn->bpe, 256 + PAIRED_TOKENS, PAIRED_TOKENS);
	for (uint32_t i = 0; i < PAIRED_BYTES; i++) {
		drawn->spellings[i][0] = (char)('a' + i);
		require(bpe_add_token(&drawn->bpe, drawn->spellings[i], 1, (int32_t)i), "letters");
	}
	drawn->token_count = PAIRED_BYTES;
	uint32_t wanted = prop_below(prop, PAIRED_TOKENS - PAIRED_BYTES);
	for (uint32_t i = 0; i < wanted; i++) {
		uint32_t left = prop_below(prop, drawn->token_count);
		uint32_t right = prop_below(prop, drawn->token_count);
		char joined[2 * WORD_BYTES];
		char *spelling = drawn->spellings[drawn->token_count];
		if (strlen(drawn->spellings[left]) + strlen(drawn->spellings[right]) >=
			WORD_BYTES) {
			continue;
		}
		snprintf(joined, sizeof(joined), "%s%s", drawn->spellings[left],
			drawn->spellings[right]);
		memcpy(spelling, joined, WORD_BYTES);
		int32_t id = bpe_find(&drawn->bpe, spelling, strlen(spelling));
		if (id < 0) {
			id = (int32_t)drawn->token_count++;
			require(bpe_add_token(&drawn->bpe, spelling, strlen(spelling), id), "new");
		}
		if (bpe_add_merge(&drawn->bpe, (int32_t)left, (int32_t)right, id)) {
			drawn->merges[drawn->merge_count] = (struct naive_merge){
				(uint64_t)left << 32 | right, drawn->merge_count, id};
			drawn->merge_count++;
		}
	}
}

static void encodes_as_naively(struct prop *prop, const void *context)
{
	struct drawn_vocabulary drawn;
	struct bpe_scratch scratch = {.symbols = NULL};
	struct token_list out = {.ids = NULL};
	char word[WORD_BYTES + 1] = "";
	int32_t ids[WORD_BYTES];

	(void)context;
	draw_vocabulary(prop, &drawn);
	for (uint32_t words = 0; words < 3; words++) {
		uint32_t count = prop_range(prop, 1, WORD_BYTES);
		for (uint32_t i = 0; i < count; i++) {
			ids[i] = (int32_t)prop_below(prop, PAIRED_BYTES);
			word[i] = (char)('a' + ids[i]);
		}
		prop_log(prop, "%u merges, '%.*s'", drawn.merge_count, (int)count, word);
		out.count = 0;
		bpe_encode(&drawn.bpe, &scratch, word, count, &out);
		encode_naively(drawn.merges, drawn.merge_count, ids, &count);
		require_equal(out.count, count);
		require(memcmp(out.ids, ids, count * sizeof(*ids)) == 0, "other tokens");
	}
	free(out.ids);
	bpe_scratch_deinit(&scratch);
	bpe_deinit(&drawn.bpe);
}

Test(tokenizer, the_queue_joins_what_a_search_would)
{
	cr_assert(prop_holds(&(struct prop_options){
		.name = "encoding", .body = encodes_as_naively, .trials = 2000}));
}

/* ---- tokens ---- */

enum { ADDED = 3, SPELLINGS = 4, IDS = 4, ADDITIONS = SPELLINGS * IDS };

/* Adds the token to the structure and to a list, of which each spelling and each id is in one
   place at most. */
static void add_token(
	struct bpe *bpe, const char *const *spellings, uint32_t addition, int32_t id_of[SPELLINGS])
{
	uint32_t spelling = addition / IDS;
	int32_t id = (int32_t)(addition % IDS);
	bool is_free = id_of[spelling] < 0;

	for (uint32_t i = 0; i < SPELLINGS; i++) {
		is_free = is_free && id_of[i] != id;
	}
	require(bpe_add_token(bpe, spellings[spelling], strlen(spellings[spelling]), id) == is_free,
		"'%s' as %d is %staken", spellings[spelling], id, is_free ? "not " : "");
	id_of[spelling] = is_free ? id : id_of[spelling];
}

/* Every three additions of four spellings and four ids, in every order: what is in use is refused,
   and changes nothing. */
Test(tokenizer, a_spelling_and_an_id_are_of_one_token)
{
	static const char *const spellings[SPELLINGS] = {"a", "\xc4\xa0", "ab", ""};
	static const char *const meanings[SPELLINGS] = {"a", " ", "ab", ""};

	for (uint32_t n = 0; n < ADDITIONS * ADDITIONS * ADDITIONS; n++) {
		struct bpe bpe = {.tokens = NULL};
		int32_t id_of[SPELLINGS] = {-1, -1, -1, -1};
		const char *bytes_of[IDS] = {"", "", "", ""};
		bpe_init(&bpe, ADDED, 1);
		for (uint32_t i = 0, rest = n; i < ADDED; i++, rest /= ADDITIONS) {
			add_token(&bpe, spellings, rest % ADDITIONS, id_of);
		}
		for (uint32_t i = 0; i < SPELLINGS; i++) {
			require_equal(bpe_find(&bpe, spellings[i], strlen(spellings[i])), id_of[i]);
			if (id_of[i] >= 0) {
				bytes_of[id_of[i]] = meanings[i];
			}
		}
		require_equal(bpe.byte_ids['a'], id_of[0]);
		require_equal(bpe.byte_ids[' '], id_of[1]);
		for (int32_t id = 0; id < IDS; id++) {
			size_t byte_count;
			const char *bytes = bpe_bytes(&bpe, id, &byte_count);
			require_equal(byte_count, strlen(bytes_of[id]));
			require(memcmp(bytes, bytes_of[id], byte_count) == 0, "token %d", id);
		}
		bpe_deinit(&bpe);
	}
}

/* ---- what a tokenizer.json may say ---- */

/* The small tokenizer.json with one place changed. The place is a row of names and numbers, as
   "pre_tokenizer pretokenizers 0 behavior"; value NULL takes it away. Owned by the caller. */
static char *changed_json(const char *place, const char *value)
{
	char path[512], names[256];
	size_t byte_count;

	snprintf(path, sizeof(path), FIXTURES "small.json");
	char *text = file_read(path, &byte_count);
	cJSON *root = cJSON_Parse(text);
	free(text);
	snprintf(names, sizeof(names), "%s", place);
	cJSON *node = root;
	char *name = names;
	for (char *space = strchr(name, ' '); space != NULL; space = strchr(name, ' ')) {
		*space = '\0';
		node = cJSON_IsArray(node) ? cJSON_GetArrayItem(node, atoi(name))
					   : cJSON_GetObjectItemCaseSensitive(node, name);
		name = space + 1;
	}
	require(node != NULL, "no %s", place);
	if (cJSON_IsArray(node)) {
		cJSON_ReplaceItemInArray(node, atoi(name), cJSON_Parse(value));
	} else {
		cJSON_DeleteItemFromObjectCaseSensitive(node, name);
		if (value != NULL) {
			cJSON_AddItemToObject(node, name, cJSON_Parse(value));
		}
	}
	text = cJSON_PrintUnformatted(root);
	cJSON_Delete(root);
	return text;
}

static enum status open_changed(const char *place, const char *value, struct error *error)
{
	struct tokenizer *tokenizer = NULL;
	char *text = changed_json(place, value);

	enum status status =
		tokenizer_parse(&tokenizer, "tokenizer.json", text, strlen(text), error);
	free(text);
	tokenizer_close(tokenizer);
	return status;
}

struct change {
	const char *place, *value, *part;
};

static void require_refused(const struct change *changes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct error error = {STATUS_OK, ""};
		enum status status = open_changed(changes[i].place, changes[i].value, &error);
		require(status == STATUS_INPUT, "%s: %s was accepted", changes[i].place,
			changes[i].value == NULL ? "nothing" : changes[i].value);
		require(strncmp(error.text, "tokenizer.json: field ", 22) == 0, "'%s'", error.text);
		require(strstr(error.text, changes[i].part) != NULL, "'%s' does not say '%s'",
			error.text, changes[i].part);
	}
}

Test(tokenizer, unsupported_settings_are_refused_by_name)
{
	static const struct change changes[] = {
		{"version", "\"2.0\"", "version: found \"2.0\""},
		{"version", NULL, "version: found nothing"},
		{"truncation", "{\"max_length\": 5}", "truncation: found an object"},
		{"padding", "{}", "padding"},
		{"extra", "1", "extra: found 1"},
		{"normalizer", "{\"type\": \"NFKC\"}", "normalizer.type: found \"NFKC\""},
		{"normalizer", "{\"type\": \"NFC\", \"left\": 1}", "normalizer.left"},
		{"normalizer", "\"NFC\"", "normalizer: found \"NFC\""},
		{"pre_tokenizer", "null", "pre_tokenizer: found null"},
		{"pre_tokenizer", "{\"type\": \"Whitespace\"}", "pre_tokenizer.type"},
		{"pre_tokenizer pretokenizers", "[]", "pre_tokenizer.pretokenizers"},
		{"pre_tokenizer pretokenizers", "[1, 2]", "pre_tokenizer.pretokenizers"},
		{"pre_tokenizer type", "\"Split\"", "found \"Split\", expected \"Sequence\""},
		{"pre_tokenizer pretokenizers", "[{}, {}, {}]",
			"pretokenizers: found an array, expected a Split and a ByteLevel"},
		{"pre_tokenizer pretokenizers 0 type", "\"Digits\"", "pretokenizers[0].type"},
		{"pre_tokenizer pretokenizers 0 behavior", "\"Removed\"", "[0].behavior"},
		{"pre_tokenizer pretokenizers 0 invert", "true", "[0].invert: found true"},
		{"pre_tokenizer pretokenizers 0 pattern", "{\"String\": \" \"}", "pattern.String"},
		{"pre_tokenizer pretokenizers 0 pattern Regex", "3", "pattern.Regex: found 3"},
		{"pre_tokenizer pretokenizers 1 type", "\"Metaspace\"", "[1].type"},
		{"pre_tokenizer pretokenizers 1 add_prefix_space", "true", "[1].add_prefix_space"},
		{"pre_tokenizer pretokenizers 1 add_prefix_space", NULL, "[1].add_prefix_space"},
		{"pre_tokenizer pretokenizers 1 use_regex", "true", "[1].use_regex: found true"},
		{"pre_tokenizer pretokenizers 1 use_regex", NULL, "[1].use_regex: found nothing"},
		{"post_processor", "{\"type\": \"TemplateProcessing\"}", "post_processor.type"},
		{"decoder", "null", "decoder: found null"},
		{"decoder", "{\"type\": \"WordPiece\"}", "decoder.type"},
		{"model type", "\"Unigram\"", "model.type: found \"Unigram\""},
		{"model dropout", "0.1", "model.dropout: found 0.1"},
		{"model unk_token", "\"<unk>\"", "model.unk_token"},
		{"model continuing_subword_prefix", "\"##\"", "model.continuing_subword_prefix"},
		{"model end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix"},
		{"model fuse_unk", "true", "model.fuse_unk: found true"},
		{"model byte_fallback", "true", "model.byte_fallback: found true"},
		{"model ignore_merges", "3", "model.ignore_merges: found 3"},
		{"model strange", "false", "model.strange"},
		{"model types", "\"BPE\"", "model.types"},
		{"decoder colour", "1", "decoder.colour"},
		{"pre_tokenizer pretokenizers 0 colour", "1", "pretokenizers[0].colour"},
		{"pre_tokenizer pretokenizers 1 colour", "1", "pretokenizers[1].colour"},
		{"pre_tokenizer typed", "1", "pre_tokenizer.typed"},
		{"added_tokens 2 ids", "1", "added_tokens[2].ids"},
		{"model", "[]", "model: found an array"},
		{"added_tokens", "{}", "added_tokens: found an object"},
		{"added_tokens 0 single_word", "true", "added_tokens[0].single_word: found true"},
		{"added_tokens 1 lstrip", "true", "added_tokens[1].lstrip"},
		{"added_tokens 2 rstrip", "true", "added_tokens[2].rstrip"},
		{"added_tokens 2 colour", "1", "added_tokens[2].colour"},
		{"added_tokens 0 special", NULL, "added_tokens[0].special: found nothing"},
		{"added_tokens 0 content", "\"\"", "added_tokens[0].content: found \"\""},
		{"added_tokens 1 content", "\"<|im_end|>\"", "every text once"},
		{"added_tokens 0 content", "\"\xff\"", "a text in UTF-8"},
		{"added_tokens 0 id", "5", "added_tokens[0].id: found 5, expected the id"},
		{"added_tokens 1 id", "602",
			"added_tokens[3].id: found 602, expected every id once"},
		{"added_tokens 0 id", "16777216", "added_tokens[0].id"},
		{"added_tokens 0 id", "-1", "added_tokens[0].id: found -1"},
		{"added_tokens 0", "\"<s>\"", "added_tokens: found an array, expected an array of"},
	};

	require_refused(changes, sizeof(changes) / sizeof(changes[0]));
}

Test(tokenizer, a_vocabulary_that_does_not_hold_together_is_refused)
{
	static const struct change changes[] = {
		{"model vocab", "[]", "model.vocab: found an array"},
		{"model vocab", "{}", "model.vocab: found no token for the byte 0x00"},
		{"model vocab a", NULL, "found no token for the byte 0x61"},
		{"model vocab a", "5", "model.vocab.a: found 5, expected every token and every id"},
		{"model vocab a", "1e9", "model.vocab.a: found 1000000000"},
		{"model vocab a", "-1", "model.vocab.a: found -1"},
		{"model vocab a", "1.5", "model.vocab.a: found 1.5"},
		{"model vocab a", "\"1\"", "model.vocab.a: found \"1\""},
		{"model vocab ", "700", "a token in UTF-8"},
		{"model vocab \xc3", "700", "a token in UTF-8"},
		{"model merges", "{}", "model.merges: found an object"},
		{"model merges 3", "\"a\"", "model.merges[3]: expected \"a b\""},
		{"model merges 3", "\"a b c\"", "model.merges[3]: expected \"a b\""},
		{"model merges 3", "[\"a\"]", "model.merges[3]: expected \"a b\""},
		{"model merges 3", "[\"a\", \"b\", \"c\"]", "model.merges[3]: expected"},
		{"model merges 3", "[1, 2]", "model.merges[3]: expected"},
		{"model merges 3", "\"a qq\"", "model.merges[3]: found 'a' and 'qq', expected two"},
		{"model merges 3", "\" a\"", "model.merges[3]: found '' and 'a'"},
		{"model merges 3", "\" \"", "model.merges[3]: found '' and ''"},
	};

	require_refused(changes, sizeof(changes) / sizeof(changes[0]));
	struct error error = {STATUS_OK, ""};
	char *text = changed_json("extra", NULL);
	char *merges = strstr(text, "\"merges\":[\"");
	char twice[64];
	snprintf(twice, sizeof(twice), "%.*s", (int)strcspn(merges + 10, ","), merges + 10);
	require_equal(open_changed("model merges 5", twice, &error), STATUS_INPUT);
	require(strstr(error.text, "model.merges[5]: found '") != NULL &&
			strstr(error.text, "again, expected them once") != NULL,
		"%s", error.text);
	free(text);
}

/* A text of the vocabulary has its id there and no other one, though that be free; any other text
   has a free one. */
Test(tokenizer, an_added_token_has_the_id_of_its_text_or_a_free_one)
{
	static const char refusal[] = "added_tokens[0].id: found ";
	static const char *const texts[] = {"a", "b", "<added>"};
	int32_t ids[] = {-1, -1, 5, 700, 1000000};
	struct error none = {STATUS_OK, ""};
	struct tokenizer *tokenizer;
	char *plain = changed_json("added_tokens", "[]");

	require_equal(tokenizer_parse(&tokenizer, "t", plain, strlen(plain), &none), STATUS_OK);
	for (uint32_t i = 0; i < 2; i++) {
		char pattern[16];
		snprintf(pattern, sizeof(pattern), "\"%s\":", texts[i]);
		ids[i] = atoi(strstr(plain, pattern) + strlen(pattern));
	}
	int32_t limit = (int32_t)tokenizer_id_limit(tokenizer);
	require(ids[0] != ids[1] && ids[0] < limit && ids[1] < limit && limit <= 700, "the ids");
	tokenizer_close(tokenizer);
	free(plain);
	for (uint32_t text = 0; text < 3; text++) {
		for (uint32_t id = 0; id < 5; id++) {
			struct error error = {STATUS_OK, ""};
			char token[200];
			snprintf(token, sizeof(token),
				"[{\"id\": %d, \"content\": \"%s\", \"single_word\": false, "
				"\"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
				"\"special\": true}]",
				ids[id], texts[text]);
			bool is_good = text < 2 ? id == text : ids[id] >= limit;
			enum status status = open_changed("added_tokens", token, &error);
			require(status == (is_good ? STATUS_OK : STATUS_INPUT), "%s: %s", token,
				error.text);
			require(is_good || strstr(error.text, refusal) != NULL, "%s", error.text);
		}
	}
}

/* Bytes are spelled as by GPT-2: those that are printed in Latin-1 as themselves, the others from
   U+0100 on. */
Test(tokenizer, every_byte_has_a_token)
{
	for (uint32_t byte = 0, others = 0; byte < 256; byte++) {
		bool is_printed = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
		uint32_t point = is_printed ? byte : 256 + others++;
		char place[32], expected[64];
		struct error error = {STATUS_OK, ""};
		if (point < 128) {
			snprintf(place, sizeof(place), "model vocab %c", (char)point);
		} else {
			snprintf(place, sizeof(place), "model vocab %c%c",
				(char)(0xc0 | point >> 6), (char)(0x80 | (point & 63)));
		}
		snprintf(expected, sizeof(expected), "found no token for the byte 0x%02x", byte);
		require_equal(open_changed(place, NULL, &error), STATUS_INPUT);
		require(strstr(error.text, expected) != NULL, "%s: %s", place, error.text);
	}
}

Test(tokenizer, an_expression_keeps_its_meaning_or_is_refused)
{
	static const struct change changes[] = {
		{"", "\"a|^b\"", "found '^b' at byte 2 of the expression, expected no ^ $ or ."},
		{"", "\"a.\"", "found '.' at byte 1"},
		{"", "\"\\\\w+\"", "found '\\w+' at byte 0"},
		{"", "\"\\\\b\"", "one of the escapes"},
		{"", "\"\\\\1\"", "one of the escapes"},
		{"", "\"\\\\\"", "one of the escapes"},
		{"", "\"\\\\p{Han}\"", "a general category"},
		{"", "\"\\\\pL\"", "a general category"},
		{"", "\"\\\\p{\"", "a general category"},
		{"", "\"[a[b]]\"", "no class within a class"},
		{"", "\"[a&&b]\"", "no class within a class"},
		{"", "\"[[:alpha:]]\"", "no class within a class"},
		{"", "\"[]a]\"", "a class with something in it"},
		{"", "\"[^]a]\"", "a class with something in it"},
		{"", "\"[abc\"", "the end of a class"},
		{"", "\"(?<n>a)\"", "one of the groups"},
		{"", "\"(?m:a)\"", "one of the groups"},
		{"", "\"(*UCP)a\"", "no verb"},
		{"", "\"a{,3}\"", "{n}, {n,} or {n,m} alone"},
		{"", "\"a{2}?\"", "{n}, {n,} or {n,m} alone"},
		{"", "\"a{2}+\"", "{n}, {n,} or {n,m} alone"},
		{"", "\"a{2\"", "{n}, {n,} or {n,m} alone"},
		{"", "\"a***\"", "something to repeat"},
		{"", "\"+\"", "something to repeat"},
		{"", "\"(?:a\"", "expected a regular expression: missing closing"},
		{"", "\"a)\"", "expected a regular expression"},
		{"", "\"[z-a]\"", "expected a regular expression"},
		{"", "\"a\xff\"", "expected a regular expression"},
		{"", "\"a{99999}\"", "expected a regular expression"},
	};
	struct change placed[sizeof(changes) / sizeof(changes[0])];

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		placed[i] = changes[i];
		placed[i].place = "pre_tokenizer pretokenizers 0 pattern Regex";
	}
	require_refused(placed, sizeof(changes) / sizeof(changes[0]));
}

/* The words that an expression cuts a text into, joined by '|'. */
static void require_words(const char *pattern, const char *text, const char *expected)
{
	struct splitter *splitter = NULL;
	struct split split;
	struct error error = {STATUS_OK, ""};
	const char *word = NULL;
	size_t byte_count;
	char out[256] = "";

	enum status status = splitter_open(&splitter, pattern, &error);
	require(status == STATUS_OK, "%s", error.text);
	split_start(&split, splitter, text, strlen(text));
	for (;;) {
		status = split_next(&split, &word, &byte_count, &error);
		require(status == STATUS_OK, "%s", error.text);
		if (word == NULL) {
			break;
		}
		size_t used = strlen(out);
		snprintf(out + used, sizeof(out) - used, "%s%.*s", used == 0 ? "" : "|",
			(int)byte_count, word);
	}
	require(strcmp(out, expected) == 0, "'%s' by '%s': '%s', expected '%s'", text, pattern, out,
		expected);
	split_end(&split);
	splitter_close(splitter);
}

Test(tokenizer, words_are_matches_and_the_text_between_them)
{
	require_words("[a&]+", "xa&&b", "x|a&&|b");
	require_words("\\p{L}+", "ab1 c", "ab|1 |c");
	require_words("x", "abc", "abc");
	require_words("b*", "abc", "a|b|c");
	require_words("b*", "\xc3\xa9\xc3\xa9", "\xc3\xa9|\xc3\xa9");
	require_words("a?+a", "aab", "aa|b");
	require_words("[^\\s]+|\\s+(?!\\S)|\\s+", "a  b ", "a| | |b| ");
	require_words("\\s",
		"a\xe1\xa0\x8e"
		"b\xc2\x85"
		"c",
		"a\xe1\xa0\x8e"
		"b|\xc2\x85|c");
	require_words("(?i:'s)", "it'S", "it|'S");
	require_words("\\v", "a\vb\nc", "a|\v|b\nc");
	require_words("[0-9]{1,3}", "12345", "123|45");
	require_words("\\d", "1\xd9\xa3x", "1|\xd9\xa3|x");
}

Test(tokenizer, an_expression_that_never_ends_is_an_error)
{
	struct splitter *splitter = NULL;
	struct split split;
	struct error error = {STATUS_OK, ""};
	const char *word = NULL;
	char text[64];
	size_t byte_count;

	memset(text, 'a', sizeof(text));
	require_equal(splitter_open(&splitter, "(?:a+)+[bc]", &error), STATUS_OK);
	split_start(&split, splitter, text, sizeof(text));
	require_equal(split_next(&split, &word, &byte_count, &error), STATUS_INPUT);
	require(strstr(error.text, "fails at byte 0 of a text: match limit") != NULL, "%s",
		error.text);
	split_end(&split);
	splitter_close(splitter);
}

Test(tokenizer, added_tokens_are_matched_before_or_after_normalization)
{
	struct tokenizer *tokenizer = NULL;
	struct error error = {STATUS_OK, ""};
	char *text = changed_json("normalizer", "{\"type\": \"NFC\"}");

	require_equal(tokenizer_parse(&tokenizer, "t", text, strlen(text), &error), STATUS_OK);
	free(text);
	require_expectations(tokenizer, "small-nfc", 219);
}

/* A token in decomposed form, id 603. As it is, it is found where a text is spelled like it; by its
   normal form, where the normal form of a text is. */
Test(tokenizer, an_added_token_is_normalized_only_if_it_says_so)
{
	static const char *const texts[] = {"<n\u0303>", "<\u00f1>"};
	static const bool is_found[2][2] = {{true, false}, {true, true}};

	for (uint32_t i = 0; i < 4; i++) {
		bool is_normalized = i / 2 == 1;
		const char *said = texts[i % 2];
		struct tokenizer *tokenizer = NULL;
		struct token_list ids = {.ids = NULL};
		struct error error = {STATUS_OK, ""};
		char *text = changed_json("added_tokens 4",
			is_normalized ? "{\"id\":603,\"content\":\"<n\u0303>\",\"single_word\":"
					"false,\"lstrip\":false,\"rstrip\":false,"
					"\"normalized\":true,\"special\":false}"
				      : "{\"id\":603,\"content\":\"<n\u0303>\",\"single_word\":"
					"false,\"lstrip\":false,\"rstrip\":false,"
					"\"normalized\":false,\"special\":false}");
		char *root = malloc(strlen(text) + 32), *none = strstr(text, "\"normalizer\":null");
		require(root != NULL && none != NULL, "a normalizer");
		sprintf(root, "%.*s\"normalizer\":{\"type\":\"NFC\"}%s", (int)(none - text), text,
			none + strlen("\"normalizer\":null"));
		require(tokenizer_parse(&tokenizer, "t", root, strlen(root), &error) == STATUS_OK,
			"%s", error.text);
		require_equal(
			tokenizer_encode(tokenizer, said, strlen(said), &ids, &error), STATUS_OK);
		require((ids.count == 1 && ids.ids[0] == 603) == is_found[is_normalized][i % 2],
			"case %u: %u tokens", i, (uint32_t)ids.count);
		free(text);
		free(root);
		free(ids.ids);
		tokenizer_close(tokenizer);
	}
}

Test(tokenizer, added_tokens_are_known_by_text_and_id)
{
	struct tokenizer *tokenizer = open_fixture("qwen");

	require_equal(tokenizer_find_added(tokenizer, "<|im_end|>"), 151645);
	require_equal(tokenizer_find_added(tokenizer, "<|im_end|"), -1);
	require_equal(tokenizer_find_added(tokenizer, ""), -1);
	require_equal(tokenizer_id_limit(tokenizer), 151669);
	tokenizer_close(tokenizer);
	struct error error = {STATUS_OK, ""};
	char *text = changed_json("added_tokens", "[]"); /* its other ids end at 599 */
	require_equal(tokenizer_parse(&tokenizer, "t", text, strlen(text), &error), STATUS_OK);
	require_equal(tokenizer_id_limit(tokenizer), 600);
	free(text);
	tokenizer_close(tokenizer);
	tokenizer_close(NULL);
}

/* Without reading it. */
Test(tokenizer, a_text_of_half_a_gibibyte_is_refused)
{
	struct tokenizer *tokenizer = open_fixture("small");
	struct token_list ids = {.ids = NULL};
	struct error error = {STATUS_OK, ""};

	require_equal(tokenizer_encode(tokenizer, NULL, 536870912, &ids, &error), STATUS_INPUT);
	cr_assert_str_eq(error.text, "found a text of 536870912 bytes, expected at most 536870911");
	require_equal(ids.count, 0);
	tokenizer_close(tokenizer);
}

/* Each is missing once; those of thoughts are needed only where a thought is written. */
Test(tokenizer, a_chat_needs_the_tokens_of_its_template)
{
	static const char *const names[] = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};

	for (uint32_t i = 0; i < 8; i++) {
		const struct chat_template template = {.skips_thinking = i % 2 == 1};
		struct tokenizer *tokenizer = NULL;
		struct error error = {STATUS_OK, ""};
		char place[32], token[200];
		bool is_needed = template.skips_thinking || i / 2 < 2;
		snprintf(place, sizeof(place), "added_tokens %u", 2 + i / 2);
		snprintf(token, sizeof(token),
			"{\"id\": %u, \"content\": \"<none>\", \"single_word\": false, \"lstrip\": "
			"false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
			601 + i / 2);
		char *text = changed_json(place, token);
		require(tokenizer_parse(&tokenizer, "t", text, strlen(text), &error) == STATUS_OK,
			"%s", error.text);
		require_equal(chat_template_check(&template, tokenizer, &error),
			is_needed ? STATUS_INPUT : STATUS_OK);
		require(!is_needed || strstr(error.text, names[i / 2]) != NULL, "'%s'", error.text);
		free(text);
		tokenizer_close(tokenizer);
	}
}

Test(tokenizer, a_word_that_is_a_token_may_be_taken_whole)
{
	static const char *const words[] = {" the", " по", "ים", "à", "子", "π", ")\n"};
	struct tokenizer *tokenizer = NULL;
	struct error error = {STATUS_OK, ""};
	struct token_list ids = {.ids = NULL};
	char *text = changed_json("model merges", "[]");
	char *flag = strstr(text, "\"ignore_merges\":false");

	require(flag != NULL, "no ignore_merges");
	memcpy(flag, "\"ignore_merges\": true", 21);
	require_equal(tokenizer_parse(&tokenizer, "t", text, strlen(text), &error), STATUS_OK);
	require_equal(tokenizer_encode(tokenizer, "ing", 3, &ids, &error), STATUS_OK);
	uint32_t whole = (uint32_t)ids.count;
	require_equal(tokenizer_encode(tokenizer, "inq", 3, &ids, &error), STATUS_OK);
	require_equal(ids.count - whole, 3);
	require_equal(whole, 1);
	/* Bytes that are not spelled as themselves: blanks, and parts of letters. */
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		uint32_t before = (uint32_t)ids.count;
		require_equal(tokenizer_encode(tokenizer, words[i], strlen(words[i]), &ids, &error),
			STATUS_OK);
		require(ids.count == before + 1, "'%s' is %u tokens", words[i],
			(uint32_t)ids.count - before);
	}
	free(text);
	free(ids.ids);
	tokenizer_close(tokenizer);
}
