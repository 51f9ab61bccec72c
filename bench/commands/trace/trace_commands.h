#ifndef BENCH_COMMANDS_TRACE_TRACE_COMMANDS_H
#define BENCH_COMMANDS_TRACE_TRACE_COMMANDS_H

#include "bench/options/options.h"

/* The commands of `quire trace`, one file each, in the order of the help: X(NAME) is `const struct
   command command_NAME`. */

#define QUIRE_TRACE_COMMANDS(X)                                                                    \
	X(trace_make)                                                                              \
	X(trace_stat)                                                                              \
	X(trace_cache)                                                                             \
	X(trace_convert)

#define COMMAND_DECLARATION(name) extern const struct command command_##name;
QUIRE_TRACE_COMMANDS(COMMAND_DECLARATION)
#undef COMMAND_DECLARATION

#endif
