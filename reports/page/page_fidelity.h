#ifndef REPORTS_PAGE_PAGE_FIDELITY_H
#define REPORTS_PAGE_PAGE_FIDELITY_H

#include "reports/results/fidelity.h"
#include "engine/base/text.h"

/* The part of a page that holds a simulated run against a real one: which is which, the errors that
   matter most, all latencies, then counts, step times and KV blocks. The real run is the page's
   first. */
void page_fidelity(struct text *page, const struct fidelity *fidelity);

#endif
