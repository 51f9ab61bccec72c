#ifndef REPORTS_TABLE_H
#define REPORTS_TABLE_H

#include <stdint.h>

#include "engine/base/status.h"

/* Columns of a tab-separated table that a figure reads; the others are not looked at. */
enum { TABLE_COLUMNS_MAX = 16 };

struct table_format {
	const char *name;	 /* of the file in a result folder */
	const char *text_column; /* holds words instead of numbers; NULL: none does */
	const char *columns[TABLE_COLUMNS_MAX]; /* hold numbers; NULL behind the last */
};

/* Reads DIRECTORY/NAME and demands that the columns are there, that every line has as many cells as
   the header, and numbers (or `-`) where numbers are expected: gnuplot would leave out what it
   cannot read, and the figure would be wrong without a word. */
enum status table_check(
	const char *directory, const struct table_format *format, struct error *error);

#endif
