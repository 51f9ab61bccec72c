#ifndef BENCH_OPTIONS_OPTIONS_H
#define BENCH_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A command line described by a table: the same rows parse it, check it and print its help.

   Options are `--name VALUE` or `--name=VALUE`, flags `--name`; each at most once; `--` ends them;
   everything else is a positional argument. `--help` and `-h` are known to every command. */

enum option_kind {
	OPTION_HEADING, /* a line of the help that groups the rows below it; only .help is read */
	OPTION_FLAG,	/* bool: set to true */
	OPTION_COUNT,	/* uint64_t: an integer in [minimum, maximum] */
	OPTION_MILLIONTHS, /* uint64_t: a decimal of at most 6 places, kept as value * 10^6;
			      minimum and maximum are in millionths too */
	OPTION_TEXT,	   /* const char *: anything but the empty text */
	OPTION_CHOICE,	   /* uint32_t: index of the word in .choices */
};

struct option {
	const char *name; /* without the dashes */
	enum option_kind kind;
	void *value;	      /* where it goes, holds the default before */
	const char *argument; /* name of the value in the help, as "N" or "DIR" */
	const char *help;     /* one sentence or two; default and range are written here */
	uint64_t minimum, maximum;
	const char *const *choices; /* NULL-terminated */
	bool *is_given;		    /* NULL: nobody asks */
};

struct command {
	const char *name;	      /* "replay", or "trace make" */
	const char *arguments;	      /* of the usage line, as "TRACE --out DIR [options]" */
	const char *summary;	      /* what it does and for whom, some lines */
	const char *examples;	      /* lines that run as they stand */
	const struct option *options; /* (option_count) */
	uint32_t option_count;
	uint32_t positional_minimum, positional_maximum;
};

/* Parses argv[1..argc). positionals: (positional_maximum), pointing into argv. With --help,
   *wants_help is set, nothing is checked and the caller prints command_help(). Failures are
   STATUS_USAGE with one line that names the option, what was found and what was expected. */
enum status options_parse(const struct command *command, int argc, char **argv,
	const char **positionals, uint32_t *positional_count, bool *wants_help,
	struct error *error);

/* The whole help of a command on stdout. */
void command_help(const struct command *command);

/* One line on stderr, for wrong use with the way to the help; returns the exit code. */
int command_fail(const struct command *command, const struct error *error);

#endif
