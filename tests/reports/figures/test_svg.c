#include "reports/figures/svg.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reports/figures/drawn_colors.h"
#include "reports/figures/notes.h"
#include "tests/harness/require.h"

/* A drawing becomes part of a page: by value, colour by colour. */

static struct text inlined(const char *svg, const char *prefix, const char *label)
{
	struct text from = {0}, page = {0}, notes = {0};
	struct error error = {0};

	text_add(&from, svg);
	require(svg_inline(&page, &from, &notes, prefix, label, &error) == STATUS_OK, "%s",
		error.text);
	text_deinit(&from);
	return page;
}

/* The open tag of a drawing without notes, as far as its title. */
#define OPEN                                                                                       \
	"<svg role=\"img\" aria-labelledby=\"f-title f-data\" viewBox=\"0 0 60 40\" "              \
	"data-panels=\"[]\" data-cells=\"[]\"><title id=\"f-title\">"
#define NO_DATA "</title><desc id=\"f-data\"></desc>"

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
			OPEN "l" NO_DATA "<path "
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

	cr_expect_str_eq(page.bytes, OPEN "a &quot;label&quot; &lt;b&gt;" NO_DATA
					  "<g><path fill='#010203' stroke=\"rgb(1,2,3)\"/>\n"
					  "</g>rgb(1,2,3)</svg>\n");
	text_deinit(&page);
}

Test(svg, half_a_drawing_is_refused)
{
	static const char *const halves[] = {"", "<svg", "<svg viewBox=\"0 0 1 1\"",
		"<svg viewBox=\"0 0 1 1\"><path/>", "<svg><path/></svg>", "</svg>"};

	for (uint32_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		struct text from = {0}, page = {0}, notes = {0};
		struct error error = {0};
		text_add(&from, halves[i]);
		require(svg_inline(&page, &from, &notes, "f", "l", &error) == STATUS_FILE,
			"takes '%s'", halves[i]);
		require_equal(page.byte_count, 0);
		text_deinit(&from);
		text_deinit(&page);
	}
}

/* ---- notes ---- */

static const char *const said = "Warning: empty y range\n"
				"note describe d1: at most 7 & <rising>.\n"
				"note panel {\"box\":[1,2]}\n"
				"note describe d2: none.\n"
				"note cells [1,2.5]\n"
				"note title A \"plot\"\n";

/* What a script says reaches those who cannot see its drawing, and the page's script. */
Test(svg, notes_become_description_and_data)
{
	struct text from = {0}, page = {0}, notes = {0};
	struct error error = {0};

	text_add(&from, HEAD "<g/></svg>");
	text_add(&notes, said);
	require(svg_inline(&page, &from, &notes, "f", "l", &error) == STATUS_OK, "%s", error.text);
	cr_expect_str_eq(page.bytes,
		"<svg role=\"img\" aria-labelledby=\"f-title f-data\" viewBox=\"0 0 60 40\" "
		"data-panels=\"[{&quot;box&quot;:[1,2]}]\" data-cells=\"[[1,2.5]]\"><title "
		"id=\"f-title\">l</title><desc id=\"f-data\">d1: at most 7 &amp; &lt;rising&gt;. "
		"d2: none.</desc><g/></svg>\n");
	text_deinit(&from);
	text_deinit(&page);
	text_deinit(&notes);
}

Test(svg, a_drawing_alone_says_what_it_shows)
{
	struct text from = {0}, out = {0}, notes = {0};

	text_add(&notes, said);
	text_add(&from, "<svg>\n<title>Gnuplot</title>\n<desc>Produced by X</desc><g/></svg>");
	svg_describe(&out, &from, &notes);
	cr_expect_str_eq(out.bytes, "<svg>\n<title>A &quot;plot&quot;</title>\n<desc>d1: at most 7 "
				    "&amp; &lt;rising&gt;. "
				    "d2: none.</desc><g/></svg>");
	text_deinit(&from);
	text_deinit(&out);
	text_deinit(&notes);
}

Test(svg, notes_are_found_by_kind_and_index)
{
	struct text notes = {0}, found = {0};

	require(!notes_find(&notes, "panel", 0, &found), "a note of nothing");
	text_add(&notes, said);
	require(notes_find(&notes, "describe", 1, &found), "no second sentence");
	cr_expect_str_eq(found.bytes, "d2: none.");
	require(!notes_find(&notes, "describe", 2, &found), "a third sentence");
	require(!notes_find(&notes, "desc", 0, &found), "half a kind");
	text_deinit(&notes);
	text_deinit(&found);
}
