#ifndef REPORTS_PAGE_PAGE_H
#define REPORTS_PAGE_PAGE_H

#include <stdint.h>

#include "reports/results/fidelity.h"
#include "reports/figures/figures.h"
#include "reports/results/result.h"
#include "engine/base/text.h"

/* The page as one HTML text without anything to load. results: (count), labelled; fidelity: of the
   first two against each other, or NULL; drawings: (figure_count) what gnuplot drew for each
   figure; style: the style sheet. */
enum status page_write(struct text *page, const struct result *results, uint32_t count,
	const struct fidelity *fidelity, const struct text *drawings, const char *style,
	struct error *error);

#endif
