#include "tests/fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "tests/fuzz/sections.h"

uint32_t draw_below(struct draw *draw, uint32_t bound)
{
	return counter_below((uint32_t)counter_hash(draw->key, draw->count++), bound);
}

const char *draw_number(struct draw *draw)
{
	static const char *const numbers[] = {"0", "1", "2", "3", "7", "16", "255", "256", "1000",
		"65535", "65536", "65537", "1000000", "2147483647", "2147483648", "4294967295",
		"4294967296", "268435456", "268435457", "9007199254740991", "9007199254740992",
		"9007199254740993", "9223372036854775807", "9223372036854775808",
		"18446744073709551615", "18446744073709551616", "1e15", "1e18", "1e308", "1e-300",
		"1e999", "-1", "-0", "0.5", "0.000001", "0.0000001", "-0.5", "-1e15"};

	return numbers[draw_below(draw, sizeof(numbers) / sizeof(numbers[0]))];
}

/* ---- bytes ---- */

/* Moves what is behind `at` + dropped to `at` + added; returns false where there is no room. */
static bool make_gap(
	uint8_t *bytes, size_t *byte_count, size_t room, size_t at, size_t dropped, size_t added)
{
	if (*byte_count - dropped + added > room) {
		return false;
	}
	memmove(bytes + at + added, bytes + at + dropped, *byte_count - at - dropped);
	*byte_count += added - dropped;
	return true;
}

size_t fuzz_mutate_bytes(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed)
{
	static const char *const words[] = {"-", "0", "\n", "\"", ",", "[", "]", "{", "}", "null",
		"1e9", "999999999999999999999", ".5", "\\u0000", "\xff", "\t", "\r\n"};
	struct draw draw = {.key = seed};
	size_t at = draw_below(&draw, u32_from(byte_count + 1));
	uint32_t left = u32_from(byte_count - at);
	const char *word = words[draw_below(&draw, sizeof(words) / sizeof(words[0]))];

	switch (draw_below(&draw, 6)) {
	case 0:
		if (left > 0) {
			bytes[at] ^= (uint8_t)(1u << draw_below(&draw, 8));
		}
		break;
	case 1:
		if (left > 0) {
			bytes[at] = (uint8_t)draw_below(&draw, 256);
		}
		break;
	case 2:
		return at;
	case 3:
		make_gap(bytes, &byte_count, room, at, draw_below(&draw, left + 1), 0);
		break;
	case 4: {
		size_t count = draw_below(&draw, u32_min(left, 64) + 1);
		if (make_gap(bytes, &byte_count, room, at, 0, count)) {
			memmove(bytes + at, bytes + at + count, count);
		}
		break;
	}
	default:
		if (make_gap(bytes, &byte_count, room, at, 0, strlen(word))) {
			memcpy(bytes + at, word, strlen(word));
		}
	}
	return byte_count;
}

/* ---- tables ---- */

enum { LINES_MAX = 512 };

/* Where the lines of a text begin; one more entry is its end. A last line without a line feed
   counts. */
static uint32_t find_lines(const char *text, size_t byte_count, size_t *starts)
{
	uint32_t count = 0;

	for (size_t at = 0; at < byte_count && count < LINES_MAX;) {
		const char *end = memchr(text + at, '\n', byte_count - at);
		starts[count++] = at;
		at = end == NULL ? byte_count : (size_t)(end - text) + 1;
	}
	starts[count] = byte_count;
	return count;
}

static void add_span(struct text *out, const char *text, size_t from, size_t to)
{
	text_add_bytes(out, text + from, to - from);
}

/* The cells of a line that begins at `at`, as for find_lines(). Cells exclude their tab. */
static uint32_t find_cells(const char *text, size_t at, size_t end, size_t *starts)
{
	uint32_t count = 0;

	end -= end > at && text[end - 1] == '\n';
	starts[count++] = at;
	for (size_t i = at; i < end && count < LINES_MAX; i++) {
		if (text[i] == '\t') {
			starts[count++] = i + 1;
		}
	}
	starts[count] = end + 1;
	return count;
}

static void change_cell(const char *text, size_t from, size_t to, size_t byte_count,
	struct draw *draw, struct text *out)
{
	char cell[32] = "";
	size_t other = draw_below(draw, u32_from(byte_count));

	add_span(out, text, 0, from);
	switch (draw_below(draw, 4)) {
	case 0:
		text_add(out, draw_number(draw));
		break;
	case 1: /* near what it was */
		memcpy(cell, text + from, u64_min(to - from, sizeof(cell) - 1));
		text_format(out, "%llu", strtoull(cell, NULL, 10) + draw_below(draw, 5) - 2);
		break;
	case 2: /* another cell of the table */
		other += strcspn(text + other, "\t\n");
		other += other < byte_count;
		text_add_bytes(out, text + other, strcspn(text + other, "\t\n"));
		break;
	default:
		text_add(out, draw_below(draw, 2) == 0 ? "-" : "");
	}
	add_span(out, text, to, byte_count);
}

void mutate_table(const char *text, size_t byte_count, struct draw *draw, struct text *out)
{
	size_t lines[LINES_MAX + 1], cells[LINES_MAX + 1];
	uint32_t line_count = find_lines(text, byte_count, lines);

	if (line_count == 0) {
		text_add(out, "step\n");
		return;
	}
	uint32_t line = draw_below(draw, line_count), other = draw_below(draw, line_count);
	size_t from = lines[line], to = lines[line + 1];
	switch (draw_below(draw, 6)) {
	case 0: /* a line less */
		add_span(out, text, 0, from);
		break;
	case 1: /* a line again, elsewhere */
		add_span(out, text, 0, to);
		add_span(out, text, lines[other], lines[other + 1]);
		break;
	case 2: /* a line in the place of another */
		add_span(out, text, 0, from);
		add_span(out, text, lines[other], lines[other + 1]);
		break;
	default: {
		uint32_t cell_count = find_cells(text, from, to, cells);
		uint32_t cell = draw_below(draw, cell_count);
		change_cell(text, cells[cell], cells[cell + 1] - 1, byte_count, draw, out);
		return;
	}
	}
	add_span(out, text, to, byte_count);
}

/* ---- sections ---- */

static bool ends_in(const char *name, const char *end)
{
	size_t bytes = strlen(name), end_bytes = strlen(end);

	return bytes >= end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

/* One of the lines is JSON that is changed, or a line goes or comes again. */
static void mutate_json_lines(
	const char *text, size_t byte_count, struct draw *draw, struct text *out)
{
	size_t lines[LINES_MAX + 1];
	uint32_t count = find_lines(text, byte_count, lines);

	if (count == 0) {
		text_add(out, "{}\n");
		return;
	}
	uint32_t line = draw_below(draw, count), kind = draw_below(draw, 6);
	add_span(out, text, 0, lines[line + (kind == 0)]);
	if (kind > 1) {
		size_t end = lines[line + 1];
		end -= end > lines[line] && text[end - 1] == '\n';
		mutate_json(text + lines[line], end - lines[line], draw, out);
		text_add(out, "\n");
	}
	add_span(out, text, lines[line + (kind > 0)], byte_count);
}

static void mutate_section(const struct section *section, struct draw *draw, struct text *out)
{
	const char *text = (const char *)section->bytes;

	if (ends_in(section->name, ".json")) {
		mutate_json(text, section->byte_count, draw, out);
	} else if (ends_in(section->name, ".jsonl")) {
		mutate_json_lines(text, section->byte_count, draw, out);
	} else {
		mutate_table(text, section->byte_count, draw, out);
	}
}

size_t fuzz_mutate_sections(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed)
{
	struct draw draw = {.key = seed};
	struct section sections[SECTIONS_MAX];
	/* The lines of a table are read up to their end, which a NUL is too. */
	char *copy = calloc(byte_count + 1, 1);
	check(copy != NULL);
	memcpy(copy, bytes, byte_count);
	uint32_t count = sections_find((const uint8_t *)copy, byte_count, sections);
	struct text out = {0};

	for (uint32_t times = draw_below(&draw, 4) == 0 ? 3 : 1; count > 0 && times > 0; times--) {
		uint32_t chosen = draw_below(&draw, count);
		text_deinit(&out);
		for (uint32_t i = 0; i < count; i++) {
			text_format(&out, "== %s\n", sections[i].name);
			if (i != chosen) {
				text_add_bytes(&out, (const char *)sections[i].bytes,
					sections[i].byte_count);
			} else if (draw_below(&draw, 40) > 0) {
				mutate_section(&sections[i], &draw, &out);
			}
			if (out.bytes[out.byte_count - 1] != '\n') {
				text_add(&out, "\n");
			}
		}
		free(copy);
		copy = calloc(out.byte_count + 1, 1);
		check(copy != NULL);
		memcpy(copy, out.bytes, out.byte_count);
		count = sections_find((const uint8_t *)copy, out.byte_count, sections);
	}
	bool fits = out.byte_count > 0 && out.byte_count <= room;
	size_t length = fits ? out.byte_count : byte_count;
	if (fits) {
		memcpy(bytes, out.bytes, out.byte_count);
	}
	text_deinit(&out);
	free(copy);
	return fits ? length : fuzz_mutate_bytes(bytes, byte_count, room, seed);
}
