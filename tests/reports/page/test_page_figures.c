#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "reports/figures/figures.h"
#include "reports/page/page_sections.h"
#include "tests/harness/require.h"

/* The section of figures, byte by byte: some are drawn, once or in two ways, and those that would
   be empty are named with the reason. */

#define SVG(letter) "<svg viewBox=\"0 0 6 4\"><path id=\"" letter "\"/></svg>"
#define INLINE(name, title, letter)                                                                \
	"<svg role=\"img\" aria-labelledby=\"" name "-title " name "-data\" "                      \
	"viewBox=\"0 0 6 4\" data-panels=\"[]\" data-cells=\"[]\"><title id=\"" name               \
	"-title\">" title "</title><desc id=\"" name "-data\"></desc><path id=\"" name "-" letter  \
	"\"/></svg>\n"
#define HEAD "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n"

static void require_page(const struct text *page, const char *expected)
{
	require(strcmp(page->bytes, expected) == 0, "found\n%s\nexpected\n%s", page->bytes,
		expected);
}

Test(page_figures, plots_are_drawn_or_named)
{
	static const char *const curves[] = {"a<b", "c"};
	struct figure_drawing drawn = {.svg = {0}}, dull = {.svg = {0}}, last = {.svg = {0}};
	struct page_plot plots[] = {
		{.name = "x", .title = "X & Y", .reading = "Read <it>.", .drawing = &drawn},
		{.name = "d", .title = "D>", .reading = "Never said.", .drawing = &dull},
		{.name = "w",
			.title = "W",
			.reading = "Wide.",
			.is_wide = true,
			.curves = curves,
			.curve_count = 2,
			.drawing = &drawn},
		{.name = "l", .title = "L", .reading = "Nor this.", .drawing = &last},
	};
	struct text page = {0};
	struct error error = {0};

	text_add(&drawn.svg, SVG("p"));
	text_add(&dull.svg, SVG("q"));
	text_add(&dull.notes, "a warning\nnote empty no <rows>\n");
	text_add(&last.notes, "note empty no time\n");
	require(page_plots(&page, plots, 4, &error) == STATUS_OK, "%s", error.text);
	require_page(&page,
		HEAD "<figure id=\"figure-x\">\n<h3>X &amp; Y</h3>\n" INLINE("x", "X &amp; Y",
			"p") "<figcaption>Read &lt;it&gt;.</figcaption>\n"
			     "</figure>\n"
			     "<figure id=\"figure-w\" class=\"wide\">\n"
			     "<h3>W</h3>\n<p class=\"curves\">"
			     "<span class=\"name run-1\">a&lt;b</span> "
			     "<span class=\"name run-2\">c</span> </p>\n"
			     "<div class=\"scroll\">\n" INLINE("w", "W",
				     "p") "</div>\n<figcaption>Wide.</figcaption>\n</figure>\n"
					  "</div>\n<p class=\"note\" id=\"empty\">Not drawn: D&gt; "
					  "(no &lt;rows&gt;); "
					  "L (no time).</p>\n</section>\n");
	text_deinit(&page);
	require(page_plots(&page, plots, 1, &error) == STATUS_OK, "%s", error.text);
	require(strstr(page.bytes, "Not drawn") == NULL, "%s", page.bytes);
	text_deinit(&page);
	text_deinit(&drawn.svg);
	text_deinit(&dull.svg);
	text_deinit(&dull.notes);
	text_deinit(&last.notes);
}

/* The last figure is drawn in two ways, the one before has nothing to draw. */
Test(page_figures, figures_of_results_are_drawn_or_named)
{
	static struct figure_drawing drawings[VIEW_COUNT][FIGURES_MAX];
	struct result results[2] = {{.label = {0}}};
	uint32_t last = figure_count - 1;
	struct figure_drawing *main = &drawings[VIEW_MAIN][last];
	struct text page = {0}, expected = {0};
	struct error error = {0};
	const char *name = figures[last].name;

	text_add(&main->svg, SVG("p"));
	text_add(&drawings[VIEW_LINEAR][last].svg, SVG("q"));
	text_add(&drawings[VIEW_MAIN][last - 1].notes, "note empty no time\n");
	require(page_figures(&page, results, 1, drawings, &error) == STATUS_OK, "%s", error.text);
	text_format(&expected, HEAD "<figure id=\"figure-%s\">\n<h3>%s</h3>\n", name,
		figures[last].title);
	text_format(&expected,
		"<div class=\"views\"><input type=\"radio\" name=\"view-%s\" id=\"view-%s-0\" "
		"checked><label for=\"view-%s-0\">tail</label><input type=\"radio\" "
		"name=\"view-%s\" id=\"view-%s-1\"><label for=\"view-%s-1\">linear</label>\n",
		name, name, name, name, name, name);
	text_format(&expected, INLINE("%s", "%s", "p") INLINE("%s-linear", "%s", "q"), name, name,
		name, figures[last].title, name, name, name, name, name, figures[last].title, name,
		name);
	text_format(&expected, "</div>\n<figcaption>%s</figcaption>\n</figure>\n</div>\n",
		figures[last].reading);
	text_format(&expected,
		"<p class=\"note\" id=\"empty\">Not drawn: %s (no time).</p>\n</section>\n",
		figures[last - 1].title);
	require_page(&page, expected.bytes);
	text_deinit(&page);
	text_deinit(&expected);
	text_deinit(&main->svg);
	text_deinit(&drawings[VIEW_LINEAR][last].svg);
	text_deinit(&drawings[VIEW_MAIN][last - 1].notes);
}
