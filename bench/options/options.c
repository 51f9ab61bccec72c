#include "bench/options/options.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/text.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/ranks/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

const struct option *option_table_find(const struct option_table *table, const char *name)
{
	for (uint32_t i = 0; table != NULL && i < table->count; i++) {
		if (strcmp(table->rows[i].name, name) == 0) {
			return &table->rows[i];
		}
	}
	return NULL;
}

/* A row of the table with a command's overrides. */
static struct option complete(
	const struct command *command, const struct option *shared, const struct option *own)
{
	struct option option = *shared;

	option.offset += command->table_offset;
	option.given_offset += command->table_offset;
	option.argument = own->argument != NULL ? own->argument : option.argument;
	option.initial = own->initial != NULL ? own->initial : option.initial;
	option.none = own->none != NULL ? own->none : option.none;
	option.minimum = own->minimum != 0 ? own->minimum : option.minimum;
	option.maximum = own->maximum != 0 ? own->maximum : option.maximum;
	if (own->help != NULL) {
		option.help = own->help;
		option.about_word = NULL;
	}
	return option;
}

/* The table's row `index` of a group, counted from 0; NULL past the last. */
static const struct option *group_row(
	const struct option_table *table, const char *group, uint32_t *index)
{
	for (uint32_t i = 0; i < table->count; i++) {
		const char *own = table->rows[i].group;
		if (own != NULL && strcmp(own, group) == 0 && (*index)-- == 0) {
			return &table->rows[i];
		}
	}
	return NULL;
}

bool command_option(const struct command *command, uint32_t index, struct option *out)
{
	for (uint32_t i = 0; i < command->option_count; i++) {
		const struct option *own = &command->options[i];
		if (own->kind == OPTION_GROUP) {
			const struct option *row = group_row(command->table, own->group, &index);
			if (row != NULL) {
				*out = complete(command, row, own);
				return true;
			}
		} else if (index-- == 0) {
			const struct option *row = own;
			if (own->kind == OPTION_FROM_TABLE) {
				row = option_table_find(command->table, own->name);
				check(row != NULL);
			}
			*out = row == own ? *own : complete(command, row, own);
			return true;
		}
	}
	return false;
}

/* ---- values ---- */

bool option_takes_folder(const struct option *option)
{
	return option->kind == OPTION_TEXT && strstr(option->argument, "DIR") != NULL;
}

bool option_takes_file(const struct option *option)
{
	static const char *const names[] = {"FILE", "TRACE", "TABLE"};

	for (uint32_t i = 0; i < 3; i++) {
		if (option->kind == OPTION_TEXT && strstr(option->argument, names[i]) != NULL) {
			return true;
		}
	}
	return false;
}

bool option_fits(const struct option *option, uint64_t value)
{
	check(option->kind == OPTION_COUNT || option->kind == OPTION_MILLIONTHS);
	return value >= option->minimum && value <= option->maximum;
}

void option_expected(const struct option *option, char *text)
{
	const uint64_t million = 1000000;
	unsigned long long low = option->minimum, high = option->maximum;
	size_t used = 0;

	switch (option->kind) {
	case OPTION_COUNT:
		snprintf(text, OPTION_EXPECTED_BYTES, "an integer from %llu to %llu", low, high);
		break;
	case OPTION_MILLIONTHS:
		snprintf(text, OPTION_EXPECTED_BYTES,
			"a decimal of at most 6 places from %llu.%06llu to %llu.%06llu",
			low / million, low % million, high / million, high % million);
		if (option->unit != NULL) {
			used = strlen(text);
			snprintf(text + used, OPTION_EXPECTED_BYTES - used,
				" %s, or with a unit, such as 500ms, 2s, 10m or 1h", option->unit);
		}
		break;
	case OPTION_WORD:
		for (uint32_t i = 0; option->word_at(i) != NULL; i++) {
			used += (size_t)snprintf(text + used, OPTION_EXPECTED_BYTES - used, "%s%s",
				i == 0 ? "one of " : ", ", option->word_at(i));
			check(used < OPTION_EXPECTED_BYTES);
		}
		break;
	case OPTION_FLAG:
		snprintf(text, OPTION_EXPECTED_BYTES, "0 or 1");
		break;
	default:
		snprintf(text, OPTION_EXPECTED_BYTES, "%s", option->argument);
	}
}

/* A decimal behind which a unit may stand, in millionths of the option's unit. False: no such text,
   or a time between two millionths. */
static bool read_time(const struct option *option, uint64_t *out, const char *text)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"min", 60000000}, {"m", 60000000},
		{"h", 3600000000}};
	size_t digits = strspn(text, "0123456789.");
	const char *unit = text[digits] == '\0' ? option->unit : text + digits;
	uint64_t us = 0, own_us = 0, number;
	char decimal[NUMBER_TEXT_BYTES];

	for (uint32_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		us = strcmp(units[i].name, unit) == 0 ? units[i].us : us;
		own_us = strcmp(units[i].name, option->unit) == 0 ? units[i].us : own_us;
	}
	snprintf(decimal, sizeof(decimal), "%.*s", (int)digits, text);
	if (us == 0 || digits >= sizeof(decimal) || !text_to_millionths(decimal, &number)) {
		return false;
	}
	u128 scaled = (u128)number * us;
	if (scaled % own_us != 0 || scaled / own_us > UINT64_MAX) {
		return false;
	}
	*out = (uint64_t)(scaled / own_us);
	return true;
}

static bool read_number(const struct option *option, uint64_t *out, const char *text)
{
	uint64_t value;
	bool is_number = option->kind == OPTION_COUNT ? text_to_u64(text, &value)
			 : option->unit != NULL	      ? read_time(option, &value, text)
						      : text_to_millionths(text, &value);

	if (!is_number || !option_fits(option, value)) {
		return false;
	}
	*out = value;
	return true;
}

static bool read_word(const struct option *option, uint32_t *out, const char *text)
{
	for (uint32_t i = 0; option->word_at(i) != NULL; i++) {
		if (strcmp(option->word_at(i), text) == 0) {
			*out = i;
			return true;
		}
	}
	return false;
}

static enum status add_text(const struct option *option, struct option_texts *texts,
	const char *text, struct error *error)
{
	if (*text == '\0') {
		return error_set(error, STATUS_USAGE, "--%s: found an empty text, expected %s",
			option->name, option->argument);
	}
	if (texts->count == OPTION_TEXTS_MAX) {
		return error_set(error, STATUS_USAGE, "--%s is given more than %d times",
			option->name, OPTION_TEXTS_MAX);
	}
	texts->list[texts->count++] = text;
	return STATUS_OK;
}

enum status option_set(
	const struct option *option, void *values, const char *text, struct error *error)
{
	void *value = (char *)values + option->offset;
	char expected[OPTION_EXPECTED_BYTES];
	bool is_good = false;

	switch (option->kind) {
	case OPTION_COUNT:
	case OPTION_MILLIONTHS:
		is_good = read_number(option, value, text);
		break;
	case OPTION_WORD:
		is_good = read_word(option, value, text);
		break;
	case OPTION_TEXT:
		is_good = *text != '\0';
		if (is_good) {
			bool is_none = option->none != NULL && strcmp(text, option->none) == 0;
			*(const char **)value = is_none ? NULL : text;
		}
		break;
	case OPTION_TEXTS:
		return add_text(option, value, text, error);
	case OPTION_FLAG:
	case OPTION_HEADING:
	case OPTION_FROM_TABLE:
	case OPTION_GROUP:
		check_unreachable("an option that takes no value");
	}
	if (is_good) {
		return STATUS_OK;
	}
	option_expected(option, expected);
	if (option->kind == OPTION_TEXT) {
		return error_set(error, STATUS_USAGE, "--%s: found an empty text, expected %s",
			option->name, expected);
	}
	return error_set(
		error, STATUS_USAGE, "--%s: found '%s', expected %s", option->name, text, expected);
}

static void set_default(const struct option *option, void *values)
{
	struct error error = {0};

	if (option->initial != NULL && option->initial[0] != '\0') {
		check(option_set(option, values, option->initial, &error) == STATUS_OK);
	} else if (option->kind == OPTION_TEXT) {
		*(const char **)((char *)values + option->offset) = NULL;
	} else if (option->kind == OPTION_COUNT || option->kind == OPTION_MILLIONTHS) {
		*(uint64_t *)((char *)values + option->offset) = option->absent;
	}
}

void option_table_defaults(const struct option_table *table, void *values)
{
	for (uint32_t i = 0; i < table->count; i++) {
		set_default(&table->rows[i], values);
	}
}

void command_defaults(const struct command *command, void *values)
{
	if (command->value_bytes > 0) {
		memset(values, 0, command->value_bytes);
	}
	if (command->table != NULL) {
		option_table_defaults(command->table, (char *)values + command->table_offset);
	}
	struct option option;
	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		set_default(&option, values);
	}
}

/* ---- running ---- */

int command_fail(const struct command *command, const struct error *error)
{
	if (error->status == STATUS_USAGE) {
		fprintf(stderr, "quire %s: %s (see quire %s --help)\n", command->name, error->text,
			command->name);
	} else if (error->text[0] != '\0') {
		fprintf(stderr, "quire %s: %s\n", command->name, error->text);
	}
	return status_exit_code(error->status);
}

const char *command_word(const struct command *command)
{
	const char *blank = strrchr(command->name, ' ');

	return blank == NULL ? command->name : blank + 1;
}

const struct command *command_find(const struct command *group, const char *word)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		if (strcmp(command_word(group->members[i]), word) == 0) {
			return group->members[i];
		}
	}
	return NULL;
}

const char *command_nearest(const struct command *group, const char *word)
{
	const char *nearest = NULL;
	uint32_t edits = TEXT_EDITS_NONE;

	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		const char *name = command_word(group->members[i]);
		if (text_is_meant(word, name, &edits)) {
			nearest = name;
		}
	}
	return nearest;
}

static int run_member(const struct command *group, int argc, char **argv)
{
	const char *blank = group->name[0] == '\0' ? "" : " ";

	if (argc < 2) {
		command_print_help(group, stderr);
		return 2;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		command_print_help(group, stdout);
		return 0;
	}
	const struct command *member = command_find(group, argv[1]);
	if (member == NULL) {
		const char *nearest = command_nearest(group, argv[1]);
		fprintf(stderr,
			"quire%s%s: unknown command '%s'; %s%s%squire%s%s --help lists them\n",
			blank, group->name, argv[1], nearest == NULL ? "" : "did you mean ",
			nearest == NULL ? "" : nearest, nearest == NULL ? "" : "? ", blank,
			group->name);
		return 2;
	}
	return member->members != NULL ? run_member(member, argc - 1, argv + 1)
				       : command_run(member, argc - 1, argv + 1);
}

int command_run(const struct command *command, int argc, char **argv)
{
	struct command_line line = {.command = command, .argc = argc, .argv = argv};
	struct error error = {0};
	bool wants_help;

	if (command->members != NULL) {
		return run_member(command, argc, argv);
	}
	if (!command->takes_processes && rank_launch_find().rank != 0) {
		return 0;
	}
	line.values = memory_take(1, command->value_bytes + 1);
	command_defaults(command, line.values);
	enum status status = command_parse(&line, &wants_help, &error);
	if (status != STATUS_OK && command->takes_processes) {
		status = rank_launch_join(0, &error); /* one process of mpirun says it */
	}
	if (status == STATUS_OK && wants_help) {
		(line.wants_all_help ? command_print_help : command_print_short_help)(
			command, stdout);
	} else if (status == STATUS_OK) {
		status = command->run(&line, &error);
	}
	free(line.values);
	return status == STATUS_OK ? 0 : command_fail(command, &error);
}
