#ifndef REPORTS_FIGURES_SVG_H
#define REPORTS_FIGURES_SVG_H

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Makes a drawing of gnuplot part of a page. Several drawings share the page, so ids get `prefix`
   in front; the colours that reports/figures/style.gp draws with become the page's own (--run-1 to
   --run-8, --grid; text and axes take the page's text colour), so that they follow it into the
   dark; what is of no use on a page (titles that pop up, filters, the background) goes.

   prefix: letters, digits and -; label: what the drawing shows, for those who cannot see it. */
enum status svg_inline(struct text *page, const struct text *svg, const char *prefix,
	const char *label, struct error *error);

#endif
