#ifndef REPORTS_FIGURES_PLOT_H
#define REPORTS_FIGURES_PLOT_H

#include <stdio.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* One figure of one table, drawn by an embedded script of reports/figures/. */

struct plot {
	FILE *table;	       /* write it here, tab-separated, with a header line */
	struct text variables; /* what the script finds set */
};

enum status plot_begin(struct plot *plot, struct error *error);

/* Variables of the script, which says in its head what it reads. */
void plot_set_text(struct plot *plot, const char *name, const char *value);
void plot_set_number(struct plot *plot, const char *name, double value);

/* Draws script on the table and writes the SVG to path. Closes the table in any case. */
enum status plot_draw(struct plot *plot, const char *script, const char *path, struct error *error);

#endif
