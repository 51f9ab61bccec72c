#ifndef REPORTS_RESULTS_RESULT_TABLES_H
#define REPORTS_RESULTS_RESULT_TABLES_H

#include <stdbool.h>

#include "engine/base/status.h"

/* Checks the tables of a result folder that figures are drawn from, and the levels of a ramp: their
   columns exist, and number columns hold numbers. gnuplot would skip what it cannot read, and draw
   a wrong figure silently. has_kernels: kernels were measured, and the tables about them checked
   too. has_requests: the folder has the table of requests, the largest, which may have been left
   out of a copy. */
enum status result_tables_check(
	const char *directory, bool *has_kernels, bool *has_requests, struct error *error);

#endif
