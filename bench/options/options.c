#include "bench/options/options.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 64 };

/* Edit distance of two option names, to suggest a correction. */
static uint32_t name_distance(const char *a, const char *b)
{
	uint32_t row[NAME_BYTES_MAX + 1];
	size_t a_bytes = strlen(a);
	size_t b_bytes = strlen(b);

	if (a_bytes > NAME_BYTES_MAX || b_bytes > NAME_BYTES_MAX) {
		return UINT32_MAX;
	}
	for (size_t j = 0; j <= b_bytes; j++) {
		row[j] = (uint32_t)j;
	}
	for (size_t i = 1; i <= a_bytes; i++) {
		uint32_t diagonal = row[0];
		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			uint32_t change = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = u32_min(change, u32_min(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_bytes];
}

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

/* False: the command has no option of that name. */
static bool find_option(
	const struct command *command, const char *name, uint32_t *index, struct option *out)
{
	for (uint32_t i = 0; command_option(command, i, out); i++) {
		if (out->kind != OPTION_HEADING && strcmp(out->name, name) == 0) {
			*index = i;
			return true;
		}
	}
	return false;
}

static bool find_alias(
	const struct command *command, const char *alias, uint32_t *index, struct option *out)
{
	for (uint32_t i = 0; command_option(command, i, out); i++) {
		if (out->alias != NULL && strcmp(out->alias, alias) == 0) {
			*index = i;
			return true;
		}
	}
	return false;
}

static enum status unknown_option(
	const struct command *command, const char *name, bool is_alias, struct error *error)
{
	const char *nearest = NULL;
	uint32_t nearest_distance = 4; /* more than three edits are no plausible typo */
	struct option option;

	if (is_alias) {
		return error_set(error, STATUS_USAGE,
			"unknown option -%s; options are written in full, as --name", name);
	}
	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (option.kind == OPTION_HEADING) {
			continue;
		}
		uint32_t distance = name_distance(name, option.name);
		bool is_like = distance <= strlen(option.name) / 2; /* at most half of the name
								       differs */
		if (is_like && distance < nearest_distance) {
			nearest = option.name;
			nearest_distance = distance;
		}
	}
	if (nearest != NULL) {
		return error_set(error, STATUS_USAGE, "unknown option --%s; did you mean --%s?",
			name, nearest);
	}
	return error_set(error, STATUS_USAGE, "unknown option --%s", name);
}

/* ---- values ---- */

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

static bool read_number(const struct option *option, uint64_t *out, const char *text)
{
	uint64_t value;
	bool is_number = option->kind == OPTION_COUNT ? text_to_u64(text, &value)
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

enum status command_set(
	struct command_line *line, const char *name, const char *text, struct error *error)
{
	struct option option;
	uint32_t index;

	check(find_option(line->command, name, &index, &option));
	return option_set(&option, line->values, text, error);
}

static void set_default(const struct option *option, void *values)
{
	struct error error = {0};

	if (option->initial != NULL && option->initial[0] != '\0') {
		check(option_set(option, values, option->initial, &error) == STATUS_OK);
	} else if (option->kind == OPTION_TEXT) {
		*(const char **)((char *)values + option->offset) = NULL;
	} else if (option->kind == OPTION_COUNT || option->kind == OPTION_MILLIONTHS) {
		*(uint64_t *)((char *)values + option->offset) = 0;
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

/* ---- parsing ---- */

/* Parses one option at argv[*i]; moves *i to its last argument. Bit i of *given: row i was seen. */
static enum status parse_option(
	const struct command_line *line, int *i, uint64_t *given, struct error *error)
{
	bool is_alias = line->argv[*i][1] != '-';
	const char *text = line->argv[*i] + (is_alias ? 1 : 2);
	const char *equals = strchr(text, '=');
	size_t name_bytes = equals == NULL ? strlen(text) : (size_t)(equals - text);
	char name[NAME_BYTES_MAX + 1];
	struct option option;
	uint32_t index;

	snprintf(name, sizeof(name), "%.*s", (int)u64_min(name_bytes, NAME_BYTES_MAX), text);
	if (!(is_alias ? find_alias : find_option)(line->command, name, &index, &option)) {
		return unknown_option(line->command, name, is_alias, error);
	}
	check(index < 64);
	uint64_t bit = UINT64_C(1) << index;
	if (*given & bit) {
		return error_set(error, STATUS_USAGE, "--%s is given twice", option.name);
	}
	*given |= bit;
	if (option.given_offset > 0) {
		*(bool *)((char *)line->values + option.given_offset) = true;
	}
	if (option.kind == OPTION_FLAG) {
		if (equals != NULL) {
			return error_set(error, STATUS_USAGE, "--%s takes no value", option.name);
		}
		*(bool *)((char *)line->values + option.offset) = true;
		return STATUS_OK;
	}
	if (equals != NULL) {
		return option_set(&option, line->values, equals + 1, error);
	}
	if (*i + 1 >= line->argc) {
		char usage[OPTION_USAGE_BYTES];
		option_usage(&option, usage);
		return error_set(error, STATUS_USAGE, "--%s: expected %s behind it", option.name,
			strchr(usage, ' ') + 1);
	}
	*i += 1;
	return option_set(&option, line->values, line->argv[*i], error);
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			return true;
		}
	}
	return false;
}

enum status command_parse(struct command_line *line, bool *wants_help, struct error *error)
{
	const struct command *command = line->command;
	uint64_t given = 0;
	bool options_ended = false;

	check(command->positional_maximum <= POSITIONALS_MAX);
	line->positional_count = 0;
	*wants_help = asks_for_help(line->argc, line->argv);
	if (*wants_help) {
		return STATUS_OK;
	}
	for (int i = 1; i < line->argc; i++) {
		const char *text = line->argv[i];
		if (!options_ended && strcmp(text, "--") == 0) {
			options_ended = true;
		} else if (!options_ended && text[0] == '-' && text[1] != '\0') {
			TRY(parse_option(line, &i, &given, error));
		} else if (line->positional_count == command->positional_maximum) {
			return error_set(error, STATUS_USAGE, "one argument too many: '%s'", text);
		} else {
			line->positionals[line->positional_count++] = text;
		}
	}
	if (line->positional_count < command->positional_minimum) {
		return error_set(error, STATUS_USAGE, "expected: quire %s %s", command->name,
			command->arguments);
	}
	return STATUS_OK;
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
		fprintf(stderr, "quire%s%s: unknown command '%s'; quire%s%s --help lists them\n",
			blank, group->name, argv[1], blank, group->name);
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
	line.values = memory_take(1, command->value_bytes + 1);
	command_defaults(command, line.values);
	enum status status = command_parse(&line, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_print_help(command, stdout);
	} else if (status == STATUS_OK) {
		status = command->run(&line, &error);
	}
	free(line.values);
	return status == STATUS_OK ? 0 : command_fail(command, &error);
}
