#ifndef BENCH_COMMAND_TRACE_H
#define BENCH_COMMAND_TRACE_H

/* The commands of quire trace, one file each (bench/command_trace_NAME.c). argv[0] is the command's
   own name; the result is the program's exit code. */

int command_trace_make(int argc, char **argv);

#endif
