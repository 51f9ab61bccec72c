#include "bench/options/options.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench/commands/commands.h"
#include "tests/harness/require.h"

/* How help is laid out: usages on the left, their texts from column 35 on, lines of at most 100
   columns, and every option there is. */

enum { TEXT_COLUMN = 34, WIDTH = 100 };

static const char *help_of(const struct command *command)
{
	static char text[1 << 16];
	FILE *file = fmemopen(text, sizeof(text), "w");

	require(file != NULL, "no file in memory");
	command_print_help(command, file);
	fclose(file);
	return text;
}

/* One option of each width of its usage, the last of which reach into the column of texts. */
Test(help, texts_begin_in_their_column_or_on_a_line_of_their_own)
{
	char name[64] = "";

	for (size_t bytes = 1; bytes < 45; bytes++) {
		name[bytes - 1] = 'x';
		name[bytes] = '\0';
		const struct option option = {
			.name = name, .kind = OPTION_FLAG, .help = "what it does"};
		const struct command command = {.name = "try",
			.arguments = "A",
			.summary = "tries",
			.options = &option,
			.option_count = 1};
		const char *text = help_of(&command);
		const char *line = strstr(text, "\n  --x");
		require(line != NULL, "no usage in %s", text);
		line++;
		size_t usage = strcspn(line, "\n");
		const char *what = strstr(line, "what it does\n");
		require(what != NULL, "no text in %s", text);
		/* "  --" and the name, and two blanks at least. */
		bool fits = bytes + 4 + 2 <= TEXT_COLUMN;
		const char *start = fits ? line : line + usage + 1;
		require((size_t)(what - start) == TEXT_COLUMN, "text in column %zu of\n%s",
			(size_t)(what - start), text);
	}
}

Test(help, long_texts_are_broken_between_words)
{
	const char *words =
		"one two three four five six seven eight nine ten eleven twelve thirteen "
		"fourteen fifteen sixteen seventeen eighteen nineteen twenty one two";
	const struct option option = {.name = "long", .kind = OPTION_FLAG, .help = words};
	const struct command command = {.name = "try",
		.arguments = "A",
		.summary = "tries",
		.options = &option,
		.option_count = 1};
	const char *text = help_of(&command);

	cr_assert_str_eq(text,
		"quire try A\n\ntries\n"
		"  --long                          one two three four five six seven eight nine "
		"ten "
		"eleven twelve\n"
		"                                  thirteen fourteen fifteen sixteen seventeen "
		"eighteen nineteen\n"
		"                                  twenty one two\n");
}

/* The last column is used, and no column behind it. */
Test(help, a_word_that_fits_stays_on_its_line)
{
	char words[80];

	for (int bytes = 1; bytes <= 40; bytes++) {
		snprintf(words, sizeof(words), "%.*s %.*s", 30, "aaaaaaaaaabbbbbbbbbbcccccccccc",
			bytes, "ddddddddddeeeeeeeeeeffffffffffgggggggggg");
		const struct option option = {.name = "o", .kind = OPTION_FLAG, .help = words};
		const struct command command = {.name = "try",
			.arguments = "A",
			.summary = "tries",
			.options = &option,
			.option_count = 1};
		bool is_whole = strstr(help_of(&command), words) != NULL;
		require(is_whole == (TEXT_COLUMN + 30 + 1 + bytes <= WIDTH), "%d bytes", bytes);
	}
}

static const char *word_at(uint32_t index)
{
	static const char *const words[] = {"fast", "slow", NULL};

	return words[index];
}

static const char *about_word(uint32_t index)
{
	return index == 0 ? "at once" : "later";
}

/* All that may be said behind an option's own text, in its order. */
Test(help, words_default_and_alias_follow_the_text)
{
	struct option option = {.name = "o", .kind = OPTION_TEXTS, .help = "how", .alias = "x"};
	char text[OPTION_HELP_BYTES];

	option_help(&option, text);
	cr_assert_str_eq(text, "how; also -x; may be given several times");
	option = (struct option){.name = "o",
		.kind = OPTION_WORD,
		.help = "",
		.word_at = word_at,
		.about_word = about_word,
		.initial = "fast",
		.alias = "x"};
	option_help(&option, text);
	cr_assert_str_eq(text, "fast: at once; slow: later; default fast; also -x");
	option.initial = "";
	option.about_word = NULL;
	option.help = "how";
	option_help(&option, text);
	cr_assert_str_eq(text, "how; also -x");
}

static void require_options(const struct command *command, const char *text)
{
	struct option option;

	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		char usage[OPTION_USAGE_BYTES + 8], help[OPTION_HELP_BYTES];
		if (option.kind == OPTION_HEADING) {
			require(strstr(text, option.help) != NULL, "no '%s'", option.help);
			continue;
		}
		snprintf(usage, sizeof(usage), "\n  --%s", option.name);
		require(strstr(text, usage) != NULL, "%s: no --%s", command->name, option.name);
		option_help(&option, help);
		help[strcspn(help, " ")] = '\0';
		require(strstr(text, help) != NULL, "%s: no text of --%s", command->name,
			option.name);
	}
}

static void require_help(const struct command *command)
{
	const char *text = help_of(command);

	if (command->members == NULL) {
		require_options(command, text);
	}
	for (uint32_t i = 0; command->members != NULL && command->members[i] != NULL; i++) {
		require(strstr(text, command->members[i]->title) != NULL, "no '%s'",
			command->members[i]->title);
	}
	for (const char *line = text; *line != '\0';) {
		size_t bytes = strcspn(line, "\n");
		require(bytes <= WIDTH, "%s: %zu columns: %.60s", command->name, bytes, line);
		line += bytes + (line[bytes] == '\n');
	}
}

/* Of the program, its commands, and theirs. */
Test(help, names_every_option_in_lines_that_fit)
{
	require_help(&command_quire);
	for (uint32_t i = 0; command_quire.members[i] != NULL; i++) {
		const struct command *command = command_quire.members[i];
		require_help(command);
		for (uint32_t j = 0; command->members != NULL && command->members[j] != NULL; j++) {
			require_help(command->members[j]);
		}
	}
}
