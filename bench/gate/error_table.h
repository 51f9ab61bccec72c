#ifndef BENCH_GATE_ERROR_TABLE_H
#define BENCH_GATE_ERROR_TABLE_H

#include <stdio.h>

#include "bench/gate/gate.h"

/* Prints the errors of simulations of recorded runs as a Markdown table: a row for each case, a
   column for each figure that has a limit and for each latency, its statistics in one column. What
   is beyond its limit is bold. Below a case with several recorded runs stands how far these are at
   most from their mean. Nothing where no case is such a simulation. */
void error_table_print(const struct gate *gate, FILE *out);

#endif
