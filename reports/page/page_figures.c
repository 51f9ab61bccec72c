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

/* A figure that would be empty is named instead, with the reason. */
static void add_empty(
	struct text *page, const char *title, const struct text *notes, bool *is_first)
{
	struct text reason = {0};

	if (notes_find(notes, "empty", 0, &reason)) {
		text_add(page, *is_first ? "<p class=\"note\" id=\"empty\">Not drawn: " : "; ");
		text_add_escaped(page, title);
		text_add(page, " (");
		text_add_escaped(page, reason.bytes);
		text_add(page, ")");
		*is_first = false;
	}
	text_deinit(&reason);
}

static bool is_drawn(const struct figure_drawing *drawing)
{
	struct text reason = {0};
	bool is_empty = notes_find(&drawing->notes, "empty", 0, &reason);

	text_deinit(&reason);
	return drawing->svg.byte_count > 0 && !is_empty;
}

enum status page_figures(struct text *page, const struct result *results, uint32_t count,
	struct figure_drawing (*drawings)[FIGURES_MAX], struct error *error)
{
	bool is_first = true;

	text_add(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
	for (uint32_t i = 0; i < figure_count; i++) {
		const struct figure_drawing *tail = &drawings[VIEW_MAIN][i];
		if (is_drawn(tail)) {
			TRY(add_figure(page, results, count, &figures[i], tail,
				&drawings[VIEW_LINEAR][i], error));
		}
	}
	text_add(page, "</div>\n");
	for (uint32_t i = 0; i < figure_count; i++) {
		add_empty(page, figures[i].title, &drawings[VIEW_MAIN][i].notes, &is_first);
	}
	text_add(page, is_first ? "</section>\n" : ".</p>\n</section>\n");
	return STATUS_OK;
}

static void add_curves(struct text *page, const struct page_plot *plot)
{
	text_add(page, plot->curve_count > 0 ? "<p class=\"curves\">" : "");
	for (uint32_t i = 0; i < plot->curve_count; i++) {
		text_format(page, "<span class=\"name run-%u\">", i + 1);
		text_add_escaped(page, plot->curves[i]);
		text_add(page, "</span> ");
	}
	text_add(page, plot->curve_count > 0 ? "</p>\n" : "");
}

static enum status add_plot(struct text *page, const struct page_plot *plot, struct error *error)
{
	text_format(page, "<figure id=\"figure-%s\"%s>\n<h3>", plot->name,
		plot->is_wide ? " class=\"wide\"" : "");
	text_add_escaped(page, plot->title);
	text_add(page, "</h3>\n");
	add_curves(page, plot);
	text_add(page, plot->is_wide ? "<div class=\"scroll\">\n" : "");
	TRY(svg_inline(
		page, &plot->drawing->svg, &plot->drawing->notes, plot->name, plot->title, error));
	text_add(page, plot->is_wide ? "</div>\n<figcaption>" : "<figcaption>");
	text_add_escaped(page, plot->reading);
	text_add(page, "</figcaption>\n</figure>\n");
	return STATUS_OK;
}

enum status page_plots(
	struct text *page, const struct page_plot *plots, uint32_t count, struct error *error)
{
	bool is_first = true;

	text_add(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
	for (uint32_t i = 0; i < count; i++) {
		if (is_drawn(plots[i].drawing)) {
			TRY(add_plot(page, &plots[i], error));
		}
	}
	text_add(page, "</div>\n");
	for (uint32_t i = 0; i < count; i++) {
		add_empty(page, plots[i].title, &plots[i].drawing->notes, &is_first);
	}
	text_add(page, is_first ? "</section>\n" : ".</p>\n</section>\n");
	return STATUS_OK;
}
