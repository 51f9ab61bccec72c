#ifndef REPORTS_PAGE_PAGE_H
#define REPORTS_PAGE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "reports/results/fidelity.h"
#include "reports/figures/figures.h"
#include "reports/results/result.h"
#include "engine/base/text.h"

/* What a page is made of. All is borrowed. */
struct page_request {
	const struct result *results; /* (count), named by page_name_runs() */
	uint32_t count;
	const struct fidelity
		*fidelity;	     /* the errors of the second relative to the first; or NULL */
	struct json_object defaults; /* configuration of a run without options; node NULL: none */
	struct figure_drawing (*drawings)[FIGURES_MAX]; /* (VIEW_COUNT, figure_count) */
	const char *style;				/* page.css */
	const char *script;				/* page.js; the page is whole without it */
};

/* Gives each result the name that its curves and columns have: the one or two settings in which it
   differs from the others; `real` and `simulated` where one is compared with the other; else its
   folder. The results have labels. */
void page_name_runs(struct result *results, uint32_t count, bool is_fidelity);

/* Writes the page as one self-contained HTML text. */
enum status page_write(struct text *page, const struct page_request *request, struct error *error);

#endif
