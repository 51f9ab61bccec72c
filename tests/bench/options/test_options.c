#include "bench/options/options.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* ---- a command with an option of each kind ---- */

struct values {
	bool flag, other_flag;
	uint64_t count, share;
	const char *text;
	uint32_t choice;
	bool count_given, flag_given, text_given;
};

struct outcome {
	struct values values;
	enum status status;
	struct error error;
	const char *positionals[2];
	uint32_t positional_count;
	bool wants_help;
};

static const char *word(uint32_t index)
{
	static const char *const words[] = {"red", "green", "blue", NULL};

	return words[index];
}

#define VALUES(field) offsetof(struct values, field)

static const struct option rows[] = {
	{.kind = OPTION_HEADING, .help = "what there is"},
	{"flag", OPTION_FLAG, VALUES(flag), VALUES(flag_given), .help = "a flag"},
	{"other-flag", OPTION_FLAG, VALUES(other_flag), .help = "another", .alias = "of"},
	{"count", OPTION_COUNT, VALUES(count), VALUES(count_given), .argument = "N", .initial = "5",
		.minimum = 2, .maximum = 40, .help = "a count", .alias = "cn"},
	{.kind = OPTION_HEADING, .help = "and more"},
	{"share", OPTION_MILLIONTHS, VALUES(share), .argument = "X", .initial = "0.6",
		.minimum = 500000, .maximum = 2000000, .help = "a share"},
	{"text", OPTION_TEXT, VALUES(text), VALUES(text_given), .argument = "NAME", .none = "no",
		.initial = "some", .help = "a text"},
	{"choice", OPTION_WORD, VALUES(choice), .word_at = word, .help = "a word"},
};

static const struct command command = {
	.name = "try",
	.arguments = "A [B] [options]",
	.summary = "tries",
	OPTIONS(rows),
	.value_bytes = sizeof(struct values),
	.positional_minimum = 1,
	.positional_maximum = 2,
};

/* Parses NULL-terminated arguments. */
static struct outcome parse_by(const struct command *by, char **arguments)
{
	struct outcome outcome = {.status = STATUS_OK};
	char name[] = "try";
	char *argv[32] = {name};
	struct command_line line = {
		.command = by, .argc = 1, .argv = argv, .values = &outcome.values};

	for (; *arguments != NULL; arguments++) {
		argv[line.argc++] = *arguments;
	}
	command_defaults(by, line.values);
	outcome.status = command_parse(&line, &outcome.wants_help, &outcome.error);
	memcpy(outcome.positionals, line.positionals, sizeof(outcome.positionals));
	outcome.positional_count = line.positional_count;
	return outcome;
}

static struct outcome parse(char **arguments)
{
	return parse_by(&command, arguments);
}

#define PARSE(...) parse((char *[]){__VA_ARGS__, NULL})

/* Wrong use is a line that holds every one of the words. */
static void require_refused(const struct outcome *outcome, const char *first, const char *second)
{
	require_equal(outcome->status, STATUS_USAGE);
	require_equal(outcome->error.status, STATUS_USAGE);
	require(strstr(outcome->error.text, first) != NULL, "no '%s' in: %s", first,
		outcome->error.text);
	require(strstr(outcome->error.text, second) != NULL, "no '%s' in: %s", second,
		outcome->error.text);
	require(strchr(outcome->error.text, '\n') == NULL, "two lines: %s", outcome->error.text);
}

Test(options, every_kind_is_set_by_both_spellings)
{
	struct outcome apart = PARSE("--flag", "--count", "40", "a", "--share", "0.5", "--text",
		"--odd", "--choice", "blue", "b");
	struct outcome joined = PARSE(
		"a", "--flag", "--count=40", "--share=0.5", "--text=--odd", "b", "--choice=blue");
	const struct outcome *both[] = {&apart, &joined};

	for (uint32_t i = 0; i < 2; i++) {
		const struct values *values = &both[i]->values;
		require_equal(both[i]->status, STATUS_OK);
		require(values->flag && values->flag_given && !values->other_flag, "flags");
		require(values->count_given && values->text_given, "given");
		require_equal(values->count, 40);
		require_equal(values->share, 500000);
		cr_assert_str_eq(values->text, "--odd");
		require_equal(values->choice, 2);
		require_equal(both[i]->positional_count, 2);
		cr_assert_str_eq(both[i]->positionals[0], "a");
		cr_assert_str_eq(both[i]->positionals[1], "b");
	}
}

Test(options, what_is_not_given_has_its_default)
{
	struct outcome outcome = PARSE("a");

	require_equal(outcome.status, STATUS_OK);
	require(!outcome.values.flag && !outcome.values.flag_given && !outcome.values.count_given &&
			!outcome.values.text_given,
		"something was given");
	require_equal(outcome.values.count, 5);
	require_equal(outcome.values.share, 600000);
	cr_assert_str_eq(outcome.values.text, "some");
}

Test(options, equals_splits_at_the_first)
{
	struct outcome outcome = PARSE("a", "--text=b=c=", "--count=2");

	require_equal(outcome.status, STATUS_OK);
	cr_assert_str_eq(outcome.values.text, "b=c=");
}

Test(options, two_dashes_end_them)
{
	struct outcome outcome = PARSE("--", "--count", "-h");

	require_equal(outcome.status, STATUS_OK);
	require(!outcome.wants_help, "-h behind -- is an argument");
	require_equal(outcome.positional_count, 2);
	cr_assert_str_eq(outcome.positionals[0], "--count");
	cr_assert_str_eq(outcome.positionals[1], "-h");
	outcome = PARSE("--", "--");
	require_equal(outcome.status, STATUS_OK);
	cr_assert_str_eq(outcome.positionals[0], "--");
	outcome = PARSE("-"); /* a single dash is no option */
	require_equal(outcome.status, STATUS_OK);
	cr_assert_str_eq(outcome.positionals[0], "-");
}

Test(options, help_is_asked_for_anywhere)
{
	const struct outcome outcomes[] = {PARSE("--help"), PARSE("-h"),
		PARSE("a", "b", "c", "--help"), PARSE("--nonsense", "--help"),
		PARSE("--count", "none", "-h")};

	for (uint32_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		require(outcomes[i].wants_help, "case %u", i);
		require_equal(outcomes[i].status, STATUS_OK);
	}
}

Test(options, ranges_include_their_ends)
{
	static const char *const good[] = {"2", "3", "39", "40", "040"};
	static const char *const bad[] = {"1", "41", "0", "-2", "", "2.0", "4x", "x",
		"18446744073709551618", "99999999999999999999999999"};

	for (uint32_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct outcome outcome = PARSE("a", "--count", (char *)good[i]);
		require(outcome.status == STATUS_OK, "%s", outcome.error.text);
	}
	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char found[64];
		struct outcome outcome = PARSE("a", "--count", (char *)bad[i]);
		snprintf(found, sizeof(found), "found '%s'", bad[i]);
		require_refused(&outcome, "--count", found);
		require_refused(&outcome, "from 2 to 40", "integer");
		require_equal(outcome.values.count, 5);
	}
}

Test(options, shares_are_decimals_in_their_range)
{
	static const char *const good[] = {"0.5", "0.500000", "1", "2", "2.0", "1.999999"};
	static const char *const bad[] = {
		"0.499999", "2.000001", "0.5000000", "1,5", "1e0", "-1", "1.", ".9", "", "nan"};

	for (uint32_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct outcome outcome = PARSE("a", "--share", (char *)good[i]);
		require(outcome.status == STATUS_OK, "%s", outcome.error.text);
	}
	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char found[64];
		struct outcome outcome = PARSE("a", "--share", (char *)bad[i]);
		snprintf(found, sizeof(found), "found '%s'", bad[i]);
		require_refused(&outcome, "--share", found);
		require_refused(&outcome, "0.500000", "2.000000");
		require_equal(outcome.values.share, 600000);
	}
}

Test(options, texts_and_words_are_checked)
{
	struct outcome outcome = PARSE("a", "--text", "");
	require_refused(&outcome, "--text", "empty");
	outcome = PARSE("a", "--text=");
	require_refused(&outcome, "--text", "NAME");
	outcome = PARSE("a", "--choice", "gree");
	require_refused(&outcome, "--choice: found 'gree'", "red, green, blue");
	outcome = PARSE("a", "--choice=");
	require_refused(&outcome, "--choice", "red, green, blue");
	outcome = PARSE("a", "--choice", "Blue");
	require_refused(&outcome, "--choice", "blue");
}

Test(options, each_is_given_once)
{
	struct outcome outcome = PARSE("a", "--count", "3", "--count", "3");
	require_refused(&outcome, "--count", "twice");
	outcome = PARSE("a", "--count=3", "--count", "3");
	require_refused(&outcome, "--count", "twice");
	outcome = PARSE("a", "--flag", "--flag");
	require_refused(&outcome, "--flag", "twice");
	outcome = PARSE("a", "--choice", "red", "--choice=red");
	require_refused(&outcome, "--choice", "twice");
}

Test(options, values_are_where_they_belong)
{
	static const char *const names[] = {"--count", "--share", "--text", "--choice"};

	for (uint32_t i = 0; i < 4; i++) {
		struct outcome outcome = PARSE("a", (char *)names[i]);
		require_refused(&outcome, names[i], "behind it");
	}
	struct outcome outcome = PARSE("a", "--flag=1");
	require_refused(&outcome, "--flag", "no value");
	outcome = PARSE("a", "--flag=");
	require_refused(&outcome, "--flag", "no value");
}

Test(options, arguments_are_counted)
{
	struct outcome outcome = PARSE("--flag");
	require_refused(&outcome, "quire try", "A [B] [options]");
	outcome = PARSE("a", "b", "c");
	require_refused(&outcome, "'c'", "too many");
	outcome = PARSE("a", "b", "--", "c");
	require_refused(&outcome, "'c'", "too many");
}

Test(options, what_is_unknown_is_named_and_guessed)
{
	static const struct {
		const char *found, *guess;
	} near[] = {{"--conut", "--count"}, {"--counts", "--count"}, {"--cout=3", "--count"},
		{"--shar", "--share"}, {"--otherflag", "--other-flag"},
		{"--other_flag", "--other-flag"}, {"--Text", "--text"}, {"--choise", "--choice"},
		{"--other", "--other-flag"}};

	for (uint32_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		char guess[64];
		struct outcome outcome = PARSE("a", (char *)near[i].found);
		snprintf(guess, sizeof(guess), "did you mean %s?", near[i].guess);
		require_refused(&outcome, "unknown option", guess);
	}
}

/* A suggestion that has little in common with the argument is not useful. */
Test(options, what_is_far_from_all_is_not_guessed)
{
	static const char *const far[] = {"--x", "--", "--=", "--ab", "--frobnicate", "--=text",
		"--0123456789012345678901234567890123456789012345678901234567890123456789"};

	for (uint32_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		if (strcmp(far[i], "--") == 0) {
			continue; /* ends the options */
		}
		struct outcome outcome = PARSE("a", (char *)far[i]);
		require_refused(&outcome, "unknown option", "--");
		require(strstr(outcome.error.text, "did you mean") == NULL, "%s",
			outcome.error.text);
	}
	/* Three edits are a plausible typo, four are none. */
	struct outcome outcome = PARSE("a", "--othxxxflag");
	require_refused(&outcome, "unknown option", "did you mean --other-flag?");
	outcome = PARSE("a", "--othxxxxlag");
	require_refused(&outcome, "unknown option", "--othxxxxlag");
	require(strstr(outcome.error.text, "did you mean") == NULL, "%s", outcome.error.text);
	outcome = PARSE("a", "-c", "3");
	require_refused(&outcome, "-c", "--name");
	outcome = PARSE("a", "-count");
	require_refused(&outcome, "-count", "--name");
}

/* An alias sets the same value, and messages have the option's own name. */
Test(options, an_alias_is_the_option)
{
	struct outcome outcome = PARSE("a", "-of", "-cn", "7");

	require_equal(outcome.status, STATUS_OK);
	require(outcome.values.other_flag && outcome.values.count_given, "given");
	require_equal(outcome.values.count, 7);
	outcome = PARSE("a", "-cn=8");
	require_equal(outcome.values.count, 8);
	outcome = PARSE("a", "-cn", "41");
	require_refused(&outcome, "--count: found '41'", "2 to 40");
	outcome = PARSE("a", "-cn");
	require_refused(&outcome, "--count: expected N behind it", "");
	outcome = PARSE("a", "-cn", "3", "--count", "3");
	require_refused(&outcome, "--count is given twice", "");
	outcome = PARSE("a", "--cn", "3");
	require_refused(&outcome, "unknown option --cn", "");
	outcome = PARSE("a", "--", "-cn");
	require_equal(outcome.status, STATUS_OK);
	cr_assert_str_eq(outcome.positionals[1], "-cn");
}

Test(options, a_value_with_a_line_break_makes_no_second_line)
{
	struct outcome outcome = PARSE("a", "--count", "1\n2\r\n");
	require_refused(&outcome, "--count", "found");
	outcome = PARSE("a", "--wh\nat");
	require_refused(&outcome, "unknown", "--");
	outcome = PARSE("a", "b", "c\nd");
	require_refused(&outcome, "too many", "c d");
}

/* A word may stand for no text at all. */
Test(options, a_text_has_a_word_for_none)
{
	struct outcome outcome = PARSE("a", "--text", "no");
	require(outcome.status == STATUS_OK && outcome.values.text == NULL, "a text");
	require(outcome.values.text_given, "it was given");
	outcome = PARSE("a", "--text", "none");
	cr_assert_str_eq(outcome.values.text, "none");
}

/* ---- rows that several commands share ---- */

struct outer {
	bool before;
	struct values inner;
};

static const struct option_table table = {.rows = rows + 3, .count = 1}; /* --count alone */

Test(options, a_row_of_the_table_is_selected_by_name)
{
	static const struct option selected[] = {
		{FROM_TABLE("count"), .initial = "7", .maximum = 50, .help = "another count"}};
	const struct command other = {
		.name = "other",
		.arguments = "",
		.summary = "",
		OPTIONS(selected),
		.table = &table,
		.table_offset = offsetof(struct outer, inner),
		.value_bytes = sizeof(struct outer),
	};
	struct outer values;
	char *arguments[] = {"other", "--count", "50", NULL};
	struct command_line line = {
		.command = &other, .argc = 1, .argv = arguments, .values = &values};
	struct error error;
	bool wants_help;

	command_defaults(&other, &values);
	require_equal(values.inner.count, 7);
	require_equal(command_parse(&line, &wants_help, &error), STATUS_OK);
	require_equal(values.inner.count, 7);
	require(!values.inner.count_given, "given");
	line.argc = 3;
	require_equal(command_parse(&line, &wants_help, &error), STATUS_OK);
	require_equal(values.inner.count, 50);
	require(values.inner.count_given && !values.before, "not given");
	struct option row;
	require(command_option(&other, 0, &row) && !command_option(&other, 1, &row), "one row");
	command_option(&other, 0, &row);
	cr_assert_str_eq(row.help, "another count");
	cr_assert_str_eq(row.argument, "N");
	require_equal(row.minimum, 2);
	require_equal(command_set(&line, "count", "51", &error), STATUS_USAGE);
	require_equal(command_set(&line, "count", "9", &error), STATUS_OK);
	require_equal(values.inner.count, 9);
}

/* However long a number is, it is read whole or not at all. */
Test(options, a_long_time_is_whole_or_refused)
{
	static const struct option times[] = {{"time", OPTION_MILLIONTHS, 0, .unit = "s",
		.maximum = UINT64_MAX, .help = "how long"}};
	const struct command other = {
		.name = "other", OPTIONS(times), .value_bytes = sizeof(uint64_t)};
	struct error error;
	bool was_refused = false;

	for (uint32_t bytes = 1; bytes < 100; bytes++) {
		uint64_t value = 0;
		char text[110] = "";
		struct command_line line = {.command = &other, .values = &value};
		memset(text, '0', bytes);
		strcpy(text + bytes, "2ms");
		bool is_refused = command_set(&line, "time", text, &error) != STATUS_OK;
		require(is_refused || value == 2000, "%u bytes: %llu", bytes,
			(unsigned long long)value);
		require(is_refused >= was_refused, "%u bytes are too many, and more are not",
			bytes);
		was_refused = is_refused;
	}
	require(was_refused, "any length is read");
}

static const struct {
	const char *name;
	uint64_t us;
} time_units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"min", 60000000},
	{"h", 3600000000}, {"d", 0}, {"ns", 0}, {"S", 0}, {"sec", 0}, {"s ", 0}};

enum { TIME_UNITS = sizeof(time_units) / sizeof(time_units[0]), TIME_UNITS_OWN = 4 };

/* A decimal with or without a unit behind it is so many millionths of the option's own unit, or
   refused where it is no whole number of them. */
static void set_drawn_time(struct prop *prop, const void *context)
{
	uint32_t own = (uint32_t)prop_below(prop, TIME_UNITS_OWN); /* of the option */
	uint32_t unit = (uint32_t)prop_below(prop, TIME_UNITS + 1), places = prop_range(prop, 0, 6);
	const struct option times[] = {{"time", OPTION_MILLIONTHS, 0, .unit = time_units[own].name,
		.maximum = UINT64_MAX, .help = "how long"}};
	const struct command other = {
		.name = "other", OPTIONS(times), .value_bytes = sizeof(uint64_t)};
	uint64_t value = 0, part = 0, millionths = 1000000 * (uint64_t)prop_below(prop, 5000);
	struct command_line line = {.command = &other, .values = &value};
	struct error error;
	char text[64];

	(void)context;
	int used = snprintf(text, sizeof(text), "%llu%s",
		(unsigned long long)(millionths / 1000000), places > 0 ? "." : "");
	for (uint64_t i = 0, scale = 100000; i < places; i++, scale /= 10) {
		uint64_t digit = prop_below(prop, 10);
		part += digit * scale;
		used += snprintf(text + used, sizeof(text) - (size_t)used, "%u", (unsigned)digit);
	}
	snprintf(text + used, sizeof(text) - (size_t)used, "%s",
		unit == TIME_UNITS ? "" : time_units[unit].name);
	uint64_t us = time_units[unit == TIME_UNITS ? own : unit].us;
	u128 whole = (u128)(millionths + part) * us;
	bool is_good = us > 0 && whole % time_units[own].us == 0;
	prop_log(prop, "'%s' for an option in %s", text, time_units[own].name);
	bool is_read = command_set(&line, "time", text, &error) == STATUS_OK;
	require(is_read == is_good, "'%s' in %s: %s", text, time_units[own].name,
		is_read ? "read" : "refused");
	require(!is_read || value == (uint64_t)(whole / time_units[own].us), "'%s' in %s: %llu",
		text, time_units[own].name, (unsigned long long)value);
}

Test(options, a_time_is_exact_or_refused)
{
	const struct prop_options options = {
		.name = "times with units", .body = set_drawn_time, .trials = 5000};

	cr_assert(prop_holds(&options));
}

/* A command may take the table's word for none as any other text. */
Test(options, a_word_for_none_is_replaced_with_the_row)
{
	static const struct option_table texts = {.rows = rows + 6, .count = 1}; /* --text alone */
	static const struct option selected[] = {{FROM_TABLE("text"), .none = ""}};
	const struct command other = {
		.name = "other",
		OPTIONS(selected),
		.table = &texts,
		.value_bytes = sizeof(struct values),
	};
	struct values values;
	struct command_line line = {.command = &other, .values = &values};
	struct error error;

	command_defaults(&other, &values);
	require_equal(command_set(&line, "text", "no", &error), STATUS_OK);
	cr_assert_str_eq(values.text, "no");
}

Test(options, a_group_of_the_table_is_selected_whole)
{
	static const struct option members[] = {
		{"a", OPTION_FLAG, VALUES(flag), .group = "first", .help = "a"},
		{"b", OPTION_FLAG, VALUES(flag), .group = "second", .help = "b"},
		{"c", OPTION_FLAG, VALUES(flag), .group = "first", .help = "c"},
		{"d", OPTION_FLAG, VALUES(flag), .help = "d"},
	};
	static const struct option_table groups = {.rows = members, .count = 4};
	static const struct option selected[] = {
		{"before", OPTION_FLAG, 0, .help = "before"},
		{GROUP_OF_TABLE("first")},
		{GROUP_OF_TABLE("none")},
		{FROM_TABLE("d")},
		{GROUP_OF_TABLE("second")},
	};
	static const char *const names[] = {"before", "a", "c", "d", "b"};
	const struct command other = {
		.name = "other",
		OPTIONS(selected),
		.table = &groups,
		.table_offset = offsetof(struct outer, inner),
		.value_bytes = sizeof(struct outer),
	};
	struct option row;

	for (uint32_t i = 0; i < 5; i++) {
		require(command_option(&other, i, &row), "no row %u", i);
		cr_assert_str_eq(row.name, names[i]);
		require_equal(row.offset, i == 0 ? 0 : offsetof(struct outer, inner.flag));
	}
	require(!command_option(&other, 5, &row), "a row too many");
}

/* Fields of the table that a command does not select have the table's defaults. */
Test(options, the_table_sets_defaults_of_rows_that_are_not_selected)
{
	const struct command other = {
		.name = "other",
		.table = &table,
		.table_offset = offsetof(struct outer, inner),
		.value_bytes = sizeof(struct outer),
	};
	struct outer values;

	command_defaults(&other, &values);
	require_equal(values.inner.count, 5);
}

/* ---- any arguments at all ---- */

/* Pieces of command lines in any order: either all is well and the values are in their ranges, or a
   line says why not. The sanitizer builds see what is read and written on the way. */
static void body_any(struct prop *prop, const void *context)
{
	static const char *const pieces[] = {"a", "--flag", "--count", "--count=7", "40", "1",
		"--share=1", "--share", "0.7", "--text", "--text=x", "--choice", "green", "--", "-",
		"--other-flag", "--flag=0", "", "=", "--=", "-x", "-cn", "-of", "-cn=9", "-of=1",
		"--countt", "--c"};
	char *arguments[12] = {NULL};
	(void)context;

	uint32_t count = prop_range(prop, 0, 11);
	for (uint32_t i = 0; i < count; i++) {
		arguments[i] = (char *)pieces[prop_below(prop, sizeof(pieces) / sizeof(pieces[0]))];
		prop_log(prop, "'%s'", arguments[i]);
	}
	struct outcome outcome = parse(arguments);
	if (outcome.status != STATUS_OK) {
		require_refused(&outcome, "", "");
		require(outcome.error.text[0] != '\0', "no line");
		return;
	}
	const struct values *values = &outcome.values;
	require(values->count >= 2 && values->count <= 40, "count");
	require(values->share == 600000 || (values->share >= 500000 && values->share <= 2000000),
		"share");
	require(values->choice < 3, "choice");
	require(outcome.positional_count >= 1 && outcome.positional_count <= 2, "arguments");
}

Test(options, any_arguments_are_taken_or_refused)
{
	struct prop_options options = {.name = "options", .body = body_any, .trials = 20000};

	cr_assert(prop_holds(&options));
}

/* ---- texts ---- */

static const struct option several_rows[] = {
	{"try", OPTION_TEXTS, 0, .argument = "TEXT", .help = "a try"},
};

static const struct command several = {
	.name = "try",
	.arguments = "[options]",
	.summary = "tries",
	OPTIONS(several_rows),
	.value_bytes = sizeof(struct option_texts),
};

static enum status parse_several(
	char **argv, int argc, struct option_texts *texts, struct error *error)
{
	struct command_line line = {
		.command = &several, .argc = argc, .argv = argv, .values = texts};
	bool wants_help;

	command_defaults(&several, texts);
	return command_parse(&line, &wants_help, error);
}

Test(options, texts_are_kept_in_their_order)
{
	char *argv[] = {"try", "--try", "one", "--try=two", "--try", "one"};
	char *many[2 * OPTION_TEXTS_MAX + 4] = {"try"}, help[OPTION_HELP_BYTES];
	struct option_texts texts;
	struct error error = {0};

	require(parse_several(argv, 6, &texts, &error) == STATUS_OK, "%s", error.text);
	require_equal(texts.count, 3);
	require(strcmp(texts.list[0], "one") == 0 && strcmp(texts.list[1], "two") == 0 &&
			strcmp(texts.list[2], "one") == 0,
		"another order");
	require(parse_several(argv, 1, &texts, &error) == STATUS_OK && texts.count == 0, "some");
	for (int i = 0; i < OPTION_TEXTS_MAX + 1; i++) {
		many[1 + 2 * i] = "--try";
		many[2 + 2 * i] = "x";
	}
	require(parse_several(many, 1 + 2 * OPTION_TEXTS_MAX, &texts, &error) == STATUS_OK, "%s",
		error.text);
	require_equal(parse_several(many, 3 + 2 * OPTION_TEXTS_MAX, &texts, &error), STATUS_USAGE);
	require(strstr(error.text, "--try is given more than 64 times") != NULL, "%s", error.text);
	char *empty[] = {"try", "--try="};
	error = (struct error){0};
	require_equal(parse_several(empty, 2, &texts, &error), STATUS_USAGE);
	require(strstr(error.text, "--try: found an empty text") != NULL, "%s", error.text);
	option_help(&several_rows[0], help);
	require(strcmp(help, "a try; may be given several times") == 0, "%s", help);
}
