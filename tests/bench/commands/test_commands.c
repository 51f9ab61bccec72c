#include "bench/commands/commands.h"
#include "bench/commands/trace/trace_commands.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/replay/replay_config.h"
#include "engine/base/number.h"
#include "tests/harness/require.h"

/* What holds for every command of the table, and for every row of the options of a run. */

enum { COMMANDS_MAX = 64 };

/* All commands but groups; returns how many. */
static uint32_t collect(const struct command *group, const struct command **out, uint32_t count)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		if (group->members[i]->members != NULL) {
			count = collect(group->members[i], out, count);
		} else {
			require(count < COMMANDS_MAX, "too many commands");
			out[count++] = group->members[i];
		}
	}
	return count;
}

static void require_name(const char *name)
{
	require(name != NULL && islower((unsigned char)name[0]), "the name '%s'", name);
	for (const char *c = name; *c != '\0'; c++) {
		require(islower((unsigned char)*c) || *c == '-' || isdigit((unsigned char)*c),
			"the name '%s'", name);
	}
}

static void require_row(const struct command *command, const struct option *option)
{
	const char *name = option->name;

	require(option->help != NULL && option->help[0] != '\0', "%s: --%s has no help",
		command->name, name);
	require(strstr(option->help, "(default)") == NULL, "--%s: the default is typed twice",
		name);
	switch (option->kind) {
	case OPTION_COUNT:
	case OPTION_MILLIONTHS:
		require(option->minimum < option->maximum, "--%s has no range", name);
		require(option->argument != NULL, "--%s has no name for its value", name);
		break;
	case OPTION_WORD:
		require(option->word_at(0) != NULL, "--%s has no words", name);
		break;
	case OPTION_TEXT:
	case OPTION_TEXTS:
		require(option->argument != NULL, "--%s has no name for its value", name);
		break;
	case OPTION_FLAG:
		require(option->argument == NULL && option->initial == NULL, "the flag --%s", name);
		break;
	default:
		require(false, "--%s is of no kind", name);
	}
}

Test(commands, have_complete_rows_with_names_of_their_own)
{
	const struct command *commands[COMMANDS_MAX];
	uint32_t count = collect(&command_quire, commands, 0);

	require(count >= 12, "%u commands", count);
	for (uint32_t i = 0; i < count; i++) {
		const struct command *command = commands[i];
		require(command->title != NULL && command->arguments != NULL &&
				command->summary != NULL && command->run != NULL,
			"%s is not complete", command->name);
		struct option option, other;
		for (uint32_t j = 0; command_option(command, j, &option); j++) {
			if (option.kind == OPTION_HEADING) {
				continue;
			}
			require_name(option.name);
			require_row(command, &option);
			require(option.offset < command->value_bytes, "%s: --%s lies outside",
				command->name, option.name);
			for (uint32_t k = 0; k < j; k++) {
				require(command_option(command, k, &other), "no row %u", k);
				require(other.name == NULL || strcmp(other.name, option.name) != 0,
					"%s has two --%s", command->name, option.name);
			}
		}
	}
}

/* command_defaults() stops the program at a default that is out of its own range. */
Test(commands, have_defaults_in_their_ranges)
{
	const struct command *commands[COMMANDS_MAX];
	uint32_t count = collect(&command_quire, commands, 0);

	for (uint32_t i = 0; i < count; i++) {
		void *values = malloc(commands[i]->value_bytes + 1);
		require(values != NULL, "out of memory");
		command_defaults(commands[i], values);
		free(values);
	}
}

/* An option of a run that replay does not take would be a field that cannot be set. */
Test(commands, replay_takes_every_row_of_the_table)
{
	for (uint32_t i = 0; i < replay_options.count; i++) {
		uint32_t found = 0;
		struct option option;
		for (uint32_t j = 0; command_option(&command_replay, j, &option); j++) {
			found += option.name != NULL &&
				 strcmp(option.name, replay_options.rows[i].name) == 0;
		}
		require(found == 1, "--%s is there %u times", replay_options.rows[i].name, found);
	}
}

Test(commands, are_found_by_their_last_word)
{
	const struct command *trace = command_find(&command_quire, "trace");

	require(trace == &command_trace, "no trace");
	require(command_find(trace, "make") == &command_trace_make, "no trace make");
	require(command_find(&command_quire, "make") == NULL, "make is not of the first level");
	require(command_find(&command_quire, "trac") == NULL, "a part is no name");
}

/* ---- values of every option ---- */

struct trial {
	const struct command *command;
	struct option option;
	unsigned char *defaults, *values; /* (value_bytes + 1) */
};

/* Parses arguments behind as many positionals as the command wants at least. */
static enum status parse_arguments(struct trial *trial, const char *first, const char *second)
{
	const char *argv[POSITIONALS_MAX + 3] = {"command"};
	struct command_line line = {.command = trial->command,
		.argc = 1,
		.argv = (char **)argv,
		.values = trial->values};
	struct error error = {0};
	bool wants_help;

	for (uint32_t i = 0; i < trial->command->positional_minimum; i++) {
		argv[line.argc++] = "argument";
	}
	argv[line.argc++] = first;
	if (second != NULL) {
		argv[line.argc++] = second;
	}
	command_defaults(trial->command, trial->values);
	return command_parse(&line, &wants_help, &error);
}

/* Demands that the option has a value of so many bytes, and everything else its default. */
static void require_set(
	const struct trial *trial, const void *value, size_t bytes, const char *text)
{
	const struct option *option = &trial->option;
	unsigned char *expected = malloc(trial->command->value_bytes + 1);

	require(expected != NULL, "out of memory");
	memcpy(expected, trial->defaults, trial->command->value_bytes);
	memcpy(expected + option->offset, value, bytes);
	if (option->given_offset > 0) {
		expected[option->given_offset] = true;
	}
	require(memcmp(expected, trial->values, trial->command->value_bytes) == 0,
		"%s --%s '%s' sets another value, or another option", trial->command->name,
		option->name, text);
	free(expected);
}

/* Sets a number in both spellings, and by the alias; it is taken where it is in the range. */
static void try_number(struct trial *trial, const char *text, u128 value, bool is_good)
{
	const struct option *option = &trial->option;
	char joined[256], name[128];
	uint64_t number = (uint64_t)value;

	is_good = is_good && value >= option->minimum && value <= option->maximum;
	for (uint32_t i = 0; i < (option->alias == NULL ? 2 : 4); i++) {
		snprintf(name, sizeof(name), "%s%s", i < 2 ? "--" : "-",
			i < 2 ? option->name : option->alias);
		snprintf(joined, sizeof(joined), "%s=%s", name, text);
		enum status status = i % 2 == 0 ? parse_arguments(trial, joined, NULL)
						: parse_arguments(trial, name, text);
		require(status == (is_good ? STATUS_OK : STATUS_USAGE), "%s %s '%s' is %s",
			trial->command->name, name, text, is_good ? "refused" : "taken");
		if (is_good) {
			require_set(trial, &number, sizeof(number), text);
		}
	}
}

/* A time, or one just below it, in each unit in which that is a decimal of six places. */
static void try_units(struct trial *trial, u128 value)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"min", 60000000},
		{"h", 3600000000}};
	const uint64_t own_us = strcmp(trial->option.unit, "ms") == 0 ? 1000 : 1000000;
	char text[NUMBER_TEXT_BYTES + 8];

	require(own_us == 1000 || strcmp(trial->option.unit, "s") == 0, "another unit");
	for (uint32_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		u128 scaled = value * own_us / units[i].us;
		u128 whole = scaled * units[i].us / own_us;
		if (scaled <= UINT64_MAX && whole * own_us == scaled * units[i].us) {
			text[decimal_text(text, scaled, 6)] = '\0';
			strcat(text, units[i].name);
			try_number(trial, text, whole, true);
		}
	}
	size_t used = decimal_text(text, value, 6);
	text[used] = '\0';
	strcat(text, "d");
	try_number(trial, text, value, false);
}

/* The ends of the range, and what lies just outside and just inside of them. */
static void try_numbers(struct trial *trial)
{
	const struct option *option = &trial->option;
	const u128 low = option->minimum, high = option->maximum;
	const u128 values[] = {low, high, low + 1, high - 1, high + 1, low == 0 ? 0 : low - 1, 0,
		(low + high) / 2, (u128)UINT64_MAX + 1};
	const bool is_count = option->kind == OPTION_COUNT;
	char text[NUMBER_TEXT_BYTES + 2];

	for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		text[decimal_text(text, values[i], is_count ? 0 : 6)] = '\0';
		try_number(trial, text, values[i], true);
		strcat(text, is_count ? ".0" : "0");
		try_number(trial, text, values[i], false);
		if (option->unit != NULL) {
			try_units(trial, values[i]);
		}
	}
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1e0", "0x1", "one", "nan"};
	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		try_number(trial, bad[i], 0, false);
	}
}

static void try_words(struct trial *trial)
{
	char joined[256];

	for (uint32_t i = 0; trial->option.word_at(i) != NULL; i++) {
		const char *word = trial->option.word_at(i);
		snprintf(joined, sizeof(joined), "--%s=%s", trial->option.name, word);
		require(parse_arguments(trial, joined, NULL) == STATUS_OK, "%s", joined);
		require_set(trial, &i, sizeof(i), word);
		strcat(joined, "x");
		require(parse_arguments(trial, joined, NULL) == STATUS_USAGE, "%s", joined);
	}
}

static void try_texts(struct trial *trial)
{
	const char *none = trial->option.none;
	const char *const texts[] = {"some text", none == NULL ? "0" : none};
	char name[128];

	snprintf(name, sizeof(name), "--%s", trial->option.name);
	for (uint32_t i = 0; i < 2; i++) {
		bool is_none = none != NULL && strcmp(none, texts[i]) == 0 && none[0] != '\0';
		const char *expected = is_none ? NULL : texts[i];
		if (texts[i][0] != '\0') {
			require(parse_arguments(trial, name, texts[i]) == STATUS_OK, "%s", name);
			require_set(trial, &expected, sizeof(expected), texts[i]);
		}
	}
	require(parse_arguments(trial, name, "") == STATUS_USAGE, "%s takes nothing", name);
}

static void try_flag(struct trial *trial)
{
	const bool is_set = true;
	char name[128];

	snprintf(name, sizeof(name), "--%s", trial->option.name);
	require(parse_arguments(trial, name, NULL) == STATUS_OK, "%s", name);
	require_set(trial, &is_set, sizeof(is_set), "");
	strcat(name, "=1");
	require(parse_arguments(trial, name, NULL) == STATUS_USAGE, "%s", name);
}

/* Each option of each command, given alone, takes its whole range and nothing else, in every
   spelling and unit, and changes no other option. */
Test(commands, take_the_range_of_each_option_alone, .timeout = 120)
{
	const struct command *commands[COMMANDS_MAX];
	uint32_t count = collect(&command_quire, commands, 0);

	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = commands[i]->value_bytes + 1;
		struct trial trial = {.command = commands[i],
			.defaults = calloc(1, bytes),
			.values = calloc(1, bytes)};
		require(trial.defaults != NULL && trial.values != NULL, "out of memory");
		command_defaults(commands[i], trial.defaults);
		for (uint32_t j = 0; command_option(commands[i], j, &trial.option); j++) {
			switch (trial.option.kind) {
			case OPTION_COUNT:
			case OPTION_MILLIONTHS:
				try_numbers(&trial);
				break;
			case OPTION_WORD:
				try_words(&trial);
				break;
			case OPTION_TEXT:
				try_texts(&trial);
				break;
			case OPTION_FLAG:
				try_flag(&trial);
				break;
			default:
				break;
			}
		}
		free(trial.defaults);
		free(trial.values);
	}
}

static size_t bytes_of(enum option_kind kind)
{
	return kind == OPTION_FLAG    ? sizeof(bool)
	       : kind == OPTION_WORD  ? sizeof(uint32_t)
	       : kind == OPTION_TEXT  ? sizeof(const char *)
	       : kind == OPTION_TEXTS ? sizeof(struct option_texts)
				      : sizeof(uint64_t);
}

/* Whether two values, of options that are not the same, have a byte in common. */
static bool overlap(const struct option *a, const struct option *b)
{
	bool share_values = a->offset < b->offset + bytes_of(b->kind) &&
			    b->offset < a->offset + bytes_of(a->kind);
	bool has_mark =
		a->given_offset >= b->offset && a->given_offset < b->offset + bytes_of(b->kind);
	bool share_marks = a->given_offset == b->given_offset;

	return share_values || (a->given_offset > 0 && (has_mark || share_marks));
}

/* Each value has a place of its own in the command's struct, and so has what says that it was
   given. */
Test(commands, keep_the_values_of_options_apart)
{
	const struct command *commands[COMMANDS_MAX];
	uint32_t count = collect(&command_quire, commands, 0);
	struct option option, other;

	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = 0; command_option(commands[i], j, &option); j++) {
			for (uint32_t k = 0; command_option(commands[i], k, &other); k++) {
				require(j == k || option.kind == OPTION_HEADING ||
						other.kind == OPTION_HEADING ||
						!overlap(&option, &other),
					"%s: --%s and --%s share a value", commands[i]->name,
					option.name, other.name);
			}
			if (option.kind != OPTION_HEADING) {
				size_t bytes = bytes_of(option.kind);
				require(option.offset + bytes <= commands[i]->value_bytes &&
						option.offset % (bytes < 8 ? bytes : 8) == 0,
					"%s: --%s is not in its place", commands[i]->name,
					option.name);
			}
		}
	}
}
