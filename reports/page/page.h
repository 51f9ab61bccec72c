#ifndef REPORTS_PAGE_PAGE_H
#define REPORTS_PAGE_PAGE_H

#include <stdint.h>

#include "reports/results/fidelity.h"
#include "reports/figures/figures.h"
#include "reports/results/result.h"
#include "engine/base/text.h"

/* Writes the page as one self-contained HTML text. results: (count), labelled. fidelity: the errors
   of the second result relative to the first, or NULL. drawings: (figure_count) SVG texts, one per
   figure. style: the style sheet. */
enum status page_write(struct text *page, const struct result *results, uint32_t count,
	const struct fidelity *fidelity, const struct text *drawings, const char *style,
	struct error *error);

#endif
