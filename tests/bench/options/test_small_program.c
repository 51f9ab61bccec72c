#include "bench/options/completion.h"
#include "bench/options/manual.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* All that a small program says of itself, byte by byte: its help, its manual page and what shells
   complete. It has an option of each kind, two levels of groups, and characters that roff and
   shells read in their own way. Each text is a file of tests/fixtures/small_program/. A text that
   has to change is replaced by the file that the failure names. */

#define FIXTURES QUIRE_SOURCE_DIR "/tests/fixtures/small_program/"

static const char *speed_at(uint32_t index)
{
	static const char *const words[] = {"fast", "slow"};

	return index < 2 ? words[index] : NULL;
}

static const char *about_speed(uint32_t index)
{
	return index == 0 ? "at once" : "later";
}

static const struct option options[] = {
	{.kind = OPTION_HEADING, .help = "what - and 'how'"},
	{.name = "all",
		.kind = OPTION_FLAG,
		.help = "every one: [more], it's \\ all",
		.alias = "a"},
	{.name = "count",
		.kind = OPTION_COUNT,
		.argument = "N",
		.initial = "3",
		.maximum = 9,
		.help = "how many",
		.alias = "n"},
	{.name = "speed",
		.kind = OPTION_WORD,
		.word_at = speed_at,
		.about_word = about_speed,
		.initial = "slow",
		.help = "how fast"},
	{.kind = OPTION_HEADING, .help = "where"},
	{.name = "from", .kind = OPTION_TEXT, .argument = "FILE", .help = "a file"},
	{.name = "into", .kind = OPTION_TEXT, .argument = "DIR", .help = "a folder"},
	{.name = "trace", .kind = OPTION_TEXT, .argument = "TRACE", .help = "a trace"},
	{.name = "table", .kind = OPTION_TEXT, .argument = "TABLE", .help = "a table"},
	{.name = "place",
		.kind = OPTION_TEXT,
		.argument = "NAME|DIR",
		.word_at = speed_at,
		.help = "a name, or a folder"},
	{.name = "either",
		.kind = OPTION_TEXT,
		.argument = "DIR|FILE",
		.word_at = speed_at,
		.help = "one of both"},
	{.name = "word", .kind = OPTION_TEXTS, .argument = "A:B", .help = "any text"},
	{.name = "ratio",
		.kind = OPTION_MILLIONTHS,
		.argument = "X",
		.maximum = 7,
		.help = "a part"},
};

/* Names of other programs, of which the help shows those of options that a command has. */
static const struct option_synonym synonyms[] = {
	{.name = "number", .option = "count"},
	{.name = "hurry", .option = "speed", .value = "fast"},
	{.name = "gone", .help = "nobody needs it"},
	{.name = "width", .option = "columns"},
	{.name = "set", .option = "count", .begins = "count="},
	{.name = "every", .option = "all"},
	{.name = NULL},
};

static const struct option_table table = {.synonyms = synonyms};
static const char *const main_options[] = {"from", "all", NULL};

static const struct command first = {.name = "first",
	.title = "does: 'one' \\ thing",
	.arguments = "FILE [options]",
	.summary = "Does one thing.\n\nIt takes:\n  a - file\n.and 'more'\\",
	.examples = "  small first a.txt\n",
	.table = &table,
	.main_options = main_options,
	.positional_maximum = 1,
	OPTIONS(options)};

static const struct command second = {.name = "second",
	.table = &table,
	.title = "does nothing",
	.arguments = "[options]",
	.summary = "Does nothing."};

static const struct command inner = {.name = "group inner",
	.title = "the inner one",
	.arguments = "[options]",
	.summary = "It is in a group.\n",
	OPTIONS(options)};

static const struct command other = {.name = "group other",
	.title = "the other one",
	.arguments = "A",
	.summary = "It has an option.\n",
	.options = options + 1,
	.option_count = 1};

static const struct command *const group_members[] = {&inner, &other, NULL};

static const struct command group = {.name = "group",
	.title = "has members",
	.summary = "A group.\n",
	.examples = "  small group inner\n",
	.members = group_members};

static const struct command *const members[] = {&first, &group, &second, NULL};

static const struct command program = {.name = "",
	.title = "a small program",
	.summary = "It is small.\n\nIt does little.\n",
	.examples = "  small first a.txt --all\n",
	.members = members};

/* Compares what was written into `file`, which it closes, with the fixture. */
static void require_fixture(FILE *file, char **text, size_t *bytes, const char *name)
{
	char path[600];

	fclose(file);
	snprintf(path, sizeof(path), FIXTURES "%s", name);
	char *expected = file_read_if_there(path, NULL);
	if (expected == NULL || strcmp(*text, expected) != 0) {
		snprintf(path, sizeof(path), QUIRE_EXECUTABLE "-small-%s", name);
		file_write(path, *text, *bytes);
		require(false, "another %s; %s has it", name, path);
	}
	free(expected);
	free(*text);
}

static FILE *open_text(char **text, size_t *bytes)
{
	FILE *file = open_memstream(text, bytes);

	require(file != NULL, "no file in memory");
	return file;
}

Test(small_program, help_of_each_level)
{
	static const struct command *const commands[] = {&program, &first, &second, &inner};
	size_t bytes;
	char *text;
	FILE *file = open_text(&text, &bytes);

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		fprintf(file, "---- help of '%s'\n", commands[i]->name);
		command_print_help(commands[i], file);
		fprintf(file, "---- main options of '%s'\n", commands[i]->name);
		command_print_short_help(commands[i], file);
	}
	require_fixture(file, &text, &bytes, "help.txt");
}

Test(small_program, manual_page)
{
	size_t bytes;
	char *text;
	FILE *file = open_text(&text, &bytes);

	manual_print(&program, "1.2", file);
	require_fixture(file, &text, &bytes, "manual.txt");
}

Test(small_program, completions_of_each_shell)
{
	const char *shell;

	for (uint32_t i = 0; (shell = shell_word(i)) != NULL; i++) {
		char name[16], *text;
		size_t bytes;
		FILE *file = open_text(&text, &bytes);
		snprintf(name, sizeof(name), "%s.txt", shell);
		completion_print(&program, (enum shell)i, file);
		require_fixture(file, &text, &bytes, name);
	}
}
