#include "tests/harness/drawn_texts.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"

enum { TEXTS_MAX = 4000, TEXT_BYTES = 120 };

/* Of the font's size: the mean width of a character in DejaVu Sans, the widest that is usual. */
static const double character_width = 0.58;

struct drawn_text {
	double left, right, base, size;
	char words[TEXT_BYTES];
};

/* Copies what stands between the tags up to `end`; returns the number of its characters. */
static uint32_t copy_words(char *words, const char *at, const char *end)
{
	uint32_t used = 0, characters = 0;
	bool is_tag = false, is_entity = false;

	for (; at < end && used < TEXT_BYTES - 1; at++) {
		is_tag = is_tag || *at == '<';
		if (!is_tag) {
			is_entity = is_entity || *at == '&';
			characters += !is_entity && ((unsigned char)*at & 0xc0) != 0x80;
			characters += is_entity && *at == ';';
			is_entity = is_entity && *at != ';';
			words[used++] = *at;
		}
		is_tag = is_tag && *at != '>';
	}
	words[used] = '\0';
	return characters;
}

/* Reads the text of a group, of which `at` is the start; false: it has none, or it is turned. */
static bool read_text(struct drawn_text *out, const char *at, const char *end)
{
	char place[64], anchor[16] = "start";
	const char *close = strchr(at, '>');
	const char *text = close == NULL ? NULL : close + 1 + strspn(close + 1, " \t\n");
	double x;

	if (text == NULL || text >= end || strncmp(text, "<text", 5) != 0 ||
		sscanf(at, "<g transform=\"translate(%63[^\"]", place) != 1 ||
		sscanf(place, "%lf,%lf)", &x, &out->base) != 2 || strstr(place, "rotate") != NULL) {
		return false;
	}
	const char *size = strstr(at, "font-size=\""), *side = strstr(at, "text-anchor=\"");
	if (size == NULL || size > close || sscanf(size, "font-size=\"%lf", &out->size) != 1) {
		return false;
	}
	if (side != NULL && side < close) {
		sscanf(side, "text-anchor=\"%15[a-z]", anchor);
	}
	double width =
		character_width * out->size * copy_words(out->words, text, strstr(text, "</text>"));
	out->left = x - (strcmp(anchor, "end") == 0 ? width : anchor[0] == 'm' ? width / 2 : 0);
	out->right = out->left + width;
	return width > 0;
}

static void require_figure(const char *figure, const char *end)
{
	static struct drawn_text texts[TEXTS_MAX];
	const char *box = strstr(figure, "viewBox=\"0 0 ");
	uint32_t count = 0;
	double width;

	if (box == NULL || box > end || sscanf(box, "viewBox=\"0 0 %lf", &width) != 1) {
		return;
	}
	for (const char *at = figure; (at = strstr(at, "<g transform=")) != NULL && at < end;
		at++) {
		if (!read_text(&texts[count], at, end)) {
			continue;
		}
		const struct drawn_text *own = &texts[count];
		require(own->left >= -1 && own->right <= width + 1, "'%s' is cut off", own->words);
		for (uint32_t i = 0; i < count; i++) {
			const struct drawn_text *other = &texts[i];
			bool is_on_a_line =
				fabs(own->base - other->base) < 0.6 * fmin(own->size, other->size);
			double shared =
				fmin(own->right, other->right) - fmax(own->left, other->left);
			require(!is_on_a_line || shared <= 4, "'%s' lies on '%s'", own->words,
				other->words);
		}
		require(++count < TEXTS_MAX, "more than %d texts", TEXTS_MAX);
	}
}

void require_texts_apart(const char *page)
{
	const char *end;

	for (const char *at = page; (at = strstr(at, "<svg")) != NULL; at = end) {
		end = strstr(at, "</svg>");
		require(end != NULL, "half a figure");
		require_figure(at, end);
	}
}
