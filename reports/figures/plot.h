#ifndef REPORTS_FIGURES_PLOT_H
#define REPORTS_FIGURES_PLOT_H

#include <stdio.h>

#include "engine/base/status.h"

/* One figure of one table, drawn by an embedded script of reports/figures/. */

struct plot {
	FILE *table; /* write it here, tab-separated, with a header line */
};

enum status plot_begin(struct plot *plot, struct error *error);

/* Draws script on the table and writes the SVG to path. subject: a name that the script may show,
   or NULL. Closes the table in any case. */
enum status plot_draw(struct plot *plot, const char *script, const char *subject, const char *path,
	struct error *error);

#endif
