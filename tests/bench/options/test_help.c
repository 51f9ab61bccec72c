#include "bench/options/options.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/commands.h"
#include "engine/base/text.h"
#include "tests/harness/property.h"
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

/* ---- the layout, naively ---- */

/* A word goes to a line of its own unless it fits behind those before it. */
static void lay_out(struct text *out, const char *text)
{
	char *words = strdup(text);
	size_t column = TEXT_COLUMN;
	char *rest = NULL;

	for (char *word = strtok_r(words, " ", &rest); word != NULL;
		word = strtok_r(NULL, " ", &rest)) {
		size_t bytes = strlen(word);
		bool is_first = word == words;
		bool fits = column + 1 + bytes <= WIDTH;
		if (!is_first && !fits) {
			text_format(out, "\n%*s", TEXT_COLUMN, "");
			column = TEXT_COLUMN;
		} else if (!is_first) {
			text_add(out, " ");
			column++;
		}
		text_add(out, word);
		column += bytes;
	}
	text_add(out, "\n");
	free(words);
}

static void lay_out_option(struct text *out, const struct option *option)
{
	char usage[OPTION_USAGE_BYTES], help[OPTION_HELP_BYTES];

	if (option->kind == OPTION_HEADING) {
		text_format(out, "\n%s\n", option->help);
		return;
	}
	option_usage(option, usage);
	option_help(option, help);
	if (2 + strlen(usage) + 2 <= TEXT_COLUMN) {
		text_format(out, "  %s%*s", usage, (int)(TEXT_COLUMN - 2 - strlen(usage)), "");
	} else {
		text_format(out, "  %s\n%*s", usage, TEXT_COLUMN, "");
	}
	lay_out(out, help);
}

/* Words as long as a line of the column and around it, and short ones. */
static void draw_words(struct prop *prop, char *text, size_t size, uint32_t count)
{
	static const uint32_t lengths[] = {1, 2, 3, 5, 7, 11, 20, 30, 31, 32, 33, 64, 65, 66, 67};
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bytes = lengths[prop_below(prop, prop_chance(prop, 1, 3) ? 15 : 7)];
		if (used + bytes + 2 > size) {
			return;
		}
		used += (size_t)snprintf(text + used, size - used, "%s", i == 0 ? "" : " ");
		memset(text + used, 'a' + (char)(i % 26), bytes);
		used += bytes;
		text[used] = '\0';
	}
}

enum { DRAWN = 6, DRAWN_BYTES = 400 };

static void body_layout(struct prop *prop, const void *context)
{
	char names[DRAWN][DRAWN_BYTES], helps[DRAWN][DRAWN_BYTES];
	struct option options[DRAWN] = {{0}};
	const struct command command = {.name = "try",
		.arguments = "A",
		.summary = "tries",
		.options = options,
		.option_count = prop_range(prop, 1, DRAWN)};
	struct text expected = {0};

	(void)context;
	text_add(&expected, "quire try A\n\ntries\n");
	for (uint32_t i = 0; i < command.option_count; i++) {
		draw_words(prop, names[i], 66, 1);
		draw_words(prop, helps[i], DRAWN_BYTES, prop_range(prop, 1, 20));
		options[i] = (struct option){.name = names[i],
			.kind = prop_chance(prop, 1, 2) ? OPTION_TEXT : OPTION_FLAG,
			.argument = "VALUE",
			.initial = prop_chance(prop, 1, 3) ? "seven" : NULL,
			.alias = prop_chance(prop, 1, 3) ? "s" : NULL,
			.help = helps[i]};
		if (prop_chance(prop, 1, 6)) {
			options[i] = (struct option){.kind = OPTION_HEADING, .help = "Some"};
		}
		prop_log(prop, "--%s: %s", names[i], helps[i]);
		lay_out_option(&expected, &options[i]);
	}
	const char *found = help_of(&command);
	require(strcmp(found, expected.bytes) == 0, "found\n%s\nexpected\n%s", found,
		expected.bytes);
	text_deinit(&expected);
}

/* Lines are filled as far as they go. */
Test(help, drawn_options_are_laid_out_as_by_hand)
{
	const struct prop_options options = {
		.name = "layout of help", .body = body_layout, .trials = 500};

	cr_assert(prop_holds(&options));
}

/* ---- the program's own ---- */

static void require_options(const struct command *command, const char *text)
{
	struct option option;

	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		struct text block = {0};
		char help[OPTION_HELP_BYTES] = "";
		if (option.kind != OPTION_HEADING) {
			option_help(&option, help);
		}
		require(strlen(help) + 1 < sizeof(help), "--%s: cut off", option.name);
		lay_out_option(&block, &option);
		require(strstr(text, block.bytes) != NULL, "%s: not there as\n%s", command->name,
			block.bytes);
		text_deinit(&block);
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
