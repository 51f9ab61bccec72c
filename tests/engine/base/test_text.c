#include "engine/base/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"

/* Texts from outside and numbers for reading, by value, at the edges of what engine/base/text.h
   says. */

#define NB "\u00a0"

struct text_case {
	const char *from, *to;
};

#define BAD "\xef\xbf\xbd" /* U+FFFD */

Test(text, of_html_has_neither_markup_nor_control_characters)
{
	static const struct text_case cases[] = {
		{"", ""},
		{"a&b<c>d\"e'f", "a&amp;b&lt;c&gt;d&quot;e&#39;f"},
		{"a\nb\rc\td", "a b c d"},
		{"\x01\x1f\x7f ~", BAD BAD BAD " ~"},
		/* characters of two, three and four bytes, first and last */
		{"\xc2\xa0\xdf\xbf", "\xc2\xa0\xdf\xbf"},
		{"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
			"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
		{"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
		{"\xc2\x80\xc2\x9f", BAD BAD},	       /* control characters of Latin-1 */
		{"\xc0\xaf\xc1\xbf", BAD BAD BAD BAD}, /* overlong */
		{"\xe0\x9f\xbf", BAD BAD BAD},	       /* overlong */
		{"\xf0\x8f\xbf\xbf", BAD BAD BAD BAD}, /* overlong */
		{"\xed\xa0\x80\xed\xbf\xbf", BAD BAD BAD BAD BAD BAD}, /* surrogates */
		{"\xf4\x90\x80\x80", BAD BAD BAD BAD},		       /* beyond U+10FFFF */
		{"\xf5\x80\x80\x80\xff", BAD BAD BAD BAD BAD},
		{"\x80"
		 "a\xbf",
			BAD "a" BAD},
		{"\xc3", BAD},
		{"\xe2\x82", BAD BAD},
		{"\xe2\x82<", BAD BAD "&lt;"},
		{"\xf0\x9f\x98\"", BAD BAD BAD "&quot;"},
		{"\xc3\xc3\xa9", BAD "\xc3\xa9"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text text = {0};
		text_add_escaped(&text, cases[i].from);
		require(strcmp(text.bytes == NULL ? "" : text.bytes, cases[i].to) == 0,
			"case %u: found '%s', expected '%s'", i, text.bytes, cases[i].to);
		text_deinit(&text);
	}
}

Test(text, of_gnuplot_ends_only_at_its_end)
{
	static const struct text_case cases[] = {
		{"", "''"},
		{"it's", "'it''s'"},
		{"''", "\"'\".\"'\".''"},
		{"'a'", "\"'\".'a'''"},
		{"a\\nb`date`\"$x\"", "'a\\nb`date`\"$x\"'"},
		{"two\nlines", "'two lines'"},
		{"\x1b[31m\xff", "'" BAD "[31m" BAD "'"},
		{"\xc3\xa9", "'\xc3\xa9'"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text text = {0};
		text_add_gnuplot_string(&text, cases[i].from);
		require(strcmp(text.bytes, cases[i].to) == 0, "found %s, expected %s", text.bytes,
			cases[i].to);
		text_deinit(&text);
	}
}

#define MINUS "\xe2\x88\x92"

Test(text, numbers_keep_three_digits_and_change_their_unit_at_its_edges)
{
	static const struct {
		enum number_format format;
		double value;
		const char *text;
	} cases[] = {
		{NUMBER_COUNT, 0, "0"},
		{NUMBER_COUNT, 999, "999"},
		{NUMBER_COUNT, 1000, "1,000"},
		{NUMBER_COUNT, 1234567, "1,234,567"},
		{NUMBER_COUNT, 123456, "123,456"},
		{NUMBER_COUNT, -1000, MINUS "1,000"},
		{NUMBER_RATE, 0, "0.00"},
		{NUMBER_RATE, 0.0000004, "0.000000"},
		{NUMBER_RATE, 0.0012345, "0.00123"},
		{NUMBER_RATE, 0.9994, "0.999"},
		{NUMBER_RATE, 9.994, "9.99"},
		{NUMBER_RATE, 9.996, "10.0"},
		{NUMBER_RATE, 99.94, "99.9"},
		{NUMBER_RATE, 99.96, "100"},
		{NUMBER_RATE, 999.6, "1,000"},
		{NUMBER_RATE, -3.14159, MINUS "3.14"},
		{NUMBER_MS, 12.345, "12.3"},
		{NUMBER_MS, 1204.4, "1,204"},
		{NUMBER_SHARE, 0, "0.00" NB "%"},
		{NUMBER_SHARE, 0.0605, "6.05" NB "%"},
		{NUMBER_SHARE, 0.09994, "9.99" NB "%"},
		{NUMBER_SHARE, 0.09996, "10.0" NB "%"},
		{NUMBER_SHARE, 1, "100.0" NB "%"},
		{NUMBER_TIME_MS, 0, "0" NB "ms"},
		{NUMBER_TIME_MS, 0.0005, "0.500" NB "\u00b5s"},
		{NUMBER_TIME_MS, 0.9994, "999" NB "\u00b5s"},
		{NUMBER_TIME_MS, 0.9996, "1.00" NB "ms"},
		{NUMBER_TIME_MS, 1, "1.00" NB "ms"},
		{NUMBER_TIME_MS, 999.4, "999" NB "ms"},
		{NUMBER_TIME_MS, 999.6, "1.00" NB "s"},
		{NUMBER_TIME_MS, 22400, "22.4" NB "s"},
		{NUMBER_TIME_MS, -22400, MINUS "22.4" NB "s"},
		{NUMBER_TIME_S, 0.25, "250" NB "ms"},
		{NUMBER_TIME_S, 0.0000125, "12.5" NB "\u00b5s"},
		{NUMBER_TIME_S, 86400, "86,400" NB "s"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_number(&text, cases[i].format, true, cases[i].value);
		require(strcmp(text.bytes, cases[i].text) == 0, "found %s, expected %s", text.bytes,
			cases[i].text);
		text.byte_count = 0;
		text_add_number(&text, cases[i].format, false, cases[i].value);
		require(strcmp(text.bytes, "\u2013") == 0, "found %s for none", text.bytes);
	}
	text_deinit(&text);
}

Test(text, differences_are_relative_in_points_or_times)
{
	static const struct {
		enum number_format format;
		double base, value;
		const char *text;
	} cases[] = {
		{NUMBER_RATE, 5, 5, "="},
		{NUMBER_RATE, 0, 0, "="},
		{NUMBER_RATE, 0, 5, "from 0"},
		{NUMBER_RATE, 100, 100.004, "\u2248"},
		{NUMBER_RATE, 100, 99.996, "\u2248"},
		{NUMBER_RATE, 100, 100.006, "+0.01" NB "%"},
		{NUMBER_RATE, 100, 99.994, MINUS "0.01" NB "%"},
		{NUMBER_RATE, 100, 109.99, "+9.99" NB "%"},
		{NUMBER_RATE, 100, 109.996, "+10.0" NB "%"},
		{NUMBER_RATE, 100, 199.94, "+99.9" NB "%"},
		{NUMBER_RATE, 100, 199.96, "+100" NB "%"},
		{NUMBER_RATE, 100, 1099, "+999" NB "%"},
		{NUMBER_RATE, 100, 1100,
			"\u00d7"
			"11.0"},
		{NUMBER_RATE, -100, -50, "+50.0" NB "%"},
		{NUMBER_RATE, 100, -1100, MINUS "1,200" NB "%"},
		{NUMBER_SHARE, 0, 0.5, "+50.0" NB "pt"},
		{NUMBER_SHARE, 0.5, 0.25, MINUS "25.0" NB "pt"},
		{NUMBER_SHARE, 0.5, 0.50004, "\u2248"},
		{NUMBER_SHARE, 0.01, 1, "+99.0" NB "pt"},
	};
	const double one = 1;
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_difference(&text, cases[i].format, &cases[i].base, &cases[i].value);
		require(strcmp(text.bytes, cases[i].text) == 0, "found %s, expected %s", text.bytes,
			cases[i].text);
	}
	text.byte_count = 0;
	text_add_difference(&text, NUMBER_RATE, &one, NULL);
	text_add_difference(&text, NUMBER_RATE, NULL, &one);
	text_add_difference(&text, NUMBER_RATE, NULL, NULL);
	require_equal(text.byte_count, 0);
	text_deinit(&text);
}

Test(text, grows_by_all_of_what_is_added)
{
	struct text text = {0};
	char expected[4096];
	size_t used = 0;

	text_add_bytes(&text, NULL, 0);
	cr_assert_str_eq(text.bytes, "");
	for (uint32_t i = 0; i < 300; i++) {
		char part[16];
		size_t bytes = (size_t)snprintf(part, sizeof(part), "%u,", i);
		memcpy(expected + used, part, bytes + 1);
		used += bytes;
		text_format(&text, "%u,", i);
		require_equal(text.byte_count, used);
		cr_assert_str_eq(text.bytes, expected);
	}
	text_format(&text, "%*d", 5000, 7);
	require_equal(text.byte_count, used + 5000);
	require_equal(strspn(text.bytes + used, " "), 4999);
	cr_assert_str_eq(text.bytes + used + 4999, "7");
	text_deinit(&text);
	cr_assert_null(text.bytes);
	require_equal(text.byte_count + text.capacity, 0);
}

/* What a shell would change is quoted, and nothing else. */
Test(text, words_of_a_command_line_are_quoted)
{
	static const struct {
		const char *word, *expected;
	} words[] = {
		{"", "''"},
		{"--kv-blocks", "--kv-blocks"},
		{"speedup=1:4:+0.5,@x/%_", "speedup=1:4:+0.5,@x/%_"},
		{"a=1;b=2", "'a=1;b=2'"},
		{"it's", "'it'\\''s'"},
		{"ttft.p99<=5", "'ttft.p99<=5'"},
		{"$HOME *", "'$HOME *'"},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct text text = {0};
		text_add_shell_word(&text, words[i].word);
		cr_assert_str_eq(text.bytes, words[i].expected);
		text_deinit(&text);
	}
}

Test(text, a_count_and_its_word_agree)
{
	static const struct {
		uint64_t count;
		const char *expected;
	} counts[] = {{0, "0 runs"}, {1, "1 run"}, {2, "2 runs"}, {12031, "12,031 runs"}};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct text text = {0};
		text_add_count(&text, counts[i].count, "run", "runs");
		cr_assert_str_eq(text.bytes, counts[i].expected);
		text_deinit(&text);
	}
}

/* A name is meant where at most half of it and three letters differ, and it is nearer than those
   before. */
Test(text, a_mistyped_name_is_meant_where_it_is_near)
{
	static const struct {
		const char *word, *name;
		uint32_t before, edits; /* edits: before where it is not meant */
	} cases[] = {
		{"reply", "replay", TEXT_EDITS_NONE, 1},
		{"H200", "h200", TEXT_EDITS_NONE, 0},
		{"h201", "h100", 1, 1},
		{"h201", "h200", 2, 1},
		{"ab", "cd", TEXT_EDITS_NONE, TEXT_EDITS_NONE},
		{"ab", "ad", TEXT_EDITS_NONE, 1},
		{"", "abcdef", TEXT_EDITS_NONE, TEXT_EDITS_NONE},
		{"abc", "abcdef", TEXT_EDITS_NONE, 3},
		{"wxyz5678", "abcd5678", TEXT_EDITS_NONE, TEXT_EDITS_NONE},
		{"prompts-of-more-than-64-letters-are-no-name-of-an-option-or-command",
			"prompts-of-more-than-64-letters-are-no-name-of-an-option-or-command",
			TEXT_EDITS_NONE, TEXT_EDITS_NONE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t edits = cases[i].before;
		bool is_meant = text_is_meant(cases[i].word, cases[i].name, &edits);
		cr_expect_eq(is_meant, cases[i].edits < cases[i].before, "%s", cases[i].word);
		cr_expect_eq(edits, cases[i].edits, "%s: %u", cases[i].word, edits);
	}
}
