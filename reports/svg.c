#include "reports/svg.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The colours of style.gp, as gnuplot writes them, and what the page calls them. */
static const struct {
	const char *drawn;
	const char *shown;
} colors[] = {
	{"rgb(  0, 114, 178)", "var(--run-1)"},
	{"rgb(213,  94,   0)", "var(--run-2)"},
	{"rgb(  0, 158, 115)", "var(--run-3)"},
	{"rgb(204, 121, 167)", "var(--run-4)"},
	{"rgb( 86, 180, 233)", "var(--run-5)"},
	{"rgb(230, 159,   0)", "var(--run-6)"},
	{"rgb(122,  81, 149)", "var(--run-7)"},
	{"rgb(140, 140,   0)", "var(--run-8)"},
	{"rgb( 31,  41,  51)", "currentColor"},
	{"rgb(213, 219, 225)", "var(--grid)"},
	{"rgb(253, 253, 254)", "none"},
	{"#fdfdfe", "none"},
	{"black", "currentColor"},
	{"#FFFFFF", "currentColor"},
	{" font-family=\"sans-serif\" ", " "},
};

enum { COLOR_COUNT = sizeof(colors) / sizeof(colors[0]) };

static const char *const references[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};

enum { REFERENCE_COUNT = sizeof(references) / sizeof(references[0]) };

static const char *const dropped[] = {"title", "desc", "filter"};

enum { DROPPED_COUNT = sizeof(dropped) / sizeof(dropped[0]) };

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Adds what stands at `at` within a tag, or its replacement, and returns the bytes read. */
static size_t add_in_tag(struct text *page, const char *at, const char *prefix)
{
	if (starts_with(at, "xlink:href")) {
		return strlen("xlink:");
	}
	for (uint32_t i = 0; i < REFERENCE_COUNT; i++) {
		if (starts_with(at, references[i])) {
			text_add(page, references[i]);
			text_add(page, prefix);
			text_add(page, "-");
			return strlen(references[i]);
		}
	}
	for (uint32_t i = 0; i < COLOR_COUNT; i++) {
		if (starts_with(at, colors[i].drawn)) {
			text_add(page, colors[i].shown);
			return strlen(colors[i].drawn);
		}
	}
	text_add_bytes(page, *at == '\n' ? " " : at, 1);
	return 1;
}

/* The end of the element at `at` when it is one to drop, else `at`. */
static const char *after_dropped(const char *at)
{
	char close[16];

	for (uint32_t i = 0; i < DROPPED_COUNT; i++) {
		size_t size = strlen(dropped[i]);
		if (strncmp(at + 1, dropped[i], size) != 0 ||
			strchr(" >\n\t", at[1 + size]) == NULL) {
			continue;
		}
		snprintf(close, sizeof(close), "</%s>", dropped[i]);
		const char *end = strstr(at, close);
		return end == NULL ? at : end + strlen(close);
	}
	return at;
}

static void add_body(struct text *page, const char *at, const char *end, const char *prefix)
{
	bool is_in_tag = false;

	while (at < end) {
		const char *after = *at == '<' ? after_dropped(at) : at;
		if (after != at) {
			at = after;
			continue;
		}
		if (is_in_tag) {
			is_in_tag = *at != '>';
			at += add_in_tag(page, at, prefix);
			continue;
		}
		is_in_tag = *at == '<';
		bool is_indent = *at == '\t' || (*at == '\n' && (at[1] == '\n' || at[1] == '\t'));
		if (!is_indent) {
			text_add_bytes(page, at, 1);
		}
		at++;
	}
}

enum status svg_inline(struct text *page, const struct text *svg, const char *prefix,
	const char *label, struct error *error)
{
	const char *open = svg->size == 0 ? NULL : strstr(svg->bytes, "<svg");
	const char *box = open == NULL ? NULL : strstr(open, "viewBox=\"");
	const char *body = box == NULL ? NULL : strchr(box, '>');
	const char *end = body == NULL ? NULL : strstr(body, "</svg>");

	if (end == NULL) {
		return error_set(error, STATUS_FILE,
			"gnuplot drew no whole SVG for the figure %s; is its svg terminal there?",
			prefix);
	}
	box += strlen("viewBox=\"");
	text_add(page, "<svg role=\"img\" aria-label=\"");
	text_add_escaped(page, label);
	text_add(page, "\" viewBox=\"");
	text_add_bytes(page, box, strcspn(box, "\""));
	text_add(page, "\">");
	add_body(page, body + 1, end, prefix);
	text_add(page, "</svg>\n");
	return STATUS_OK;
}
