#ifndef BENCH_OPTIONS_COMPLETION_H
#define BENCH_OPTIONS_COMPLETION_H

#include "bench/options/options.h"

/* Completion scripts of shells for a program's commands, options, words and file names. */

enum shell { SHELL_BASH, SHELL_ZSH, SHELL_FISH };

/* The value of --completion; NULL past the last. */
const char *shell_word(uint32_t index);

void completion_print(const struct command *program, enum shell shell, FILE *file);

#endif
