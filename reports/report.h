#ifndef REPORTS_REPORT_H
#define REPORTS_REPORT_H

#include <stdint.h>

#include "engine/base/status.h"

/* More results could not be told apart by colour, and gnuplot takes no more arguments. */
enum { REPORT_RESULTS_MAX = 8 };

/* Makes one HTML page, complete in itself, of some result folders (reports/results/results.h),
   overlaid when there are several. A simulated run and a real one must be of one trace: the page
   then shows the errors of the simulation. It is written as OUT.part and renamed, so OUT is whole
   or as it was before. Its bytes depend on the folders' names and files alone (and on gnuplot's
   version). Needs gnuplot on PATH. directories: (count), count in [1, REPORT_RESULTS_MAX]. */
enum status report_write(
	const char *const *directories, uint32_t count, const char *out_path, struct error *error);

#endif
