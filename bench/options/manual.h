#ifndef BENCH_OPTIONS_MANUAL_H
#define BENCH_OPTIONS_MANUAL_H

#include "bench/options/options.h"

/* The manual page quire(1) of a program and all its commands, in the macros of man(7). */
void manual_print(const struct command *program, const char *version, FILE *file);

#endif
