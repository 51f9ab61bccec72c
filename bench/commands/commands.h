#ifndef BENCH_COMMANDS_COMMANDS_H
#define BENCH_COMMANDS_COMMANDS_H

#include "bench/options/options.h"

/* The commands of quire, one file each, in the order of the help: X(command_NAME). A command is a
   constant `struct command`, listed here once. */

#define QUIRE_COMMANDS(X)                                                                          \
	X(replay)                                                                                  \
	X(plan)                                                                                    \
	X(sweep)                                                                                   \
	X(report)                                                                                  \
	X(compare)                                                                                 \
	X(gate)                                                                                    \
	X(calibrate)                                                                               \
	X(price)                                                                                   \
	X(info)                                                                                    \
	X(trace)                                                                                   \
	X(generate)                                                                                \
	X(kernels)                                                                                 \
	X(export)                                                                                  \
	X(help)                                                                                    \
	X(version)

#define COMMAND_DECLARATION(name) extern const struct command command_##name;
QUIRE_COMMANDS(COMMAND_DECLARATION)
#undef COMMAND_DECLARATION

/* The program: the group of all commands. */
extern const struct command command_quire;

#endif
