#ifndef BENCH_GATE_GATE_HISTORY_H
#define BENCH_GATE_GATE_HISTORY_H

#include <stdio.h>

#include "bench/gate/gate.h"
#include "engine/base/status.h"

/* Refuses a file that is there and is no history. */
enum status gate_history_check(const char *path, struct error *error);

/* Adds a line to a history (reports/results/history_file.h), of which gate_history_print() tells.
   The file is replaced as a whole, so that it never has half a line. */
enum status gate_history_add(const struct gate *gate, const char *path, struct error *error);

/* Prints where the levels of the figures changed over the lines of a history
   (reports/results/change_points.h says how they are found): the commit, the case, the figure, and
   the means of the levels before and after. Those are told that the last line has, but for INVALID
   cases. The latest HISTORY_RUNS_MAX lines count. */
enum status gate_history_print(const char *path, FILE *out, struct error *error);

#endif
