#ifndef BENCH_GATE_GATE_HISTORY_H
#define BENCH_GATE_GATE_HISTORY_H

#include <stdio.h>

#include "bench/gate/gate.h"
#include "engine/base/status.h"

/* Adds a line to a history: a file of JSON lines, one a gate, of which gate_history_print() tells.

       {"commit": "1a2b3c4", "date": "2026-11-22T09:10:46Z",
        "cases": {"chat": {"verdict": "PASS", "figures": {"ttft.p99": 81.2}}}}

   The file is replaced as a whole, so that it never has half a line. */
enum status gate_history_add(const struct gate *gate, const char *path, struct error *error);

/* Prints where the levels of the figures changed over the lines of a history
   (reports/results/change_points.h says how they are found): the commit, the case, the figure, and
   the means of the levels before and after. The latest CHANGE_POINT_SERIES_MAX lines count. */
enum status gate_history_print(const char *path, FILE *out, struct error *error);

#endif
