#include "reports/figures/svg.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reports/figures/drawn_colors.h"
#include "tests/harness/require.h"

/* A drawing becomes part of a page: by value, colour by colour. */

static struct text inlined(const char *svg, const char *prefix, const char *label)
{
	struct text from = {0}, page = {0};
	struct error error = {0};

	text_add(&from, svg);
	require(svg_inline(&page, &from, prefix, label, &error) == STATUS_OK, "%s", error.text);
	text_deinit(&from);
	return page;
}

#define HEAD "<?xml version=\"1.0\"?>\n<svg width=\"9\" viewBox=\"0 0 60 40\" fill=\"none\">"

/* Each colour has a variable of its own, in every notation that gnuplot has. */
Test(svg, every_color_becomes_its_own_variable)
{
	struct drawn_color colors[DRAWN_COLORS_MAX];
	uint32_t count = drawn_colors(colors);

	require(count >= 10, "%u colours", count);
	for (uint32_t i = 0; i < count; i++) {
		char svg[512], expected[512], variable[64];
		unsigned red = colors[i].rgb >> 16, green = colors[i].rgb >> 8 & 255;
		unsigned blue = colors[i].rgb & 255;
		bool is_text = strcmp(colors[i].name, "text") == 0;
		bool is_background = strcmp(colors[i].name, "background") == 0;
		snprintf(variable, sizeof(variable), "var(--%.15s)", colors[i].name);
		if (is_text || is_background) {
			strcpy(variable, is_text ? "currentColor" : "none");
		}
		snprintf(svg, sizeof(svg),
			HEAD "<path stroke='rgb(%3u,%3u,%3u)'/><path stroke='rgb(%u, %u, %u)'/>"
			     "<path fill='#%06x'/>#%06x</svg>",
			red, green, blue, red, green, blue, colors[i].rgb, colors[i].rgb);
		struct text page = inlined(svg, "f", "l");
		snprintf(expected, sizeof(expected),
			"<svg role=\"img\" aria-label=\"l\" viewBox=\"0 0 60 40\"><path "
			"stroke='%s'/><path stroke='%s'/><path fill='%s'/>#%06x</svg>\n",
			variable, variable, variable, colors[i].rgb);
		cr_expect_str_eq(page.bytes, expected);
		text_deinit(&page);
	}
}

Test(svg, other_colors_and_text_stay)
{
	struct text page = inlined(HEAD
		"<g>\n\t<path fill='#010203' stroke=\"rgb(1,2,3)\"/>\n</g>rgb(1,2,3)</svg>",
		"f", "a \"label\" <b>");

	cr_expect_str_eq(page.bytes,
		"<svg role=\"img\" aria-label=\"a &quot;label&quot; &lt;b&gt;\" "
		"viewBox=\"0 0 60 40\"><g><path fill='#010203' stroke=\"rgb(1,2,3)\"/>\n"
		"</g>rgb(1,2,3)</svg>\n");
	text_deinit(&page);
}

Test(svg, half_a_drawing_is_refused)
{
	static const char *const halves[] = {"", "<svg", "<svg viewBox=\"0 0 1 1\"",
		"<svg viewBox=\"0 0 1 1\"><path/>", "<svg><path/></svg>", "</svg>"};

	for (uint32_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		struct text from = {0}, page = {0};
		struct error error = {0};
		text_add(&from, halves[i]);
		require(svg_inline(&page, &from, "f", "l", &error) == STATUS_FILE, "takes '%s'",
			halves[i]);
		require_equal(page.byte_count, 0);
		text_deinit(&from);
		text_deinit(&page);
	}
}
