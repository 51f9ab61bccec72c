#ifndef REPORTS_FIGURES_SVG_H
#define REPORTS_FIGURES_SVG_H

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Makes a gnuplot drawing part of a page. Several drawings share the page, so `prefix` is put in
   front of ids. The colours of reports/figures/style.gp become CSS variables of the page (--run-1
   to --run-8, --grid; text and axes have the page's text colour), so that they follow its dark
   mode. Parts without use on a page (tooltips, filters, the background) are removed.

   prefix: letters, digits and -; label: a description of the drawing, for screen readers. */
enum status svg_inline(struct text *page, const struct text *svg, const char *prefix,
	const char *label, struct error *error);

#endif
