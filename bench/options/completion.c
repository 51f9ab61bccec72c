#include "bench/options/completion.h"

#include <string.h>

const char *shell_word(uint32_t index)
{
	static const char *const words[] = {
		[SHELL_BASH] = "bash", [SHELL_ZSH] = "zsh", [SHELL_FISH] = "fish"};

	return index < sizeof(words) / sizeof(words[0]) ? words[index] : NULL;
}

/* ---- kinds of values ---- */

static bool takes_value(const struct option *option)
{
	return option->kind != OPTION_FLAG && option->kind != OPTION_HEADING;
}

/* The words of a value, separated by spaces. */
static void put_words(const struct option *option, FILE *file)
{
	for (uint32_t i = 0; option->word_at != NULL && option->word_at(i) != NULL; i++) {
		fprintf(file, "%s%s", i == 0 ? "" : " ", option->word_at(i));
	}
}

static void put_members(const struct command *group, FILE *file)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		fprintf(file, "%s%s", i == 0 ? "" : " ", command_word(group->members[i]));
	}
}

/* Text inside a shell's single quotes: a quote becomes `quote`, and each character of `escaped`
   gets a backslash. */
static void put_quoted(const char *text, const char *quote, const char *escaped, FILE *file)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'') {
			fputs(quote, file);
		} else {
			if (strchr(escaped, *text) != NULL) {
				fputc('\\', file);
			}
			fputc(*text, file);
		}
	}
}

/* ---- bash ---- */

static void bash_value(const struct command *command, const struct option *option, FILE *file)
{
	fprintf(file, "\t'%s --%s'", command->name, option->name);
	if (option->alias != NULL) {
		fprintf(file, "|'%s -%s'", command->name, option->alias);
	}
	fputs(")\n\t\t_quire_words '", file);
	put_words(option, file);
	fprintf(file, "'%s\n\t\treturn ;;\n",
		option_takes_file(option)     ? "; _quire_files -f"
		: option_takes_folder(option) ? "; _quire_files -d"
					      : "");
}

static void bash_command(const struct command *command, bool is_value, FILE *file)
{
	if (!is_value) {
		fprintf(file, "\t'%s') _quire_words '--help", command->name);
	}
	struct option option;
	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (is_value && takes_value(&option)) {
			bash_value(command, &option, file);
		} else if (!is_value && option.kind != OPTION_HEADING) {
			fprintf(file, " --%s", option.name);
		}
		if (!is_value && option.alias != NULL) {
			fprintf(file, " -%s", option.alias);
		}
	}
	if (!is_value) {
		fputs("' ;;\n", file);
	}
}

static void bash_commands(const struct command *group, bool is_value, FILE *file)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		const struct command *member = group->members[i];
		for (uint32_t j = 0; member->members != NULL && member->members[j] != NULL; j++) {
			bash_command(member->members[j], is_value, file);
		}
		if (member->members == NULL) {
			bash_command(member, is_value, file);
		}
	}
}

static void bash_print(const struct command *program, FILE *file)
{
	fputs("# bash completion of quire: written by quire help --completion bash\n"
	      "_quire_words()\n{\n"
	      "\tlocal word\n"
	      "\twhile read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -W \"$1\" -- "
	      "\"$cur\")\n"
	      "}\n"
	      "_quire_files()\n{\n"
	      "\tlocal path\n"
	      "\tcompopt -o filenames 2>/dev/null\n"
	      "\twhile read -r path; do COMPREPLY+=(\"$path\"); done < <(compgen \"$1\" -- "
	      "\"$cur\")\n"
	      "}\n"
	      "_quire()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tlocal command=${COMP_WORDS[1]}\n"
	      "\tCOMPREPLY=()\n"
	      "\tif ((COMP_CWORD == 1)); then\n\t\t_quire_words '",
		file);
	put_members(program, file);
	fputs(" --help --version'\n\t\treturn\n\tfi\n", file);
	for (uint32_t i = 0; program->members[i] != NULL; i++) {
		const struct command *group = program->members[i];
		if (group->members != NULL) {
			fprintf(file, "\tif [[ $command == %s ]]; then\n", group->name);
			fputs("\t\tif ((COMP_CWORD == 2)); then\n\t\t\t_quire_words '", file);
			put_members(group, file);
			fputs(" --help'\n\t\t\treturn\n\t\tfi\n"
			      "\t\tcommand+=\" ${COMP_WORDS[2]}\"\n\tfi\n",
				file);
		}
	}
	fputs("\t# bash splits --name=VALUE at the equals sign.\n"
	      "\tif [[ $cur == = ]]; then\n\t\tcur=\n"
	      "\telif [[ $prev == = ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n"
	      "\tcase \"$command $prev\" in\n",
		file);
	bash_commands(program, true, file);
	fputs("\tesac\n\tif [[ $cur != -* ]]; then\n\t\t_quire_files -f\n\t\treturn\n\tfi\n"
	      "\tcase $command in\n",
		file);
	bash_commands(program, false, file);
	fputs("\tesac\n}\ncomplete -F _quire quire\n", file);
}

/* ---- zsh ---- */

static void zsh_option(
	const struct option *option, const char *dashes, const char *name, FILE *file)
{
	char usage[OPTION_USAGE_BYTES];

	fprintf(file, " \\\n\t\t'%s%s[", dashes, name);
	put_quoted(option->help, "'\\''", "[]\\", file);
	fputc(']', file);
	if (takes_value(option)) {
		bool has_words = option->word_at != NULL;
		bool has_paths = option_takes_file(option) || option_takes_folder(option);
		const char *paths = option_takes_file(option) ? "_files" : "_files -/";
		option_usage(option, usage);
		fputc(':', file);
		put_quoted(strchr(usage, ' ') + 1, "'\\''", ":\\", file);
		fputc(':', file);
		if (has_words && has_paths) {
			/* The blank keeps _arguments from adding options of its own. */
			fputs(" _alternative \"words\\:word\\:(", file);
			put_words(option, file);
			fprintf(file, ")\" \"paths\\:path\\:%s\"", paths);
		} else if (has_words) {
			fputc('(', file);
			put_words(option, file);
			fputc(')', file);
		} else if (has_paths) {
			fputs(paths, file);
		}
	}
	fputc('\'', file);
}

static void zsh_command(const struct command *command, FILE *file)
{
	fprintf(file, "\t%s)\n\t\t_arguments '--help[show the help]'", command_word(command));
	struct option option;
	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (option.kind != OPTION_HEADING) {
			zsh_option(&option, "--", option.name, file);
		}
		if (option.alias != NULL) {
			zsh_option(&option, "-", option.alias, file);
		}
	}
	fputs(command->positional_maximum > 0 ? " \\\n\t\t'*:file:_files' ;;\n" : " ;;\n", file);
}

/* A function that first completes a member's name, then the member's arguments. */
static void zsh_group(const struct command *group, FILE *file)
{
	const char *name = group->name;

	fprintf(file,
		"_quire%s%s()\n{\n\tlocal curcontext=$curcontext state line\n"
		"\tlocal -a members=(",
		name[0] == '\0' ? "" : "_", name);
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		fprintf(file, "\n\t\t'%s:", command_word(group->members[i]));
		put_quoted(group->members[i]->title, "'\\''", ":\\", file);
		fputc('\'', file);
	}
	fprintf(file,
		")\n\t_arguments -C '--help[show the help]'%s '1:command:->command' "
		"'*::argument:->argument' && return\n"
		"\tif [[ $state == command ]]; then\n\t\t_describe command members\n"
		"\t\treturn\n\tfi\n\tcase $words[1] in\n",
		name[0] == '\0' ? " '--version[show the version]'" : "");
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		const struct command *member = group->members[i];
		if (member->members != NULL) {
			fprintf(file, "\t%s) _quire_%s ;;\n", member->name, member->name);
		} else {
			zsh_command(member, file);
		}
	}
	fputs("\tesac\n}\n", file);
}

static void zsh_print(const struct command *program, FILE *file)
{
	fputs("#compdef quire\n# written by quire help --completion zsh\n", file);
	for (uint32_t i = 0; program->members[i] != NULL; i++) {
		if (program->members[i]->members != NULL) {
			zsh_group(program->members[i], file);
		}
	}
	zsh_group(program, file);
	fputs("_quire \"$@\"\n", file);
}

/* ---- fish ---- */

static void fish_option(const struct command *command, const struct option *option, FILE *file)
{
	fprintf(file, "complete -c quire -n '__quire_is %s' -l %s", command->name, option->name);
	if (option->alias != NULL) {
		fprintf(file, " -o %s", option->alias);
	}
	if (takes_value(option)) {
		fputs(option_takes_file(option) ? " -r -F" : " -x", file);
		fputs(" -a '", file);
		put_words(option, file);
		fputs(option_takes_folder(option) && !option_takes_file(option)
				? " (__fish_complete_directories)"
				: "",
			file);
		fputs("'", file);
	}
	fputs(" -d '", file);
	put_quoted(option->help, "\\'", "\\", file);
	fputs("'\n", file);
}

static void fish_group(const struct command *group, FILE *file)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		const struct command *member = group->members[i];
		fprintf(file, "complete -c quire -f -n '__quire_ends %s' -a %s -d '", group->name,
			command_word(member));
		put_quoted(member->title, "\\'", "\\", file);
		fputs("'\n", file);
		struct option option;
		for (uint32_t j = 0; command_option(member, j, &option); j++) {
			if (option.kind != OPTION_HEADING) {
				fish_option(member, &option, file);
			}
		}
	}
}

static void fish_print(const struct command *program, FILE *file)
{
	fputs("# fish completion of quire: written by quire help --completion fish\n"
	      "function __quire_is\n"
	      "    set -l words (commandline -opc)\n"
	      "    set -e words[1]\n"
	      "    for i in (seq (count $argv))\n"
	      "        test \"$words[$i]\" = \"$argv[$i]\"; or return 1\n"
	      "    end\n"
	      "end\n"
	      "function __quire_ends\n"
	      "    set -l words (commandline -opc)\n"
	      "    test (count $words) -eq (math (count $argv) + 1); and __quire_is $argv\n"
	      "end\n"
	      "complete -c quire -l help -d 'show the help'\n"
	      "complete -c quire -n __quire_ends -l version -d 'show the version'\n",
		file);
	fish_group(program, file);
	for (uint32_t i = 0; program->members[i] != NULL; i++) {
		if (program->members[i]->members != NULL) {
			fish_group(program->members[i], file);
		}
	}
}

void completion_print(const struct command *program, enum shell shell, FILE *file)
{
	switch (shell) {
	case SHELL_BASH:
		bash_print(program, file);
		return;
	case SHELL_ZSH:
		zsh_print(program, file);
		return;
	case SHELL_FISH:
		fish_print(program, file);
		return;
	}
}
