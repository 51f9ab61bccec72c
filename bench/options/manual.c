#include "bench/options/manual.h"

#include <string.h>

/* Escapes text that roff would read as a request or an escape. */
static void put_text(const char *text, FILE *file)
{
	bool starts_line = true;

	for (const char *c = text; *c != '\0'; c++) {
		if (starts_line && (*c == '.' || *c == '\'')) {
			fputs("\\&", file);
		}
		if (*c == '\\') {
			fputs("\\e", file);
		} else if (*c == '-') {
			fputs("\\-", file);
		} else {
			fputc(*c, file);
		}
		starts_line = *c == '\n';
	}
}

/* An empty line of a summary starts a paragraph, an indented line stays a line of its own. */
static void put_paragraphs(const char *text, FILE *file)
{
	while (*text != '\0') {
		size_t bytes = strcspn(text, "\n");
		char line[256];
		snprintf(line, sizeof(line), "%.*s", (int)bytes, text);
		if (bytes == 0) {
			fputs(".PP", file);
		} else if (line[0] == ' ') {
			fputs(".br\n", file);
			put_text(line + strspn(line, " "), file);
		} else {
			put_text(line, file);
		}
		fputc('\n', file);
		text += bytes + (text[bytes] == '\n');
	}
}

static void put_option(const struct option *option, FILE *file)
{
	char usage[OPTION_USAGE_BYTES], help[OPTION_HELP_BYTES];
	char *value;

	if (option->kind == OPTION_HEADING) {
		fputs(".PP\n.I \"", file);
		put_text(option->help, file);
		fputs("\"\n", file);
		return;
	}
	option_usage(option, usage);
	value = strchr(usage, ' ');
	if (value != NULL) {
		*value++ = '\0';
	}
	fputs(".TP\n\\fB", file);
	put_text(usage, file);
	fputs("\\fR", file);
	if (value != NULL) {
		fputs(" \\fI", file);
		put_text(value, file);
		fputs("\\fR", file);
	}
	fputc('\n', file);
	option_help(option, help);
	put_text(help, file);
	fputc('\n', file);
}

static void put_examples(const char *examples, FILE *file)
{
	fputs(".nf\n", file);
	put_text(examples, file);
	fputs(".fi\n", file);
}

static void put_command(const struct command *command, FILE *file)
{
	fputs(".SS \"quire ", file);
	put_text(command->name, file);
	fputc(' ', file);
	put_text(command->arguments, file);
	fputs("\"\n", file);
	put_paragraphs(command->summary, file);
	struct option option;
	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		put_option(&option, file);
	}
	if (command->examples != NULL) {
		fputs(".PP\n", file);
		put_examples(command->examples, file);
	}
}

/* There are at most two levels of groups: the program, and groups of commands. */
static void put_members(const struct command *group, FILE *file)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		const struct command *member = group->members[i];
		for (uint32_t j = 0; member->members != NULL && member->members[j] != NULL; j++) {
			put_command(member->members[j], file);
		}
		if (member->members == NULL) {
			put_command(member, file);
		}
	}
}

void manual_print(const struct command *program, const char *version, FILE *file)
{
	fprintf(file, ".TH QUIRE 1 \"\" \"quire %s\" \"User Commands\"\n", version);
	fputs(".SH NAME\nquire \\- ", file);
	put_text(program->title, file);
	fputs("\n.SH SYNOPSIS\n.B quire\n.I command\n.RI [ arguments ]\n"
	      ".br\n.B quire\n.I command\n.B \\-\\-help\n.br\n.B quire \\-\\-version\n"
	      ".SH DESCRIPTION\n",
		file);
	put_paragraphs(program->summary, file);
	fputs(".SH COMMANDS\n", file);
	put_members(program, file);
	fputs(".SH FIRST STEPS\n", file);
	put_examples(program->examples, file);
}
