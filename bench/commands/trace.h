#ifndef BENCH_COMMANDS_TRACE_H
#define BENCH_COMMANDS_TRACE_H

/* The commands of quire trace, one file each (trace_NAME.c). argv[0] is the command's
   own name; the result is the program's exit code. */

int command_trace_make(int argc, char **argv);
int command_trace_convert(int argc, char **argv);
int command_trace_stat(int argc, char **argv);
int command_trace_cache(int argc, char **argv);

#endif
