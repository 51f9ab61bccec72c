#include "reports/figures/svg.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The colours of style.gp and what the page calls them. */
static const struct {
	uint32_t drawn; /* 0xrrggbb */
	const char *shown;
} colors[] = {
	{0x0072b2, "var(--run-1)"},
	{0xd55e00, "var(--run-2)"},
	{0x009e73, "var(--run-3)"},
	{0xcc79a7, "var(--run-4)"},
	{0x56b4e9, "var(--run-5)"},
	{0xe69f00, "var(--run-6)"},
	{0x7a5195, "var(--run-7)"},
	{0x8c8c00, "var(--run-8)"},
	{0x1f2933, "currentColor"},
	{0xd5dbe1, "var(--grid)"},
	{0xfdfdfe, "none"},
};

enum { COLOR_COUNT = sizeof(colors) / sizeof(colors[0]) };

/* What gnuplot writes by itself. */
static const struct {
	const char *drawn;
	const char *shown;
} words[] = {
	{"#fdfdfe", "none"},
	{"\"black\"", "\"currentColor\""},
	{"'black'", "'currentColor'"},
	{"#FFFFFF", "currentColor"},
	{" font-family=\"sans-serif\" ", " "},
	{"xlink:", ""},
};

enum { WORD_COUNT = sizeof(words) / sizeof(words[0]) };

static const char *const references[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};

enum { REFERENCE_COUNT = sizeof(references) / sizeof(references[0]) };

static const char *const dropped[] = {"title", "desc", "filter"};

enum { DROPPED_COUNT = sizeof(dropped) / sizeof(dropped[0]) };

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "rgb(1,2,3)" or "rgb(  1,   2,   3)": its bytes and what to show instead, or 0. */
static size_t read_color(const char *at, const char **shown)
{
	char start[32];
	unsigned red, green, blue;
	int size = 0;

	/* A copy, since sscanf would measure the whole drawing each time. */
	snprintf(start, sizeof(start), "%.*s", (int)sizeof(start) - 1, at);
	if (sscanf(start, "rgb(%3u,%3u,%3u)%n", &red, &green, &blue, &size) != 3 || size == 0) {
		return 0;
	}
	for (uint32_t i = 0; i < COLOR_COUNT; i++) {
		if (colors[i].drawn == (red << 16 | green << 8 | blue)) {
			*shown = colors[i].shown;
			return (size_t)size;
		}
	}
	return 0;
}

/* Adds what stands at `at` within a tag, or its replacement, and returns the bytes read. */
static size_t add_in_tag(struct text *page, const char *at, const char *prefix)
{
	const char *shown = NULL;

	for (uint32_t i = 0; i < REFERENCE_COUNT; i++) {
		if (starts_with(at, references[i])) {
			text_add(page, references[i]);
			text_add(page, prefix);
			text_add(page, "-");
			return strlen(references[i]);
		}
	}
	for (uint32_t i = 0; i < WORD_COUNT; i++) {
		if (starts_with(at, words[i].drawn)) {
			text_add(page, words[i].shown);
			return strlen(words[i].drawn);
		}
	}
	size_t size = starts_with(at, "rgb(") ? read_color(at, &shown) : 0;
	if (size > 0) {
		text_add(page, shown);
		return size;
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
