#include "reports/page/page.h"

#include "reports/page/page_sections.h"

enum status page_write(struct text *page, const struct result *results, uint32_t count,
	const struct fidelity *fidelity, const struct text *drawings, const char *style,
	struct error *error)
{
	page_head(page, results, count, fidelity != NULL, style);
	page_banners(page, results, count);
	if (count == 1) {
		page_verdict(page, &results[0]);
		page_cards(page, &results[0]);
	} else if (fidelity != NULL) {
		page_fidelity(page, fidelity);
	} else {
		page_comparison(page, results, count);
	}
	page_calibration(page, results, count);
	TRY(page_figures(page, results, count, drawings, error));
	if (fidelity == NULL) {
		page_latencies(page, results, count); /* page_fidelity() shows them all */
	}
	page_totals(page, results, count);
	page_fields(page, results, count);
	text_add(page, "</main>\n</body>\n</html>\n");
	return STATUS_OK;
}
