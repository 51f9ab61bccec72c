#include "bench/commands/commands.h"
#include "bench/commands/trace/trace_commands.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "bench/replay/replay_config.h"
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
