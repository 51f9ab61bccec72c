#include "reports/figures/svg.h"

#include "reports/figures/drawn_colors.h"
#include "reports/figures/notes.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attributes as gnuplot writes them, and their replacements. */
static const struct {
	const char *drawn;
	const char *shown;
} words[] = {
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

/* The drawing that is copied into a page. */
struct drawing {
	const char *prefix; /* of its ids */
	struct drawn_color colors[DRAWN_COLORS_MAX];
	uint32_t color_count;
};

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A colour becomes a variable of the style sheet, so that it may change in dark mode. Text has the
   page's text colour, and the background is transparent. */
static void add_color(struct text *page, const char *name)
{
	if (strcmp(name, "text") == 0) {
		text_add(page, "currentColor");
	} else if (strcmp(name, "background") == 0) {
		text_add(page, "none");
	} else {
		text_format(page, "var(--%s)", name);
	}
}

/* The name of a colour of style.gp, or NULL. */
static const char *name_of_color(const struct drawing *drawing, uint32_t rgb)
{
	for (uint32_t i = 0; i < drawing->color_count; i++) {
		if (drawing->colors[i].rgb == rgb) {
			return drawing->colors[i].name;
		}
	}
	return NULL;
}

/* Parses "rgb(1,2,3)", "rgb( 1, 2, 3)" or "#0a0b0c"; returns the bytes read, or 0. Gnuplot's
   #FDFDFE is not replaced: only empty groups have it. */
static size_t read_color(const char *at, uint32_t *rgb)
{
	char start[32], digits[8];
	unsigned red, green, blue;
	int size = 0;

	/* A copy of the start, since sscanf takes the length of the whole text on every call. */
	snprintf(start, sizeof(start), "%.*s", (int)sizeof(start) - 1, at);
	if (sscanf(start, "rgb(%3u,%3u,%3u)%n", &red, &green, &blue, &size) == 3 && size > 0) {
		*rgb = red << 16 | green << 8 | blue;
		return (size_t)size;
	}
	if (sscanf(start, "#%6[0-9a-f]%n", digits, &size) == 1 && size == 7) {
		*rgb = (uint32_t)strtoul(digits, NULL, 16);
		return 7;
	}
	return 0;
}

/* Appends the text at `at` within a tag, or its replacement; returns the bytes read. */
static size_t add_in_tag(struct text *page, const char *at, const struct drawing *drawing)
{
	uint32_t rgb = 0;

	for (uint32_t i = 0; i < REFERENCE_COUNT; i++) {
		if (starts_with(at, references[i])) {
			text_add(page, references[i]);
			text_add(page, drawing->prefix);
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
	size_t size = *at == '#' || starts_with(at, "rgb(") ? read_color(at, &rgb) : 0;
	const char *name = size > 0 ? name_of_color(drawing, rgb) : NULL;
	if (name != NULL) {
		add_color(page, name);
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

static void add_body(
	struct text *page, const char *at, const char *end, const struct drawing *drawing)
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
			at += add_in_tag(page, at, drawing);
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

/* Each note of a kind, escaped, with a separator between them. */
static void add_notes(
	struct text *out, const struct text *notes, const char *kind, const char *separator)
{
	struct text note = {0};

	for (uint32_t i = 0; notes_find(notes, kind, i, &note); i++) {
		text_add(out, i == 0 ? "" : separator);
		text_add_escaped(out, note.bytes);
		text_deinit(&note);
	}
}

static void add_open_tag(struct text *page, const char *box, const struct text *notes,
	const char *prefix, const char *title)
{
	text_format(page, "<svg role=\"img\" aria-labelledby=\"%s-title %s-data\" viewBox=\"",
		prefix, prefix);
	text_add_bytes(page, box, strcspn(box, "\""));
	text_add(page, "\" data-panels=\"[");
	add_notes(page, notes, "panel", ",");
	text_add(page, "]\" data-cells=\"[");
	add_notes(page, notes, "cells", ",");
	text_format(page, "]\"><title id=\"%s-title\">", prefix);
	text_add_escaped(page, title);
	text_format(page, "</title><desc id=\"%s-data\">", prefix);
	add_notes(page, notes, "describe", " ");
	text_add(page, "</desc>");
}

enum status svg_inline(struct text *page, const struct text *svg, const struct text *notes,
	const char *prefix, const char *title, struct error *error)
{
	struct drawing drawing = {.prefix = prefix};
	const char *open = svg->byte_count == 0 ? NULL : strstr(svg->bytes, "<svg");
	const char *box = open == NULL ? NULL : strstr(open, "viewBox=\"");
	const char *body = box == NULL ? NULL : strchr(box, '>');
	const char *end = body == NULL ? NULL : strstr(body, "</svg>");

	if (end == NULL) {
		return error_set(error, STATUS_FILE,
			"gnuplot drew no whole SVG for the figure %s; is its svg terminal there?",
			prefix);
	}
	drawing.color_count = drawn_colors(drawing.colors);
	box += strlen("viewBox=\"");
	add_open_tag(page, box, notes, prefix, title);
	add_body(page, body + 1, end, &drawing);
	text_add(page, "</svg>\n");
	return STATUS_OK;
}

void svg_describe(struct text *out, const struct text *svg, const struct text *notes)
{
	const char *title = strstr(svg->bytes, "<title>");
	const char *end = title == NULL ? NULL : strstr(title, "</desc>");

	if (end == NULL) {
		text_add_bytes(out, svg->bytes, svg->byte_count);
		return;
	}
	text_add_bytes(out, svg->bytes, (size_t)(title - svg->bytes));
	text_add(out, "<title>");
	add_notes(out, notes, "title", " ");
	text_add(out, "</title>\n<desc>");
	add_notes(out, notes, "describe", " ");
	text_add(out, end);
}
