#ifndef REPORTS_FIGURES_PLOT_H
#define REPORTS_FIGURES_PLOT_H

#include <stdint.h>
#include <stdio.h>

#include "engine/base/status.h"
#include "engine/base/text.h"
#include "reports/figures/figures.h"
#include "reports/figures/gnuplot.h"

/* One figure of one table, drawn by an embedded script of reports/figures/. */

struct plot {
	FILE *table;	       /* write it here, tab-separated, with a header line */
	struct text variables; /* what the script finds set */
	struct gnuplot gnuplot;
};

enum status plot_begin(struct plot *plot, struct error *error);

/* Variables of the script, which says in its head what it reads. */
void plot_set_text(struct plot *plot, const char *name, const char *value);
void plot_set_number(struct plot *plot, const char *name, double value);

/* The variable NAME_number. */
void plot_set_text_at(struct plot *plot, const char *name, uint32_t number, const char *value);

/* How figures draw values of a format, in a unit: times in s, shares in percent. */
const char *plot_kind(enum number_format format); /* "time", "share" or "plain" */
double plot_value(enum number_format format, const char *unit, double value);

/* Starts the drawing; several may be started before each is finished. Closes the table in any case.
 */
enum status plot_start(struct plot *plot, const char *script, struct error *error);

/* Appends the drawing and its notes. To be called after every start, failed or not; a zeroed plot
   is accepted. */
enum status plot_finish(struct plot *plot, struct figure_drawing *drawing, struct error *error);

/* Both, and writes the SVG to path, with its title and description. */
enum status plot_draw(struct plot *plot, const char *script, const char *path, struct error *error);

#endif
