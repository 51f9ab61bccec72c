#ifndef REPORTS_RESULTS_RESULT_TABLES_H
#define REPORTS_RESULTS_RESULT_TABLES_H

#include <stdbool.h>

#include "engine/base/status.h"

/* Checks the tables of a result folder that figures are drawn from: their columns exist, and number
   columns hold numbers. gnuplot would skip what it cannot read, and draw a wrong figure silently.
   has_kernels: kernels were measured, and the tables about them checked too. */
enum status result_tables_check(const char *directory, bool *has_kernels, struct error *error);

#endif
