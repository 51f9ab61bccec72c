#ifndef REPORTS_RESULTS_RESULT_NAMES_H
#define REPORTS_RESULTS_RESULT_NAMES_H

#include "engine/base/status.h"

/* Refuses the name of a file of a result, a plan or a sweep: a page, a picture or a table beside
   them never replaces what may have taken hours to make. cache.tsv is one in the folder of a sweep
   alone. option: that the path belongs to; instead: a name for the error; path NULL: nothing is
   written. */
enum status result_names_refuse(
	const char *option, const char *path, const char *instead, struct error *error);

#endif
