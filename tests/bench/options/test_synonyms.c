#include "bench/options/options.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bench/replay/option_synonyms.h"
#include "bench/replay/replay_config.h"
#include "bench/commands/commands.h"
#include "tests/harness/require.h"

/* Names of other programs, options without a value, and times with units. */

struct values {
	uint64_t count, first_ms, second_s;
	uint32_t mode;
	const char *text;
	bool count_given;
};

static const char *mode(uint32_t index)
{
	static const char *const words[] = {"off", "on", "auto", NULL};

	return words[index];
}

#define VALUES(field) offsetof(struct values, field)

static const struct option rows[] = {
	{"count", OPTION_COUNT, VALUES(count), VALUES(count_given), .argument = "N", .maximum = 99,
		.help = "a count"},
	{"first", OPTION_MILLIONTHS, VALUES(first_ms), .argument = "MS", .unit = "ms", .minimum = 1,
		.maximum = 5000000000, .help = "a time"},
	{"second", OPTION_MILLIONTHS, VALUES(second_s), .argument = "S", .unit = "s", .minimum = 1,
		.maximum = 7200000000, .help = "another"},
	{"mode", OPTION_WORD, VALUES(mode), .bare = "on", .word_at = mode, .help = "a mode"},
	{"text", OPTION_TEXT, VALUES(text), .argument = "NAME", .help = "a text"},
};

static const struct option_synonym synonyms[] = {
	{.name = "number", .option = "mode", .begins = "auto", .value = "auto"},
	{.name = "number", .option = "count"},
	{.name = "no-mode", .option = "mode", .value = "off"},
	{.name = "limits", .option = "first", .begins = "a:"},
	{.name = "limits", .option = "second", .begins = "b:"},
	{.name = "limits", .help = "limits are a:N and b:N"},
	{.name = "served", .help = "nothing is served"},
	{.name = "elsewhere", .option = "not-of-this-command"},
	{.name = NULL},
};

static const struct option_table table = {.rows = rows, .count = 5, .synonyms = synonyms};

static const struct command command = {
	.name = "try",
	.arguments = "[A] [B]",
	.summary = "tries",
	OPTIONS(rows),
	.table = &table,
	.value_bytes = sizeof(struct values),
	.positional_maximum = 2,
};

struct outcome {
	struct values values;
	enum status status;
	struct error error;
	uint32_t positional_count;
};

static struct outcome parse(char **arguments)
{
	struct outcome outcome = {.status = STATUS_OK};
	char name[] = "try";
	char *argv[16] = {name};
	struct command_line line = {
		.command = &command, .argc = 1, .argv = argv, .values = &outcome.values};
	bool wants_help;

	for (; *arguments != NULL; arguments++) {
		argv[line.argc++] = *arguments;
	}
	command_defaults(&command, line.values);
	outcome.status = command_parse(&line, &wants_help, &outcome.error);
	outcome.positional_count = line.positional_count;
	return outcome;
}

#define PARSE(...) parse((char *[]){__VA_ARGS__, NULL})

static void require_refused(struct outcome outcome, const char *words)
{
	require_equal(outcome.status, STATUS_USAGE);
	require(strstr(outcome.error.text, words) != NULL, "'%s' lacks '%s'", outcome.error.text,
		words);
}

Test(synonyms, set_the_option_that_they_stand_for)
{
	struct outcome outcome = PARSE("--number", "7", "x", "--no-mode", "y");

	require(outcome.status == STATUS_OK, "%s", outcome.error.text);
	require_equal(outcome.values.count, 7);
	require(outcome.values.count_given, "it was given");
	require_equal(outcome.values.mode, 0);
	require_equal(outcome.positional_count, 2);
	outcome = PARSE("--number=auto");
	require_equal(outcome.status, STATUS_OK);
	require_equal(outcome.values.mode, 2);
	require(!outcome.values.count_given, "no count was given");
}

/* Behind an = the value is in the word itself, and the next word is an argument of its own. */
Test(synonyms, take_no_word_behind_a_value_of_their_own)
{
	static char *const begins[] = {"--number=7", "--number=auto", "--limits=a:2"};

	for (uint32_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		struct outcome outcome = PARSE(begins[i], "x", "y");
		require(outcome.status == STATUS_OK, "%s", outcome.error.text);
		require_equal(outcome.positional_count, 2);
		outcome = PARSE("x", begins[i], "--text", "name");
		require(outcome.status == STATUS_OK, "%s", outcome.error.text);
		require_equal(outcome.positional_count, 1);
		cr_assert_str_eq(outcome.values.text, "name");
	}
}

Test(synonyms, take_all_values_that_begin_as_theirs)
{
	struct outcome outcome = PARSE("--limits", "b:3", "a:2.5", "x");

	require(outcome.status == STATUS_OK, "%s", outcome.error.text);
	require_equal(outcome.values.first_ms, 2500000);
	require_equal(outcome.values.second_s, 3000000);
	require_equal(outcome.positional_count, 1);
	outcome = PARSE("x", "--limits=a:2s");
	require_equal(outcome.status, STATUS_OK);
	require_equal(outcome.values.first_ms, 2000000000);
	require_refused(PARSE("--limits", "a:1", "a:2"), "--first is given twice");
	require_refused(
		PARSE("--limits", "c:1"), "unknown option --limits; limits are a:N and b:N");
}

Test(synonyms, are_refused_as_options_are)
{
	require_refused(PARSE("--number", "seven"), "--count: found 'seven'");
	require_refused(PARSE("--number", "7", "--count", "8"), "--count is given twice");
	require_refused(PARSE("--no-mode=1"), "--no-mode takes no value");
	require_refused(PARSE("--number"), "--number: expected a value behind it");
	require_refused(PARSE("--served", "x"), "unknown option --served; nothing is served");
	require_refused(PARSE("--elsewhere", "x"), "unknown option --elsewhere");
}

Test(options_without_a_value, have_their_bare_one)
{
	require_equal(PARSE("--mode").values.mode, 1);
	require_equal(PARSE("--mode", "--count", "3").values.mode, 1);
	require_equal(PARSE("--mode", "--count", "3").values.count, 3);
	require_equal(PARSE("--mode", "auto").values.mode, 2);
	require_refused(PARSE("--mode", "x"), "--mode: found 'x', expected one of off, on, auto");
	require_refused(PARSE("--count"), "--count: expected N behind it");
}

Test(times, have_units)
{
	static const struct {
		const char *text;
		uint64_t ms; /* * 10^6; 0: refused */
	} cases[] = {{"20", 20000000}, {"20ms", 20000000}, {"0.5s", 500000000}, {"2s", 2000000000},
		{"1500us", 1500000}, {"0.000001ms", 1}, {"0.05m", 3000000000},
		{"0.05min", 3000000000}, {"0.001h", 3600000000}, {"0.0001us", 0}, {"2S", 0},
		{"2 s", 0}, {"s", 0}, {"", 0}, {"2ss", 0}, {"6s", 0}, {"1e3", 0}, {"-1s", 0},
		{"99999999999999999999h", 0}, {"5000000000000h", 0}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome outcome = PARSE("--first", (char *)cases[i].text);
		require((outcome.status == STATUS_OK) == (cases[i].ms > 0), "'%s'", cases[i].text);
		require(outcome.values.first_ms == cases[i].ms, "'%s' is %llu", cases[i].text,
			(unsigned long long)outcome.values.first_ms);
	}
	require_equal(PARSE("--second", "2h").values.second_s, 7200000000);
	require_equal(PARSE("--second", "3").values.second_s, 3000000);
	require_refused(PARSE("--second", "x"),
		"expected a decimal of at most 6 places from 0.000001 to 7200.000000 s, or with a "
		"unit");
}

/* Each name stands for an option of `quire replay`, which has none of that name, or is explained to
   commands without it. */
Test(synonyms, of_other_programs_are_whole)
{
	for (const struct option_synonym *row = option_synonyms; row->name != NULL; row++) {
		bool is_ours = command_has_option(&command_replay, row->name);
		require(row->option == NULL || command_has_option(&command_replay, row->option),
			"--%s stands for --%s, which there is not", row->name, row->option);
		require((row->option == NULL) == (row->help != NULL), "--%s", row->name);
		require(!is_ours || row->begins != NULL || row->option == NULL, "--%s is an option",
			row->name);
	}
}
