#include "bench/options/options.h"

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

/* Where the next word goes: `used` columns of the line are taken. */
struct column {
	FILE *file;
	size_t used;
};

/* Prints text from the help column on, broken between words. */
static void print_wrapped(struct column *column, const char *text)
{
	while (*text != '\0') {
		size_t bytes = strcspn(text, " ");
		if (column->used > HELP_COLUMN && column->used + 1 + bytes > HELP_WIDTH) {
			fprintf(column->file, "\n%*s", HELP_COLUMN, "");
			column->used = HELP_COLUMN;
		} else if (column->used > HELP_COLUMN) {
			fputc(' ', column->file);
			column->used++;
		}
		fprintf(column->file, "%.*s", (int)bytes, text);
		column->used += bytes;
		text += bytes + (text[bytes] == ' ');
	}
}

static void print_option(const struct option *option, FILE *file)
{
	char usage[OPTION_USAGE_BYTES];
	struct column column = {file, HELP_COLUMN};

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
	print_wrapped(&column, option->help);
	if (option->initial != NULL && option->initial[0] != '\0') {
		fputc(';', file);
		column.used++;
		print_wrapped(&column, "default");
		print_wrapped(&column, option->initial);
	}
	fputc('\n', file);
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

void command_print_help(const struct command *command, FILE *file)
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
	for (uint32_t i = 0; i < command->option_count; i++) {
		struct option option = command_option(command, i);
		print_option(&option, file);
	}
	if (command->examples != NULL) {
		fprintf(file, "\nexamples\n%s", command->examples);
	}
}
