#ifndef BENCH_OPTIONS_OPTIONS_H
#define BENCH_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/status.h"

/* A command line described by constant tables. Parsing, checks, defaults, help, the manual page and
   shell completions all use the same rows.

   Options are `--name VALUE` or `--name=VALUE`, flags `--name`; each at most once, TEXTS as
   often as wanted; `--` ends them; everything else is a positional argument. Every command
   accepts `--help` and `-h`. An option with an alias may also be written `-ALIAS VALUE` or
   `-ALIAS=VALUE`. The names that other programs use for an option are accepted too, where its
   table has them.

   Values are stored in a struct of the command, at the row's offset. Options that several commands
   share are defined once, in an option_table, and a command's row refers to them:

       {FROM_TABLE("max-num-seqs")},                        as the table says
       {FROM_TABLE("runner"), .initial = "reference"},      with another default
       {GROUP_OF_TABLE("engine")},                          every row of a group */

enum option_kind {
	OPTION_HEADING,	   /* a line of the help that groups the rows below; only .help is read */
	OPTION_FLAG,	   /* bool: set to true */
	OPTION_COUNT,	   /* uint64_t: an integer in [minimum, maximum] */
	OPTION_MILLIONTHS, /* uint64_t: a decimal of at most 6 places, kept as value * 10^6;
			      minimum and maximum are in millionths too */
	OPTION_TEXT,	   /* const char *: anything but the empty text */
	OPTION_TEXTS,	   /* struct option_texts: a TEXT that may be given several times */
	OPTION_WORD,	   /* uint32_t: index of one of the words */
	OPTION_FROM_TABLE, /* the table's row of that name; what is not zero here replaces it */
	OPTION_GROUP,	   /* all rows of the table that belong to .group */
};

enum { OPTION_TEXTS_MAX = 64 };

struct option_texts {
	uint32_t count;
	const char *list[OPTION_TEXTS_MAX]; /* (count) in the order of the command line */
};

struct option {
	const char *name; /* without the dashes */
	enum option_kind kind;
	size_t offset;	      /* offset of the value in the command's struct */
	size_t given_offset;  /* offset of a bool that is set if the option was given; 0: none */
	const char *group;    /* group of a table's row, for GROUP_OF_TABLE; or NULL */
	const char *argument; /* name of the value in the help, such as "N" or "DIR"; NULL: the
				 words */
	const char *initial;  /* the default as a command-line text; NULL or "": none */
	uint64_t absent;      /* a number without a default, where it is not given */
	const char *none;     /* of a text: a word that means NULL; NULL or "": none */
	uint64_t minimum, maximum;
	const char *(*word_at)(uint32_t index);	   /* NULL past the last. Of a text: suggestions */
	const char *(*about_word)(uint32_t index); /* for the help; NULL: help says it */
	const char *help;			   /* one sentence or two, without the default */
	const char *alias;			   /* another name, behind one dash; NULL: none */
	const char *bare; /* the value of an option without one; NULL: it needs one */
	const char *unit; /* of a MILLIONTHS that is a time: "s" or "ms"; values may have units of
			     their own (2s, 500ms, 10m, 1h). NULL: it is none */
};

/* Another program's name for an option, which is accepted in its place, or explained. */
struct option_synonym {
	const char *name;
	const char *option; /* of ours; NULL: there is none, and .help says what to do */
	const char *begins; /* only for values that begin so: the rest of them is the value. Several
			       such values may follow the name. NULL: for every value */
	const char *value;  /* the value in place of the given one; without .begins none is given */
	const char *help;
};

#define FROM_TABLE(option_name) .kind = OPTION_FROM_TABLE, .name = option_name
#define GROUP_OF_TABLE(group_name) .kind = OPTION_GROUP, .group = group_name

struct option_table {
	const struct option *rows; /* (count) */
	uint32_t count;
	const struct option_synonym *synonyms; /* the first that fits is taken; ends with a row
						  without a name; NULL: none */
};

enum { POSITIONALS_MAX = 16 };

struct command_line;

/* A command, or a group of commands (members != NULL), of which the program itself is one. */
struct command {
	const char *name;	      /* "replay", or "trace make"; "": the program */
	const char *title;	      /* one line for the group's list */
	const char *arguments;	      /* of the usage line, such as "TRACE --out DIR [options]" */
	const char *summary;	      /* what it does, in some lines */
	const char *examples;	      /* command lines */
	const struct option *options; /* (option_count) */
	uint32_t option_count;
	const struct option_table *table; /* the table of FROM_TABLE rows */
	size_t table_offset;		  /* of the table's struct in the command's */
	size_t value_bytes;		  /* of the command's struct */
	const char *const *main_options;  /* NULL-terminated: what --help shows, --help all has the
					     rest; NULL: --help shows all */
	uint32_t positional_minimum, positional_maximum;
	bool takes_processes; /* of mpirun, which do it together; else the first of them does it */

	/* Runs with parsed values. STATUS_VERDICT with an empty text: the output already has the
	   verdict. */
	enum status (*run)(struct command_line *line, struct error *error);

	const struct command *const *members; /* NULL-terminated */
};

#define OPTIONS(rows) .options = (rows), .option_count = sizeof(rows) / sizeof((rows)[0])

struct command_line {
	const struct command *command;
	int argc; /* arguments from the command's last word on */
	char **argv;
	void *values; /* (command->value_bytes) */
	const char *positionals[POSITIONALS_MAX];
	uint32_t positional_count;
	bool wants_all_help; /* --help all */
};

/* Sets defaults, parses, prints --help or runs, and reports errors; returns the exit code. */
int command_run(const struct command *command, int argc, char **argv);

/* Zeroes values and sets the defaults of the table and of the command. */
void command_defaults(const struct command *command, void *values);

/* Parses argv[1..argc) over values that hold the defaults. With --help, *wants_help is set and
   nothing is checked. Failures are STATUS_USAGE with one line that names the option, what was found
   and what was expected. */
enum status command_parse(struct command_line *line, bool *wants_help, struct error *error);

/* As if --name text had been given, except that the option does not count as given. */
enum status command_set(
	struct command_line *line, const char *name, const char *text, struct error *error);

/* Row `index` with its table's fields filled in, and offsets into the command's struct. False past
   the last. The rows of a group are counted individually. */
bool command_option(const struct command *command, uint32_t index, struct option *out);

bool command_has_option(const struct command *command, const char *name);

/* The last word of a command's name. */
const char *command_word(const struct command *command);

/* Finds a member by its last word; NULL: none. */
const struct command *command_find(const struct command *group, const char *word);

/* Of a group, the name that a mistyped word was meant to be; NULL: none is near. */
const char *command_nearest(const struct command *group, const char *word);

/* Whether the value may be the path of a file, or of a folder. The name of the value in the help
   says so: FILE, TRACE or TABLE, and DIR. */
bool option_takes_file(const struct option *option);
bool option_takes_folder(const struct option *option);

/* Whether a number is in the range of a COUNT, or of MILLIONTHS. */
bool option_fits(const struct option *option, uint64_t value);

/* What a value must be, for errors: "an integer from 1 to 65536", "one of open, closed". */
enum { OPTION_EXPECTED_BYTES = 256 };
void option_expected(const struct option *option, char *text);

/* Sets a value from text. */
enum status option_set(
	const struct option *option, void *values, const char *text, struct error *error);

/* NULL: no option has that name. */
const struct option *option_table_find(const struct option_table *table, const char *name);
void option_table_defaults(const struct option_table *table, void *values);

/* "--name VALUE" of the help, in 128 bytes. */
enum { OPTION_USAGE_BYTES = 128 };
void option_usage(const struct option *option, char *text);

/* The help text with the explanation of each word and the default, truncated to OPTION_HELP_BYTES.
   */
enum { OPTION_HELP_BYTES = 2048 };
void option_help(const struct option *option, char *text);

/* The whole help of a command or group. */
void command_print_help(const struct command *command, FILE *file);

/* The main options only, where the command names some. */
void command_print_short_help(const struct command *command, FILE *file);

/* Prints one line on stderr, after wrong use with a hint to the help; returns the exit code. */
int command_fail(const struct command *command, const struct error *error);

#endif
