#include "bench/commands/commands.h"

#include "bench/options/completion.h"
#include "bench/options/manual.h"
#include "bench/record/provenance.h"

#include <stdio.h>
#include <string.h>

struct help_request {
	bool wants_man, wants_completion;
	uint32_t shell; /* enum shell */
};

/* Finds the command that the words name, one word per level, and `all` behind them. */
static enum status find(const struct command_line *line, const struct command **out,
	bool *wants_all, struct error *error)
{
	const struct command *found = &command_quire;

	*wants_all = false;
	for (uint32_t i = 0; i < line->positional_count; i++) {
		const char *word = line->positionals[i];
		if (found->members == NULL && strcmp(word, "all") == 0 &&
			i + 1 == line->positional_count) {
			*wants_all = true;
			break;
		}
		const struct command *next =
			found->members == NULL ? NULL : command_find(found, word);
		if (next == NULL) {
			const char *nearest =
				found->members == NULL ? NULL : command_nearest(found, word);
			return error_set(error, STATUS_USAGE,
				"unknown command '%s'; %s%s%squire help lists them", word,
				nearest == NULL ? "" : "did you mean ",
				nearest == NULL ? "" : nearest, nearest == NULL ? "" : "? ");
		}
		found = next;
	}
	*out = found;
	return STATUS_OK;
}

static enum status run(struct command_line *line, struct error *error)
{
	const struct help_request *request = line->values;
	const struct command *command = &command_quire;
	bool wants_all;

	if (request->wants_man && request->wants_completion) {
		return error_set(error, STATUS_USAGE,
			"--man and --completion exclude each other: give one of them");
	}
	if (request->wants_man) {
		manual_print(&command_quire, version_number(), stdout);
		return STATUS_OK;
	}
	if (request->wants_completion) {
		completion_print(&command_quire, (enum shell)request->shell, stdout);
		return STATUS_OK;
	}
	TRY(find(line, &command, &wants_all, error));
	(wants_all ? command_print_help : command_print_short_help)(command, stdout);
	return STATUS_OK;
}

static const struct option options[] = {
	{"man", OPTION_FLAG, offsetof(struct help_request, wants_man),
		.help = "the manual page of all commands, for man -l or an installation"},
	{"completion", OPTION_WORD, offsetof(struct help_request, shell),
		offsetof(struct help_request, wants_completion), .word_at = shell_word,
		.help = "a script with which the shell completes commands, options, their words "
			"and file names"},
};

const struct command command_help = {
	.name = "help",
	.title = "show the help of a command, the manual page, or completions",
	.arguments = "[COMMAND... [all]] [--man] [--completion SHELL]",
	.summary =
		"Shows what `quire COMMAND --help` shows, with `all` every option. With --man or\n"
		"--completion, prints what `cmake --install` puts where man and the shells look "
		"for it.",
	.examples = "  quire help trace make\n"
		    "  quire help --man | man -l -\n"
		    "  source <(quire help --completion bash)\n",
	OPTIONS(options),
	.value_bytes = sizeof(struct help_request),
	.positional_minimum = 0,
	.positional_maximum = 3,
	.run = run,
};
