#include "reports/page/page.h"

#include "reports/page/page_sections.h"

static void add_scripts(struct text *page, const struct page_request *request)
{
	page_data(page, request->results, request->count);
	text_add(page, "<script>\n");
	text_add(page, request->script);
	text_add(page, "</script>\n");
}

enum status page_write(struct text *page, const struct page_request *request, struct error *error)
{
	const struct result *results = request->results;
	uint32_t count = request->count;

	page_head(page, results, count, request->fidelity != NULL, request->style);
	page_banners(page, results, count);
	if (count == 1) {
		page_verdict(page, &results[0]);
		page_cards(page, &results[0]);
	} else if (request->fidelity != NULL) {
		page_fidelity(page, request->fidelity);
	} else {
		page_comparison(page, results, count);
	}
	page_calibration(page, results, count);
	page_levels(page, results, count);
	page_fleet(page, results, count);
	TRY(page_figures(page, results, count, request->drawings, error));
	if (request->fidelity == NULL) {
		page_latencies(page, results, count); /* page_fidelity() shows them all */
	}
	text_add(page, "<div class=\"columns\">\n");
	page_totals(page, results, count);
	text_add(page, "<div>\n");
	page_configuration(page, results, count, &request->defaults);
	page_provenance(page, results, count);
	text_add(page, "</div>\n</div>\n</main>\n");
	add_scripts(page, request);
	text_add(page, "</body>\n</html>\n");
	return STATUS_OK;
}
