#include "bench/options/options.h"

#include "engine/base/integer.h"

#include <stdarg.h>
#include <string.h>

enum { HELP_COLUMN = 34, HELP_WIDTH = 100 };

void option_usage(const struct option *option, char *text)
{
	size_t bytes = (size_t)snprintf(text, OPTION_USAGE_BYTES, "--%s", option->name);

	if (option->kind == OPTION_FLAG) {
		return;
	}
	if (option->argument != NULL) {
		snprintf(text + bytes, OPTION_USAGE_BYTES - bytes, " %s", option->argument);
		return;
	}
	for (uint32_t i = 0; option->word_at(i) != NULL && bytes < OPTION_USAGE_BYTES; i++) {
		bytes += (size_t)snprintf(text + bytes, OPTION_USAGE_BYTES - bytes, "%c%s",
			i == 0 ? ' ' : '|', option->word_at(i));
	}
}

static size_t append(char *text, size_t used, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static size_t append(char *text, size_t used, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	int bytes = vsnprintf(text + used, OPTION_HELP_BYTES - used, format, arguments);
	va_end(arguments);
	return u64_min(used + (size_t)bytes, OPTION_HELP_BYTES - 1);
}

void option_help(const struct option *option, char *text)
{
	size_t used = append(text, 0, "%s", option->help);

	for (uint32_t i = 0; option->about_word != NULL && option->word_at(i) != NULL; i++) {
		used = append(text, used, "%s%s: %s", used == 0 ? "" : "; ", option->word_at(i),
			option->about_word(i));
	}
	if (option->initial != NULL && option->initial[0] != '\0') {
		used = append(text, used, "; default %s", option->initial);
	}
	if (option->alias != NULL) {
		used = append(text, used, "; also -%s", option->alias);
	}
	if (option->kind == OPTION_TEXTS) {
		append(text, used, "; may be given several times");
	}
}

/* Prints text from the help column on, broken between words. */
static void print_wrapped(const char *text, FILE *file)
{
	size_t used = HELP_COLUMN;

	while (*text != '\0') {
		size_t bytes = strcspn(text, " ");
		if (used > HELP_COLUMN && used + 1 + bytes > HELP_WIDTH) {
			fprintf(file, "\n%*s", HELP_COLUMN, "");
			used = HELP_COLUMN;
		} else if (used > HELP_COLUMN) {
			fputc(' ', file);
			used++;
		}
		fprintf(file, "%.*s", (int)bytes, text);
		used += bytes;
		text += bytes + (text[bytes] == ' ');
	}
	fputc('\n', file);
}

static void print_option(const struct option *option, FILE *file)
{
	char usage[OPTION_USAGE_BYTES], help[OPTION_HELP_BYTES];

	if (option->kind == OPTION_HEADING) {
		fprintf(file, "\n%s\n", option->help);
		return;
	}
	option_usage(option, usage);
	if (strlen(usage) + 2 >= HELP_COLUMN - 1) {
		fprintf(file, "  %s\n%*s", usage, HELP_COLUMN, "");
	} else {
		fprintf(file, "  %-*s", HELP_COLUMN - 2, usage);
	}
	option_help(option, help);
	print_wrapped(help, file);
}

static void print_members(const struct command *group, FILE *file)
{
	const char *blank = group->name[0] == '\0' ? "" : " ";

	fprintf(file,
		"\nusage: quire%s%s COMMAND ...      quire%s%s COMMAND --help teaches each\n\n",
		blank, group->name, blank, group->name);
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		fprintf(file, "  %-10s %s\n", command_word(group->members[i]),
			group->members[i]->title);
	}
	if (group->examples != NULL) {
		fprintf(file, "\nfirst steps\n%s", group->examples);
	}
}

/* The other programs' names that the command takes. */
static void print_synonyms(const struct command *command, FILE *file)
{
	const struct option_table *table = command->table;
	char text[OPTION_HELP_BYTES] = "";
	size_t used = 0;

	if (table == NULL || table->synonyms == NULL) {
		return;
	}
	for (const struct option_synonym *synonym = table->synonyms; synonym->name != NULL;
		synonym++) {
		if (synonym->begins == NULL && synonym->option != NULL &&
			command_has_option(command, synonym->option)) {
			used = append(text, used, "%s--%s for --%s", used == 0 ? "" : ", ",
				synonym->name, synonym->option);
			used = synonym->value == NULL ? used
						      : append(text, used, " %s", synonym->value);
		}
	}
	if (used > 0) {
		fprintf(file, "\n%-*s", HELP_COLUMN, "names of other programs");
		print_wrapped(text, file);
	}
}

static void print_options(const struct command *command, bool only_main, FILE *file)
{
	struct option option;

	if (only_main) {
		fputs("\nmain options\n", file);
	}
	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (!only_main) {
			print_option(&option, file);
			continue;
		}
		for (uint32_t j = 0; command->main_options[j] != NULL; j++) {
			if (option.kind != OPTION_HEADING &&
				strcmp(command->main_options[j], option.name) == 0) {
				print_option(&option, file);
			}
		}
	}
	if (only_main) {
		fprintf(file, "\nquire %s --help all shows the other options\n", command->name);
	} else {
		print_synonyms(command, file);
	}
}

static void print_help(const struct command *command, bool only_main, FILE *file)
{
	size_t summary_bytes = strlen(command->summary);
	bool has_break = summary_bytes > 0 && command->summary[summary_bytes - 1] == '\n';

	if (command->members != NULL) {
		fputs(command->summary, file);
		print_members(command, file);
		return;
	}
	fprintf(file, "quire %s %s\n\n%s%s", command->name, command->arguments, command->summary,
		has_break ? "" : "\n");
	print_options(command, only_main, file);
	if (command->examples != NULL) {
		fprintf(file, "\nexamples\n%s", command->examples);
	}
}

void command_print_help(const struct command *command, FILE *file)
{
	print_help(command, false, file);
}

void command_print_short_help(const struct command *command, FILE *file)
{
	print_help(command, command->main_options != NULL, file);
}
