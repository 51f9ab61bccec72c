#ifndef REPORTS_RESULTS_RESULT_TABLES_H
#define REPORTS_RESULTS_RESULT_TABLES_H

#include <stdbool.h>

#include "engine/base/status.h"

/* Reads the tables of a result folder that figures are drawn from, whole, and demands that their
   columns are there and hold numbers where numbers belong: gnuplot would leave out what it cannot
   read, and the figure would be wrong without a word. has_kernels: kernels were measured, and the
   tables about them checked too. */
enum status result_tables_check(const char *directory, bool *has_kernels, struct error *error);

#endif
