#ifndef REPORTS_PAGE_PAGE_SECTIONS_H
#define REPORTS_PAGE_PAGE_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"
#include "reports/figures/figures.h"
#include "reports/results/fidelity.h"
#include "reports/results/result.h"

/* The sections of a page, from top to bottom; page.c puts them together. results: (count),
   labelled. */

/* page_head.c: everything up to <main>, which it opens, then warnings about whole runs. */
void page_head(struct text *page, const struct result *results, uint32_t count, bool is_fidelity,
	const char *style);
void page_banners(struct text *page, const struct result *results, uint32_t count);
void page_calibration(struct text *page, const struct result *results, uint32_t count);

/* page_cards.c: of one result. */
void page_verdict(struct text *page, const struct result *result);
void page_cards(struct text *page, const struct result *result);

/* page_fidelity.c: a simulated run compared with a real one: their names, the most important
   errors, all latencies, then counts, step times and KV blocks. The real run is the page's first.
   */
void page_fidelity(struct text *page, const struct fidelity *fidelity);

/* page_tables.c: key figures side by side, all latencies, all figures of summary.json. */
void page_comparison(struct text *page, const struct result *results, uint32_t count);
void page_latencies(struct text *page, const struct result *results, uint32_t count);
void page_totals(struct text *page, const struct result *results, uint32_t count);

/* page_figures.c. drawings: one SVG text for each of figures[]. */
enum status page_figures(struct text *page, const struct result *results, uint32_t count,
	const struct text *drawings, struct error *error);

/* page_fields.c: configuration and provenance, a row for each field. */
void page_fields(struct text *page, const struct result *results, uint32_t count);

#endif
