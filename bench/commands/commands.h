#ifndef BENCH_COMMANDS_COMMANDS_H
#define BENCH_COMMANDS_COMMANDS_H

/* The commands of quire, one file each (bench/command_NAME.c). argv[0] is the command's own name;
   the result is the program's exit code. */

int command_replay(int argc, char **argv);
int command_report(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_info(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_kernels(int argc, char **argv);
int command_export(int argc, char **argv);
int command_calibrate(int argc, char **argv);

#endif
