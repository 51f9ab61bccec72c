#ifndef REPORTS_REPORT_H
#define REPORTS_REPORT_H

#include <stdint.h>

#include "engine/base/status.h"

/* There are eight colours, and gnuplot takes no more arguments. */
enum { REPORT_RESULTS_MAX = 8 };

/* Makes one self-contained HTML page of result folders (reports/results/results.h), overlaid when
   there are several. For a simulated and a real run, which must be of one trace, the page shows the
   errors of the simulation. The folder of a plan or of a sweep and the file of a gate's history
   (reports/results/history_file.h) have pages of their own and stand alone. It is written as
   OUT.part and renamed, so OUT is either complete or unchanged. Its bytes depend only on the names
   and files (and on gnuplot's version). Needs gnuplot on PATH. An out_path with the name of a
   result's file is refused.

   directories: (count), count in [1, REPORT_RESULTS_MAX]. defaults: the configuration of a run
   without options, as a JSON object; the page folds settings that equal it away. NULL: none do. */
enum status report_write(const char *const *directories, uint32_t count, const char *out_path,
	const char *defaults, struct error *error);

/* Refuses a file that would be replaced and is not empty, unless it is a page of quire. To be asked
   before report_write(), which replaces any. */
enum status report_refuse_old(const char *out_path, struct error *error);

#endif
