#include "engine/base/json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The line of a text that is refused, as the file "f". */
static void refused(const char *text, const char *line)
{
	struct json_document document;
	struct error error = {0};
	enum status status = json_document_parse(&document, "f", text, strlen(text), &error);
	require_equal(status, STATUS_INPUT);
	cr_assert_str_eq(error.text, line);
	cr_assert_null(document.root);
}

/* A document that is well formed; close it. */
static struct json_object parsed(struct json_document *document, const char *text)
{
	struct json_object root;
	struct error error = {0};
	enum status status = json_document_parse(document, "f", text, strlen(text), &error);
	require(status == STATUS_OK, "%s", error.text);
	status = json_root(&root, document, &error);
	require(status == STATUS_OK, "%s", error.text);
	root.document = document;
	return root;
}

Test(json, invalid_json_is_refused_with_its_line)
{
	refused("", "f:1: found no valid JSON from here on, expected one JSON value");
	refused("{\n\"a\": 1,\n}",
		"f:3: found no valid JSON from here on, expected one JSON value");
	refused("{\n\"a\": 1\n", "f:2: found no valid JSON from here on, expected one JSON value");
	refused("{\"a\": 1}\n\n{}", "f:3: found more after the value, expected one JSON value");
	refused("\x7f\x45LF", "f:1: found no valid JSON from here on, expected one JSON value");
}

/* cJSON reads it as infinite, which is more than any limit and no share of anything. */
Test(json, a_number_beyond_doubles_is_refused_with_its_place)
{
	static const char expected[] =
		"found a number beyond 1.8e308, expected one that a double holds";
	static const struct {
		const char *text, *place;
	} cases[] = {
		{"1e400", ""},
		{"{\"a\": {\"b c\": -1e309}, \"d\": 1}", "field a.b c: "},
		{"{\"a\": [{}, [1, \"x\", 1e999]]}", "field a[1][2]: "},
		{"[[], {\"a\": 2, \"b\": [1e400]}]", "field [1].b[0]: "},
	};
	char line[200];
	struct json_document document;

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "f: %s%s", cases[i].place, expected);
		refused(cases[i].text, line);
	}
	parsed(&document, "{\"a\": [1.7e308, -1.7e308, 1e-400, \"1e400\"]}");
	json_document_close(&document);
}

Test(json, a_long_name_keeps_its_end)
{
	char name[2 * JSON_NAME_BYTES];
	struct json_document document;
	struct error error = {0};
	memset(name, 'x', sizeof(name));
	memcpy(name + sizeof(name) - 6, "/file", 6);
	require_equal(json_document_parse(&document, name, "{}", 2, &error), STATUS_OK);
	require_equal(strlen(document.name), JSON_NAME_BYTES - 1);
	cr_assert_eq(strncmp(document.name, "...xxx", 6), 0);
	cr_assert_str_eq(document.name + JSON_NAME_BYTES - 6, "/file");
	json_document_close(&document);
	json_document_close(&document);
}

Test(json, an_unreadable_file_is_not_invalid_input)
{
	struct json_document document;
	struct error error = {0};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	require_equal(json_document_open(&document, "/nowhere/a.json", &error), STATUS_FILE);
	cr_assert_str_eq(
		error.text, "/nowhere/a.json: cannot be opened: No such file or directory");
	require_equal(json_document_open(&document, folder, &error), STATUS_FILE);
	cr_assert_null(document.root);
	temporary_write(folder, "a.json", "{\"a\": 3}\n", path);
	require_equal(json_document_open(&document, path, &error), STATUS_OK);
	json_document_close(&document);
	temporary_remove(folder);
}

Test(json, the_root_must_be_an_object)
{
	struct json_document document;
	struct json_object root;
	struct error error = {0};
	require_equal(json_document_parse(&document, "f", "[1]", 3, &error), STATUS_OK);
	require_equal(json_root(&root, &document, &error), STATUS_INPUT);
	cr_assert_str_eq(error.text, "f: found an array, expected an object");
	json_document_close(&document);
}

Test(json, fields_are_found_by_exact_name_and_kind)
{
	struct json_document document;
	struct json_object root = parsed(&document,
		"{\"n\": 7, \"x\": -0.5, \"yes\": true, \"text\": \"t\", \"none\": null,"
		" \"in\": {\"deep\": {\"n\": 8}}}");
	struct json_object inner;
	struct error error = {0};
	uint32_t number = 0;
	double real = 0;
	bool is_yes = false;
	const char *text = NULL;

	require_equal(json_u32(&root, "n", 7, 7, &number, &error), STATUS_OK);
	require_equal(number, 7);
	require_equal(json_double(&root, "x", -1, 1, &real, &error), STATUS_OK);
	cr_assert(real == -0.5);
	require_equal(json_bool(&root, "yes", &is_yes, &error), STATUS_OK);
	cr_assert(is_yes);
	require_equal(json_text(&root, "text", &text, &error), STATUS_OK);
	cr_assert_str_eq(text, "t");
	cr_assert(json_has(&root, "n"));
	cr_assert_not(json_has(&root, "N"));
	cr_assert_not(json_has(&root, "none"));
	cr_assert_not_null(json_find(&root, "none"));
	require_equal(json_object(&root, "in", &inner, &error), STATUS_OK);
	require_equal(json_object(&inner, "deep", &inner, &error), STATUS_OK);
	require_equal(json_u32(&inner, "n", 0, 9, &number, &error), STATUS_OK);
	require_equal(number, 8);
	require_equal(json_u32(&inner, "m", 0, 9, &number, &error), STATUS_INPUT);
	cr_assert_str_eq(
		error.text, "f: field in.deep.m: found nothing, expected an integer in [0, 9]");
	json_document_close(&document);
}

Test(json, numbers_outside_their_range_are_refused)
{
	static const char *const found[] = {"-1", "10", "0.5", "2.5", "8.999999", "1e300", "-1e300",
		"\"3\"", "null", "true", "[]", "{}"};
	for (size_t index = 0; index < sizeof(found) / sizeof(found[0]); index++) {
		struct json_document document;
		struct error error = {0};
		char text[64], expected[128];
		uint64_t number = 77;
		snprintf(text, sizeof(text), "{\"n\": %s}", found[index]);
		struct json_object root = parsed(&document, text);
		require_equal(json_u64(&root, "n", 1, 9, &number, &error), STATUS_INPUT);
		require_equal(number, 77);
		const char *shown = strcmp(found[index], "1e300") == 0	  ? "1e+300"
				    : strcmp(found[index], "-1e300") == 0 ? "-1e+300"
				    : strcmp(found[index], "[]") == 0	  ? "an array"
				    : strcmp(found[index], "{}") == 0	  ? "an object"
									  : found[index];
		snprintf(expected, sizeof(expected),
			"f: field n: found %s, expected an integer in [1, 9]", shown);
		cr_assert_str_eq(error.text, expected);
		json_document_close(&document);
	}
}

/* Both ends of a range belong to it. */
Test(json, numbers_at_the_ends_of_their_range_are_read)
{
	struct json_document document;
	struct json_object root = parsed(&document, "{\"low\": -0.25, \"high\": 7}");
	struct error error = {0};
	uint64_t number = 0;
	double real = 0;

	require_equal(json_double(&root, "low", -0.25, 7, &real, &error), STATUS_OK);
	cr_assert(real == -0.25);
	require_equal(json_double(&root, "high", -0.25, 7, &real, &error), STATUS_OK);
	cr_assert(real == 7);
	require_equal(json_u64(&root, "high", 7, 9, &number, &error), STATUS_OK);
	require_equal(json_u64(&root, "high", 1, 7, &number, &error), STATUS_OK);
	require_equal(number, 7);
	json_document_close(&document);
}

/* Texts of up to 32 bytes are shown whole, and one more is marked as cut. */
Test(json, a_text_that_is_no_number_is_shown_whole_or_marked_as_cut)
{
	for (int bytes = 1; bytes <= 40; bytes++) {
		struct json_document document;
		struct error error = {0};
		char text[64], expected[128];
		uint64_t number;
		snprintf(text, sizeof(text), "{\"n\": \"%.*s\"}", bytes,
			"abcdefghijklmnopqrstuvwxyz0123456789ABCD");
		struct json_object root = parsed(&document, text);
		require_equal(json_u64(&root, "n", 1, 9, &number, &error), STATUS_INPUT);
		snprintf(expected, sizeof(expected),
			"f: field n: found \"%.*s%s\", expected an integer in [1, 9]",
			bytes > 32 ? 32 : bytes, "abcdefghijklmnopqrstuvwxyz0123456789ABCD",
			bytes > 32 ? "..." : "");
		cr_assert_str_eq(error.text, expected);
		json_document_close(&document);
	}
}

Test(json, a_duplicate_field_is_refused_by_every_reader)
{
	struct json_document document;
	struct json_object root = parsed(&document,
		"{\"n\": 1, \"n\": 1, \"t\": \"\", \"t\": \"\", \"b\": true, \"b\": true,"
		" \"o\": {}, \"o\": {}}");
	struct json_object inner;
	struct error error = {0};
	uint64_t number = 0;
	double real = 0;
	bool is_yes = false;
	const char *text = NULL;

	require_equal(json_u64(&root, "n", 0, 9, &number, &error), STATUS_INPUT);
	cr_assert_str_eq(error.text, "f: field n: found it twice, expected it once");
	error = (struct error){0};
	require_equal(json_double(&root, "n", 0, 9, &real, &error), STATUS_INPUT);
	error = (struct error){0};
	require_equal(json_text(&root, "t", &text, &error), STATUS_INPUT);
	error = (struct error){0};
	require_equal(json_bool(&root, "b", &is_yes, &error), STATUS_INPUT);
	error = (struct error){0};
	require_equal(json_object(&root, "o", &inner, &error), STATUS_INPUT);
	json_document_close(&document);
}

Test(json, after_an_error_readers_do_nothing_and_keep_it)
{
	struct json_document document;
	struct json_object root = parsed(&document, "{\"n\": 1, \"t\": \"x\", \"o\": {\"n\": 2}}");
	struct json_object inner;
	struct error error = {0};
	uint32_t number = 7;
	const char *text = NULL;

	json_object(&root, "p", &inner, &error);
	cr_assert_str_eq(error.text, "f: field p: found nothing, expected an object");
	require_equal(json_u32(&inner, "n", 5, 9, &number, &error), STATUS_INPUT);
	require_equal(json_u32(&root, "n", 0, 9, &number, &error), STATUS_INPUT);
	require_equal(json_text(&root, "t", &text, &error), STATUS_INPUT);
	require_equal(json_refuse(&root, "t", "a number", &error), STATUS_INPUT);
	require_equal(json_root(&inner, &document, &error), STATUS_INPUT);
	require_equal(number, 7);
	cr_assert_null(text);
	cr_assert_not(json_has(&inner, "n"));
	cr_assert_str_eq(error.text, "f: field p: found nothing, expected an object");
	json_document_close(&document);
}

Test(json, a_zero_byte_is_found)
{
	struct json_document document;
	struct error error = {STATUS_OK, ""};
	const char text[] = "{\n}\0{}";

	enum status status = json_document_parse(&document, "text", text, sizeof(text) - 1, &error);
	require_equal(status, STATUS_INPUT);
	cr_assert_str_eq(error.text, "text:2: found a zero byte, expected JSON text");
}

Test(json, an_escaped_zero_byte_is_found_too)
{
	struct json_document document;
	struct error error = {STATUS_OK, ""};
	static const char zero[] = "{\n\"a\\\\\\u0000b\": 1}";
	static const char none[] = "{\"a\\\\u0000\": \"\\u00001\\\"\"}";
	static const char other[] = "{\"a\\\\u0000\": \"\\u0001\\\"\"}";

	require_equal(
		json_document_parse(&document, "text", zero, strlen(zero), &error), STATUS_INPUT);
	cr_assert_str_eq(error.text, "text:2: found \\u0000, expected texts without zero bytes");
	require_equal(
		json_document_parse(&document, "text", none, strlen(none), &error), STATUS_INPUT);
	require_equal(
		json_document_parse(&document, "text", other, strlen(other), &error), STATUS_OK);
	json_document_close(&document);
}

Test(json, integers_are_exact_up_to_2_to_the_53)
{
	struct json_document document;
	struct json_object root;
	struct error error = {STATUS_OK, ""};
	uint64_t value = 0;
	const char text[] = "{\"a\": 9007199254740992, \"b\": 9007199254740994, \"c\": -1}";
	const uint64_t limit = UINT64_C(1) << 53;

	require_equal(json_document_parse(&document, "t", text, strlen(text), &error), STATUS_OK);
	require_equal(json_root(&root, &document, &error), STATUS_OK);
	require_equal(json_u64(&root, "a", 0, limit, &value, &error), STATUS_OK);
	require_equal(value, limit);
	require_equal(json_u64(&root, "b", 0, limit, &value, &error), STATUS_INPUT);
	require_equal(json_u64(&root, "c", 0, limit, &value, &error), STATUS_INPUT);
	json_document_close(&document);
	json_document_close(&document);
}
