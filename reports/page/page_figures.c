#include "reports/page/page_sections.h"

#include "reports/figures/notes.h"
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

/* The drawing, and where there are two of it, a switch between them that needs no script. */
static enum status add_views(struct text *page, const struct figure *figure,
	const struct figure_drawing *tail, const struct figure_drawing *linear, struct error *error)
{
	char prefix[64];

	if (linear->svg.byte_count == 0) {
		return svg_inline(
			page, &tail->svg, &tail->notes, figure->name, figure->title, error);
	}
	text_format(page,
		"<div class=\"views\"><input type=\"radio\" name=\"view-%s\" id=\"view-%s-0\" "
		"checked><label for=\"view-%s-0\">tail</label>",
		figure->name, figure->name, figure->name);
	text_format(page,
		"<input type=\"radio\" name=\"view-%s\" id=\"view-%s-1\"><label "
		"for=\"view-%s-1\">linear</label>\n",
		figure->name, figure->name, figure->name);
	TRY(svg_inline(page, &tail->svg, &tail->notes, figure->name, figure->title, error));
	snprintf(prefix, sizeof(prefix), "%s-linear", figure->name);
	TRY(svg_inline(page, &linear->svg, &linear->notes, prefix, figure->title, error));
	text_add(page, "</div>\n");
	return STATUS_OK;
}

static enum status add_figure(struct text *page, const struct result *results, uint32_t count,
	const struct figure *figure, const struct figure_drawing *tail,
	const struct figure_drawing *linear, struct error *error)
{
	bool is_wide = count > 1 && figure->has_own_legend;

	text_format(page, "<figure id=\"figure-%s\"%s>\n<h3>%s</h3>\n", figure->name,
		is_wide ? " class=\"wide\"" : "", figure->title);
	if (count > 1 && !figure->has_own_legend) {
		add_legend(page, results, count);
	}
	text_add(page, is_wide ? "<div class=\"scroll\">\n" : "");
	TRY(add_views(page, figure, tail, linear, error));
	text_add(page, is_wide ? "</div>\n" : "");
	text_format(page, "<figcaption>%s</figcaption>\n</figure>\n", figure->reading);
	return STATUS_OK;
}

/* Figures that would be empty are named instead, with the reason. */
static void add_empty(struct text *page, const struct figure_drawing *drawings)
{
	struct text reason = {0};
	bool is_first = true;

	for (uint32_t i = 0; i < figure_count; i++) {
		if (!notes_find(&drawings[i].notes, "empty", 0, &reason)) {
			continue;
		}
		text_add(page, is_first ? "<p class=\"note\" id=\"empty\">Not drawn: " : "; ");
		text_format(page, "%s (", figures[i].title);
		text_add_escaped(page, reason.bytes);
		text_add(page, ")");
		text_deinit(&reason);
		is_first = false;
	}
	text_add(page, is_first ? "" : ".</p>\n");
}

enum status page_figures(struct text *page, const struct result *results, uint32_t count,
	struct figure_drawing (*drawings)[FIGURES_MAX], struct error *error)
{
	struct text reason = {0};

	text_add(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
	for (uint32_t i = 0; i < figure_count; i++) {
		const struct figure_drawing *tail = &drawings[VIEW_MAIN][i];
		bool is_empty = notes_find(&tail->notes, "empty", 0, &reason);
		text_deinit(&reason);
		if (tail->svg.byte_count > 0 && !is_empty) {
			TRY(add_figure(page, results, count, &figures[i], tail,
				&drawings[VIEW_LINEAR][i], error));
		}
	}
	text_add(page, "</div>\n");
	add_empty(page, drawings[VIEW_MAIN]);
	text_add(page, "</section>\n");
	return STATUS_OK;
}
