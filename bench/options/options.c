#include "bench/options/options.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 34, HELP_WIDTH = 100, NAME_BYTES_MAX = 64 };

/* Edit distance of two option names, to guess what was meant. */
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

static enum status unknown_option(
	const struct command *command, const char *name, struct error *error)
{
	const char *nearest = NULL;
	uint32_t nearest_distance = 4; /* beyond three edits a guess would be noise */

	for (uint32_t i = 0; i < command->option_count; i++) {
		const struct option *option = &command->options[i];
		if (option->kind == OPTION_HEADING) {
			continue;
		}
		uint32_t distance = name_distance(name, option->name);
		bool is_like = distance <= strlen(option->name) / 2; /* more is kept than changed */
		if (is_like && distance < nearest_distance) {
			nearest = option->name;
			nearest_distance = distance;
		}
	}
	if (nearest != NULL) {
		return error_set(error, STATUS_USAGE, "unknown option --%s; did you mean --%s?",
			name, nearest);
	}
	return error_set(error, STATUS_USAGE, "unknown option --%s", name);
}

static const struct option *option_find(const struct command *command, const char *name)
{
	for (uint32_t i = 0; i < command->option_count; i++) {
		const struct option *option = &command->options[i];
		if (option->kind != OPTION_HEADING && strcmp(option->name, name) == 0) {
			return option;
		}
	}
	return NULL;
}

static enum status set_count(const struct option *option, const char *text, struct error *error)
{
	uint64_t value;

	if (!text_to_u64(text, &value) || value < option->minimum || value > option->maximum) {
		return error_set(error, STATUS_USAGE,
			"--%s: found '%s', expected an integer from %llu to %llu", option->name,
			text, (unsigned long long)option->minimum,
			(unsigned long long)option->maximum);
	}
	*(uint64_t *)option->value = value;
	return STATUS_OK;
}

static enum status set_millionths(
	const struct option *option, const char *text, struct error *error)
{
	uint64_t value;

	if (!text_to_millionths(text, &value) || value < option->minimum ||
		value > option->maximum) {
		return error_set(error, STATUS_USAGE,
			"--%s: found '%s', expected a decimal of at most 6 places from %llu.%06llu "
			"to "
			"%llu.%06llu",
			option->name, text, (unsigned long long)(option->minimum / 1000000),
			(unsigned long long)(option->minimum % 1000000),
			(unsigned long long)(option->maximum / 1000000),
			(unsigned long long)(option->maximum % 1000000));
	}
	*(uint64_t *)option->value = value;
	return STATUS_OK;
}

static enum status set_choice(const struct option *option, const char *text, struct error *error)
{
	char words[256] = "";

	for (uint32_t i = 0; option->choices[i] != NULL; i++) {
		if (strcmp(option->choices[i], text) == 0) {
			*(uint32_t *)option->value = i;
			return STATUS_OK;
		}
		size_t bytes = strlen(words);
		snprintf(words + bytes, sizeof(words) - bytes, "%s%s", i == 0 ? "" : ", ",
			option->choices[i]);
	}
	return error_set(error, STATUS_USAGE, "--%s: found '%s', expected one of %s", option->name,
		text, words);
}

static enum status option_set(const struct option *option, const char *text, struct error *error)
{
	switch (option->kind) {
	case OPTION_COUNT:
		return set_count(option, text, error);
	case OPTION_MILLIONTHS:
		return set_millionths(option, text, error);
	case OPTION_CHOICE:
		return set_choice(option, text, error);
	case OPTION_TEXT:
		if (*text == '\0') {
			return error_set(error, STATUS_USAGE,
				"--%s: found an empty text, expected %s", option->name,
				option->argument);
		}
		*(const char **)option->value = text;
		return STATUS_OK;
	case OPTION_FLAG:
	case OPTION_HEADING:
		break;
	}
	check_unreachable("an option that takes no value");
}

/* One option at argv[*i]; moves *i to the last argument it used. */
static enum status parse_option(const struct command *command, int argc, char **argv, int *i,
	uint64_t *given, struct error *error)
{
	const char *text = argv[*i] + 2;
	const char *equals = strchr(text, '=');
	size_t name_bytes = equals == NULL ? strlen(text) : (size_t)(equals - text);
	char name[NAME_BYTES_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", (int)u64_min(name_bytes, NAME_BYTES_MAX), text);
	const struct option *option = option_find(command, name);
	if (option == NULL) {
		return unknown_option(command, name, error);
	}
	uint64_t bit = UINT64_C(1) << (option - command->options);
	if (*given & bit) {
		return error_set(error, STATUS_USAGE, "--%s is given twice", name);
	}
	*given |= bit;
	if (option->is_given != NULL) {
		*option->is_given = true;
	}
	if (option->kind == OPTION_FLAG) {
		if (equals != NULL) {
			return error_set(error, STATUS_USAGE, "--%s takes no value", name);
		}
		*(bool *)option->value = true;
		return STATUS_OK;
	}
	if (equals != NULL) {
		return option_set(option, equals + 1, error);
	}
	if (*i + 1 >= argc) {
		return error_set(
			error, STATUS_USAGE, "--%s: expected %s behind it", name, option->argument);
	}
	*i += 1;
	return option_set(option, argv[*i], error);
}

enum status options_parse(const struct command *command, int argc, char **argv,
	const char **positionals, uint32_t *positional_count, bool *wants_help, struct error *error)
{
	uint64_t given = 0;
	bool options_ended = false;

	check(command->option_count <= 64);
	*positional_count = 0;
	*wants_help = false;
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			*wants_help = true;
			return STATUS_OK;
		}
	}
	for (int i = 1; i < argc; i++) {
		if (!options_ended && strcmp(argv[i], "--") == 0) {
			options_ended = true;
		} else if (!options_ended && strncmp(argv[i], "--", 2) == 0) {
			enum status status = parse_option(command, argc, argv, &i, &given, error);
			if (status != STATUS_OK) {
				return status;
			}
		} else if (!options_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
			return error_set(error, STATUS_USAGE,
				"unknown option %s; options are written in full, as --name",
				argv[i]);
		} else if (*positional_count == command->positional_maximum) {
			return error_set(
				error, STATUS_USAGE, "one argument too many: '%s'", argv[i]);
		} else {
			positionals[(*positional_count)++] = argv[i];
		}
	}
	if (*positional_count < command->positional_minimum) {
		return error_set(error, STATUS_USAGE, "expected: quire %s %s", command->name,
			command->arguments);
	}
	return STATUS_OK;
}

/* Prints text from the help column on, broken between words. */
static void print_wrapped(const char *text)
{
	size_t used = HELP_COLUMN;

	while (*text != '\0') {
		size_t bytes = strcspn(text, " ");
		if (used > HELP_COLUMN && used + 1 + bytes > HELP_WIDTH) {
			printf("\n%*s", HELP_COLUMN, "");
			used = HELP_COLUMN;
		} else if (used > HELP_COLUMN) {
			putchar(' ');
			used++;
		}
		printf("%.*s", (int)bytes, text);
		used += bytes;
		text += bytes + (text[bytes] == ' ');
	}
	putchar('\n');
}

void command_help(const struct command *command)
{
	size_t summary_bytes = strlen(command->summary);
	bool has_break = summary_bytes > 0 && command->summary[summary_bytes - 1] == '\n';

	printf("quire %s %s\n\n%s%s", command->name, command->arguments, command->summary,
		has_break ? "" : "\n");
	for (uint32_t i = 0; i < command->option_count; i++) {
		const struct option *option = &command->options[i];
		char left[128];
		if (option->kind == OPTION_HEADING) {
			printf("\n%s\n", option->help);
			continue;
		}
		int bytes = snprintf(left, sizeof(left), "  --%s%s%s", option->name,
			option->kind == OPTION_FLAG ? "" : " ",
			option->kind == OPTION_FLAG ? "" : option->argument);
		if (bytes >= HELP_COLUMN - 1) {
			printf("%s\n%*s", left, HELP_COLUMN, "");
		} else {
			printf("%-*s", HELP_COLUMN, left);
		}
		print_wrapped(option->help);
	}
	if (command->examples != NULL) {
		printf("\nexamples\n%s", command->examples);
	}
}

int command_fail(const struct command *command, const struct error *error)
{
	if (error->status == STATUS_USAGE) {
		fprintf(stderr, "quire %s: %s (quire %s --help tells more)\n", command->name,
			error->text, command->name);
	} else {
		fprintf(stderr, "quire %s: %s\n", command->name, error->text);
	}
	return status_exit_code(error->status);
}
