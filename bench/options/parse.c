#include "bench/options/options.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = TEXT_NAME_BYTES_MAX, OPTIONS_MAX = 256 };

/* ---- finding ---- */

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

bool command_has_option(const struct command *command, const char *name)
{
	struct option option;
	uint32_t index;

	return find_option(command, name, &index, &option);
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

/* The synonym of this name that takes the value; NULL: none. value: NULL where there is none. */
static const struct option_synonym *find_synonym(
	const struct command *command, const char *name, const char *value)
{
	static const struct option_synonym none = {.name = NULL};
	bool has_some = command->table != NULL && command->table->synonyms != NULL;
	const struct option_synonym *synonym = has_some ? command->table->synonyms : &none;

	for (; synonym->name != NULL; synonym++) {
		const char *start = synonym->begins;
		bool takes = start == NULL ||
			     (value != NULL && strncmp(value, start, strlen(start)) == 0);
		if (takes && strcmp(synonym->name, name) == 0) {
			return synonym;
		}
	}
	return NULL;
}

/* Whether the words between hyphens of `part` follow each other in the name. */
static bool has_words(const char *name, const char *part)
{
	size_t bytes = strlen(part);

	for (const char *at = name; bytes > 0 && (at = strstr(at, part)) != NULL; at++) {
		bool begins = at == name || at[-1] == '-';
		if (begins && (at[bytes] == '\0' || at[bytes] == '-')) {
			return true;
		}
	}
	return false;
}

/* The only option whose name has these words, as slo-tpot-ms has tpot; NULL: there is none, or
   several. */
static const char *name_around(const struct command *command, const char *part)
{
	const char *found = NULL;
	struct option option;

	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (option.kind != OPTION_HEADING && has_words(option.name, part)) {
			if (found != NULL) {
				return NULL;
			}
			found = option.name;
		}
	}
	return found;
}

static const char *nearest_name(const struct command *command, const char *name)
{
	const char *nearest = NULL;
	uint32_t edits = TEXT_EDITS_NONE;
	struct option option;

	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (option.kind != OPTION_HEADING && text_is_meant(name, option.name, &edits)) {
			nearest = option.name;
		}
	}
	return nearest;
}

static enum status unknown_option(const struct command *command, const char *name, bool is_alias,
	const struct option_synonym *synonym, struct error *error)
{
	if (is_alias) {
		return error_set(error, STATUS_USAGE,
			"unknown option -%s; options are written in full, as --name", name);
	}
	if (synonym != NULL && synonym->help != NULL) {
		return error_set(
			error, STATUS_USAGE, "unknown option --%s; %s", name, synonym->help);
	}
	const char *nearest = name_around(command, name);
	nearest = nearest != NULL ? nearest : nearest_name(command, name);
	if (nearest != NULL) {
		return error_set(error, STATUS_USAGE, "unknown option --%s; did you mean --%s?",
			name, nearest);
	}
	return error_set(error, STATUS_USAGE, "unknown option --%s", name);
}

/* ---- one option ---- */

struct parse {
	const struct command_line *line;
	int next; /* argument that is not read yet */
	bool given[OPTIONS_MAX];
};

/* An option as it was written. */
struct spelling {
	bool is_alias;
	char name[NAME_BYTES_MAX + 1];
	const char *value; /* behind =, or NULL */
};

static struct spelling read_spelling(const char *argument)
{
	struct spelling spelling = {.is_alias = argument[1] != '-'};
	const char *text = argument + (spelling.is_alias ? 1 : 2);
	const char *equals = strchr(text, '=');
	size_t bytes = equals == NULL ? strlen(text) : (size_t)(equals - text);

	snprintf(spelling.name, sizeof(spelling.name), "%.*s", (int)u64_min(bytes, NAME_BYTES_MAX),
		text);
	spelling.value = equals == NULL ? NULL : equals + 1;
	return spelling;
}

static enum status note_given(
	struct parse *parse, const struct option *option, uint32_t index, struct error *error)
{
	check(index < OPTIONS_MAX);
	if (parse->given[index] && option->kind != OPTION_TEXTS) {
		return error_set(error, STATUS_USAGE, "--%s is given twice", option->name);
	}
	parse->given[index] = true;
	if (option->given_offset > 0) {
		*(bool *)((char *)parse->line->values + option->given_offset) = true;
	}
	return STATUS_OK;
}

/* The argument behind an option, which is its value; NULL: there is none. */
static const char *next_argument(const struct parse *parse)
{
	return parse->next < parse->line->argc ? parse->line->argv[parse->next] : NULL;
}

static enum status set_by_synonym(struct parse *parse, const struct option_synonym *synonym,
	const char *value, struct error *error)
{
	struct option option;
	uint32_t index;

	check(find_option(parse->line->command, synonym->option, &index, &option));
	TRY(note_given(parse, &option, index, error));
	if (synonym->value != NULL) {
		value = synonym->value;
	} else if (synonym->begins != NULL) {
		value += strlen(synonym->begins);
	}
	return option_set(&option, parse->line->values, value, error);
}

/* Another program's name. One with `begins` has several values: all arguments that begin so. */
static enum status parse_synonym(struct parse *parse, const struct spelling *spelling,
	const struct option_synonym *synonym, struct error *error)
{
	const struct command *command = parse->line->command;
	bool has_value = synonym->value == NULL || synonym->begins != NULL;
	const char *value = spelling->value != NULL ? spelling->value : next_argument(parse);

	if (!has_value && spelling->value != NULL) {
		return error_set(error, STATUS_USAGE, "--%s takes no value", spelling->name);
	}
	if (has_value && value == NULL) {
		return error_set(
			error, STATUS_USAGE, "--%s: expected a value behind it", spelling->name);
	}
	parse->next += has_value && spelling->value == NULL;
	TRY(set_by_synonym(parse, synonym, value, error));
	while (synonym->begins != NULL) {
		value = next_argument(parse);
		synonym = value == NULL ? NULL : find_synonym(command, spelling->name, value);
		if (synonym == NULL || synonym->begins == NULL) {
			break;
		}
		parse->next++;
		TRY(set_by_synonym(parse, synonym, value, error));
	}
	return STATUS_OK;
}

static enum status parse_value(struct parse *parse, const struct spelling *spelling,
	const struct option *option, struct error *error)
{
	void *values = parse->line->values;
	const char *value = spelling->value;
	char usage[OPTION_USAGE_BYTES];

	if (option->kind == OPTION_FLAG) {
		if (value != NULL) {
			return error_set(error, STATUS_USAGE, "--%s takes no value", option->name);
		}
		*(bool *)((char *)values + option->offset) = true;
		return STATUS_OK;
	}
	if (value == NULL) {
		value = next_argument(parse);
		bool is_bare = value == NULL || (value[0] == '-' && value[1] == '-');
		if (is_bare && option->bare != NULL) {
			return option_set(option, values, option->bare, error);
		}
		parse->next++;
	}
	if (value == NULL) {
		option_usage(option, usage);
		return error_set(error, STATUS_USAGE, "--%s: expected %s behind it", option->name,
			strchr(usage, ' ') + 1);
	}
	return option_set(option, values, value, error);
}

/* Parses the option at argument `next` and moves behind it and its value. */
static enum status parse_option(struct parse *parse, struct error *error)
{
	const struct command *command = parse->line->command;
	const struct spelling spelling = read_spelling(parse->line->argv[parse->next++]);
	const struct option_synonym *synonym = NULL;
	struct option option;
	uint32_t index;

	if (!spelling.is_alias) {
		const char *next = next_argument(parse);
		synonym = find_synonym(
			command, spelling.name, spelling.value != NULL ? spelling.value : next);
	}
	if (synonym != NULL && synonym->option != NULL &&
		find_option(command, synonym->option, &index, &option)) {
		return parse_synonym(parse, &spelling, synonym, error);
	}
	if (!(spelling.is_alias ? find_alias : find_option)(
		    command, spelling.name, &index, &option)) {
		return unknown_option(command, spelling.name, spelling.is_alias, synonym, error);
	}
	TRY(note_given(parse, &option, index, error));
	return parse_value(parse, &spelling, &option, error);
}

/* ---- a command line ---- */

enum status command_set(
	struct command_line *line, const char *name, const char *text, struct error *error)
{
	struct option option;
	uint32_t index;

	check(find_option(line->command, name, &index, &option));
	return option_set(&option, line->values, text, error);
}

/* Also finds the `all` behind it. */
static bool asks_for_help(struct command_line *line)
{
	for (int i = 1; i < line->argc && strcmp(line->argv[i], "--") != 0; i++) {
		if (strcmp(line->argv[i], "--help") == 0 || strcmp(line->argv[i], "-h") == 0) {
			line->wants_all_help =
				i + 1 < line->argc && strcmp(line->argv[i + 1], "all") == 0;
			return true;
		}
	}
	return false;
}

static enum status one_too_many(
	const struct command *command, const char *text, struct error *error)
{
	char expected[40] = "";

	if (command->positional_maximum > 1) {
		snprintf(expected, sizeof(expected), ", expected at most %u",
			command->positional_maximum);
	}
	return error_set(error, STATUS_USAGE, "one argument too many: '%s'%s", text, expected);
}

enum status command_parse(struct command_line *line, bool *wants_help, struct error *error)
{
	const struct command *command = line->command;
	struct parse parse = {.line = line, .next = 1};
	bool options_ended = false;

	check(command->positional_maximum <= POSITIONALS_MAX);
	line->positional_count = 0;
	*wants_help = asks_for_help(line);
	if (*wants_help) {
		return STATUS_OK;
	}
	while (parse.next < line->argc) {
		const char *text = line->argv[parse.next];
		if (!options_ended && strcmp(text, "--") == 0) {
			options_ended = true;
			parse.next++;
		} else if (!options_ended && text[0] == '-' && text[1] != '\0') {
			TRY(parse_option(&parse, error));
		} else if (line->positional_count == command->positional_maximum) {
			return one_too_many(command, text, error);
		} else {
			line->positionals[line->positional_count++] = text;
			parse.next++;
		}
	}
	if (line->positional_count < command->positional_minimum) {
		return error_set(error, STATUS_USAGE, "expected: quire %s %s", command->name,
			command->arguments);
	}
	return STATUS_OK;
}
