#ifndef REPORTS_FIGURES_SVG_H
#define REPORTS_FIGURES_SVG_H

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Makes a gnuplot drawing part of a page. Several drawings share the page, so `prefix` is put in
   front of ids. The colours of reports/figures/style.gp become CSS variables of the page (--run-1
   to --run-8, --grid; text and axes have the page's text colour), so that they follow its dark
   mode. Parts without use on a page (filters, the background, what gnuplot says of itself) are
   removed.

   prefix: letters, digits and -; notes: of the figure's script: its sentences describe the drawing
   to screen readers, its panels become the attribute data-panels. */
enum status svg_inline(struct text *page, const struct text *svg, const struct text *notes,
	const char *prefix, const char *title, struct error *error);

/* Gives a drawing that stands alone its title and description in place of gnuplot's. */
void svg_describe(struct text *out, const struct text *svg, const struct text *notes);

#endif
