#include "reports/page/page_sections.h"

#include "reports/figures/svg.h"
#include "reports/page/page_elements.h"

static void add_legend(struct text *page, const struct result *results, uint32_t count)
{
	text_add(page, "<p class=\"legend\">");
	for (uint32_t i = 0; i < count; i++) {
		page_name(page, &results[i], i);
		text_add(page, " ");
	}
	text_add(page, "</p>\n");
}

enum status page_figures(struct text *page, const struct result *results, uint32_t count,
	const struct text *drawings, struct error *error)
{
	text_add(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
	for (uint32_t i = 0; i < figure_count; i++) {
		if (drawings[i].byte_count == 0) {
			continue; /* no result has what it shows */
		}
		text_format(page, "<figure id=\"figure-%s\"%s>\n<h3>%s</h3>\n", figures[i].name,
			count > 1 && figures[i].has_own_legend ? " class=\"wide\"" : "",
			figures[i].title);
		if (count > 1 && !figures[i].has_own_legend) {
			add_legend(page, results, count);
		}
		TRY(svg_inline(page, &drawings[i], figures[i].name, figures[i].title, error));
		text_format(page, "<figcaption>%s</figcaption>\n</figure>\n", figures[i].reading);
	}
	text_add(page, "</div>\n</section>\n");
	return STATUS_OK;
}
