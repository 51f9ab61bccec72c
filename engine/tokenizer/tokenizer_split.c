#include "engine/tokenizer/tokenizer_split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/tokenizer/tokenizer_utf8.h"

#include <stdlib.h>
#include <string.h>

struct splitter {
	pcre2_code *code;
};

/* ---- translating the expression ---- */

struct translation {
	const char *pattern;
	size_t at; /* the current byte */
	struct text out;
	bool can_repeat; /* ? * + { may follow the latest item */
};

static enum status refuse(
	const struct translation *translation, const char *expected, struct error *error)
{
	return error_set(error, STATUS_INPUT,
		"found '%.12s' at byte %zu of the expression, expected %s",
		translation->pattern + translation->at, translation->at, expected);
}

/* Copies bytes of the pattern and advances. */
static void copy(struct translation *translation, size_t byte_count)
{
	text_add_bytes(&translation->out, translation->pattern + translation->at, byte_count);
	translation->at += byte_count;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* \p{L}, \P{Lu} and the like. */
static enum status translate_property(struct translation *translation, struct error *error)
{
	const char *text = translation->pattern + translation->at;
	size_t letters = 0;

	while (text[2] == '{' && letters < 3 && is_letter(text[3 + letters])) {
		letters++;
	}
	if (letters < 1 || letters > 2 || text[3 + letters] != '}') {
		return refuse(translation, "a general category such as \\p{L} or \\p{Lu}", error);
	}
	copy(translation, letters + 4);
	return STATUS_OK;
}

static enum status translate_escape(struct translation *translation, struct error *error)
{
	static const char space[] = "\\p{White_Space}";
	char c = translation->pattern[translation->at + 1];

	if (c == 'p' || c == 'P') {
		return translate_property(translation, error);
	}
	if (c == 's' || c == 'S') {
		text_add_bytes(&translation->out, c == 's' ? "\\p" : "\\P", 2);
		text_add_bytes(&translation->out, space + 2, sizeof(space) - 3);
		translation->at += 2;
		return STATUS_OK;
	}
	if (c == '\0' || (strchr("rntfvdD", c) == NULL &&
				 (c < 0x21 || c > 0x7e || is_letter(c) || is_digit(c)))) {
		return refuse(translation,
			"one of the escapes \\r \\n \\t \\f \\v \\s \\S \\d \\D \\p{..} \\P{..}",
			error);
	}
	if (c == 'v') {
		/* \v is a vertical tab in Oniguruma, but any vertical space in PCRE2. */
		text_add_bytes(&translation->out, "\\x0b", 4);
		translation->at += 2;
		return STATUS_OK;
	}
	copy(translation, 2);
	return STATUS_OK;
}

static enum status translate_class(struct translation *translation, struct error *error)
{
	const char *pattern = translation->pattern;

	copy(translation, pattern[translation->at + 1] == '^' ? 2 : 1);
	if (pattern[translation->at] == ']') {
		return refuse(translation, "a class with something in it", error);
	}
	while (pattern[translation->at] != ']') {
		char c = pattern[translation->at];
		enum status status = STATUS_OK;
		if (c == '\0') {
			return refuse(translation, "the end of a class", error);
		}
		if (c == '[' || (c == '&' && pattern[translation->at + 1] == '&')) {
			return refuse(translation, "no class within a class", error);
		}
		if (c == '\\') {
			status = translate_escape(translation, error);
		} else {
			copy(translation, 1);
		}
		if (status != STATUS_OK) {
			return status;
		}
	}
	copy(translation, 1);
	return STATUS_OK;
}

static enum status translate_group(struct translation *translation, struct error *error)
{
	static const char *const openings[] = {"(?:", "(?i:", "(?=", "(?!"};
	const char *text = translation->pattern + translation->at;

	if (text[1] == '*') {
		return refuse(translation, "no verb", error);
	}
	if (text[1] != '?') {
		copy(translation, 1);
		return STATUS_OK;
	}
	for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
		size_t length = strlen(openings[i]);
		if (strncmp(text, openings[i], length) == 0) {
			copy(translation, length);
			return STATUS_OK;
		}
	}
	return refuse(translation, "one of the groups ( (?: (?i: (?= (?!", error);
}

/* {n}, {n,} or {n,m}. A ? or + behind it means different things in PCRE2 and Oniguruma. */
static enum status translate_interval(struct translation *translation, struct error *error)
{
	const char *text = translation->pattern + translation->at;
	size_t length = 1;

	while (is_digit(text[length])) {
		length++;
	}
	bool has_minimum = length > 1;
	if (text[length] == ',') {
		length++;
		while (is_digit(text[length])) {
			length++;
		}
	}
	bool is_closed = text[length] == '}';
	char after = is_closed ? text[length + 1] : '\0';
	if (!has_minimum || !is_closed || after == '?' || after == '+') {
		return refuse(translation, "{n}, {n,} or {n,m} alone", error);
	}
	copy(translation, length + 1);
	return STATUS_OK;
}

static enum status translate_repeat(struct translation *translation, struct error *error)
{
	if (!translation->can_repeat) {
		return refuse(translation, "something to repeat in front of it", error);
	}
	translation->can_repeat = false;
	if (translation->pattern[translation->at] == '{') {
		return translate_interval(translation, error);
	}
	copy(translation, 1);
	char after = translation->pattern[translation->at];
	if (after == '?' || after == '+') {
		copy(translation, 1);
	}
	return STATUS_OK;
}

static enum status translate_item(struct translation *translation, struct error *error)
{
	char c = translation->pattern[translation->at];

	if (strchr("?*+{", c) != NULL) {
		return translate_repeat(translation, error);
	}
	translation->can_repeat = c != '(' && c != '|';
	switch (c) {
	case '\\':
		return translate_escape(translation, error);
	case '[':
		return translate_class(translation, error);
	case '(':
		return translate_group(translation, error);
	case '^':
	case '$':
	case '.':
		return refuse(translation, "no ^ $ or . here", error);
	default:
		copy(translation, 1);
		return STATUS_OK;
	}
}

static void *take(size_t bytes, void *context)
{
	(void)context;
	return memory_take_uncleared(bytes);
}

static void release(void *memory, void *context)
{
	(void)context;
	free(memory);
}

/* The compiled pattern takes memory in the same way for what it needs later. */
static pcre2_code *compile(const char *pattern, size_t bytes, int *code)
{
	pcre2_general_context *general = pcre2_general_context_create(take, release, NULL);
	pcre2_compile_context *context = pcre2_compile_context_create(general);
	PCRE2_SIZE offset = 0;
	pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, bytes,
		PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, code, &offset, context);

	pcre2_compile_context_free(context);
	pcre2_general_context_free(general);
	return compiled;
}

enum status splitter_open(struct splitter **out, const char *pattern, struct error *error)
{
	struct translation translation = {.pattern = pattern};
	enum status status = STATUS_OK;
	int code = 0;
	char text[128] = "";

	*out = NULL;
	while (status == STATUS_OK && pattern[translation.at] != '\0') {
		status = translate_item(&translation, error);
	}
	if (status != STATUS_OK) {
		free(translation.out.bytes);
		return status;
	}
	struct splitter *splitter = memory_take(1, sizeof(*splitter));
	const struct text *translated = &translation.out;
	splitter->code = compile(
		translated->bytes == NULL ? "" : translated->bytes, translated->byte_count, &code);
	free(translation.out.bytes);
	if (splitter->code == NULL) {
		pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof(text));
		free(splitter);
		return error_set(error, STATUS_INPUT,
			"found '%.32s', expected a regular expression: %s", pattern, text);
	}
	*out = splitter;
	return STATUS_OK;
}

void splitter_close(struct splitter *splitter)
{
	if (splitter != NULL) {
		pcre2_code_free(splitter->code);
		free(splitter);
	}
}

/* ---- cutting ---- */

void split_start(
	struct split *split, const struct splitter *splitter, const char *text, size_t byte_count)
{
	*split = (struct split){.splitter = splitter, .text = text, .byte_count = byte_count};
	split->match_data = pcre2_match_data_create_from_pattern(splitter->code, NULL);
	check(split->match_data != NULL); /* its memory is that of the pattern */
}

/* Bytes of the character at an offset; 1 at the end of the text. */
static size_t character_bytes(const struct split *split, size_t at)
{
	uint32_t used = 1;

	if (at < split->byte_count) {
		utf8_code_point(split->text + at, &used);
	}
	return used;
}

/* Finds the next match from split->from on. An empty match directly behind the latest one is
   skipped. */
static enum status find_match(struct split *split, struct error *error)
{
	char text[128] = "";

	while (split->from <= split->byte_count) {
		int count = pcre2_match(split->splitter->code, (PCRE2_SPTR)split->text,
			split->byte_count, split->from, PCRE2_NO_UTF_CHECK, split->match_data,
			NULL);
		if (count == PCRE2_ERROR_NOMATCH) {
			break;
		}
		if (count < 0) {
			pcre2_get_error_message(count, (PCRE2_UCHAR *)text, sizeof(text));
			return error_set(error, STATUS_INPUT,
				"the tokenizer's regular expression fails at byte %zu of a text: "
				"%s",
				split->from, text);
		}
		const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(split->match_data);
		check(ends[0] >= split->from && ends[1] >= ends[0]);
		if (ends[0] == ends[1] && split->has_last && split->last_end == ends[0]) {
			split->from += character_bytes(split, split->from);
			continue;
		}
		split->match_begin = ends[0];
		split->match_end = split->from = split->last_end = ends[1];
		split->has_match = split->has_last = true;
		return STATUS_OK;
	}
	split->from = split->byte_count + 1;
	return STATUS_OK;
}

enum status split_next(
	struct split *split, const char **word, size_t *byte_count, struct error *error)
{
	*word = NULL;
	while (split->position < split->byte_count) {
		if (!split->has_match) {
			enum status status = find_match(split, error);
			if (status != STATUS_OK) {
				return status;
			}
		}
		size_t end = split->byte_count;
		if (split->has_match && split->position < split->match_begin) {
			end = split->match_begin;
		} else if (split->has_match) {
			end = split->match_end;
			split->has_match = false;
		}
		size_t begin = split->position;
		split->position = end;
		if (end > begin) {
			*word = split->text + begin;
			*byte_count = end - begin;
			return STATUS_OK;
		}
	}
	return STATUS_OK;
}

void split_end(struct split *split)
{
	pcre2_match_data_free(split->match_data);
	split->match_data = NULL;
}
