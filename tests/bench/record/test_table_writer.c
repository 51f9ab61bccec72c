#include "bench/record/table_writer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* ---- decimals ---- */

static uint64_t draw_u64(struct prop *prop)
{
	uint64_t magnitude = prop_below(prop, 65);
	uint64_t bits =
		prop_below(prop, UINT64_C(1) << 32) << 32 | prop_below(prop, UINT64_C(1) << 32);

	return magnitude == 0 ? 0 : bits >> (64 - magnitude);
}

/* value / 10^places by long hand: all digits, left-padded, and a point. */
static void naive_decimal(char *text, u128 value, uint32_t places)
{
	char digits[64];
	uint32_t count = 0;

	do {
		digits[count++] = (char)('0' + (char)(value % 10));
		value /= 10;
	} while (value > 0);
	while (count < places + 1) {
		digits[count++] = '0';
	}
	while (count > 0) {
		*text++ = digits[--count];
		if (count == places && places > 0) {
			*text++ = '.';
		}
	}
	*text = '\0';
}

static void body_decimal(struct prop *prop, const void *context)
{
	char found[TABLE_CELL_BYTES];
	char expected[TABLE_CELL_BYTES];
	(void)context;

	u128 value = draw_u64(prop);
	if (prop_chance(prop, 1, 4)) {
		value = value << 64 | draw_u64(prop);
	}
	uint32_t places = prop_range(prop, 0, 18);
	naive_decimal(expected, value, places);
	size_t bytes = decimal_text(found, value, places);
	require(strcmp(found, expected) == 0, "%u places: found %s, expected %s", places, found,
		expected);
	require_equal(bytes, strlen(found));
}

Test(table_writer, decimals_have_exactly_their_places)
{
	static const struct {
		uint64_t value;
		uint32_t places;
		const char *text;
	} cases[] = {{0, 0, "0"}, {0, 1, "0.0"}, {0, 6, "0.000000"}, {5, 1, "0.5"}, {10, 1, "1.0"},
		{9, 2, "0.09"}, {100, 2, "1.00"}, {1000000000, 9, "1.000000000"},
		{999999999, 9, "0.999999999"}, {UINT64_MAX, 0, "18446744073709551615"},
		{UINT64_MAX, 18, "18.446744073709551615"}};
	char text[TABLE_CELL_BYTES];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		decimal_text(text, cases[i].value, cases[i].places);
		cr_assert_str_eq(text, cases[i].text);
	}
	decimal_text(text, ~(u128)0, 18);
	cr_assert_str_eq(text, "340282366920938463463.374607431768211455");
	struct prop_options options = {.name = "decimal", .body = body_decimal, .trials = 5000};
	cr_assert(prop_holds(&options));
}

/* A ratio by schoolbook division, digit after digit. */
static void naive_ratio(char *text, uint64_t numerator, uint64_t denominator, uint32_t places)
{
	u128 rest = numerator % denominator;
	int bytes = sprintf(text, "%llu", (unsigned long long)(numerator / denominator));

	for (uint32_t i = 0; i < places; i++) {
		if (i == 0) {
			text[bytes++] = '.';
		}
		rest *= 10;
		text[bytes++] = (char)('0' + (char)(rest / denominator));
		rest %= denominator;
	}
	text[bytes] = '\0';
}

static void body_ratio(struct prop *prop, const void *context)
{
	char found[TABLE_CELL_BYTES];
	char expected[TABLE_CELL_BYTES];
	(void)context;

	uint64_t numerator = draw_u64(prop);
	uint64_t denominator = draw_u64(prop);
	uint32_t places = prop_range(prop, 0, 9);
	if (denominator == 0) {
		ratio_text(found, numerator, 0, places, "nothing");
		require(strcmp(found, "nothing") == 0, "a ratio to 0 is %s", found);
		return;
	}
	naive_ratio(expected, numerator, denominator, places);
	size_t bytes = ratio_text(found, numerator, denominator, places, "nothing");
	require(strcmp(found, expected) == 0, "%llu / %llu: found %s, expected %s",
		(unsigned long long)numerator, (unsigned long long)denominator, found, expected);
	require_equal(bytes, strlen(found));
}

Test(table_writer, ratios_are_rounded_down)
{
	struct prop_options options = {.name = "ratio", .body = body_ratio, .trials = 5000};
	char text[TABLE_CELL_BYTES];

	cr_assert(prop_holds(&options));
	/* What a rate comes to at most: a count of 2^64 times 10^9 over a nanosecond. */
	ratio_text(text, (u128)UINT64_MAX * 1000000000, 1, 3, "-");
	cr_assert_str_eq(text, "18446744073709551615000000000.000");
	ratio_text(text, 0, 0, 3, "-");
	cr_assert_str_eq(text, "-");
}

/* ---- tables ---- */

/* A cell of text as the file shall show it. */
static void append_clean(struct text *expected, const char *text)
{
	for (; *text != '\0'; text++) {
		bool is_blank = *text == '\t' || *text == '\n' || *text == '\r';
		text_add_bytes(expected, is_blank ? " " : text, 1);
	}
}

static void draw_text_cell(struct prop *prop, struct table_writer *table, struct text *expected)
{
	static const char letters[] = "ab\t\n\r \"'\\,;\xc3\xa9-0";
	char text[1200];
	uint32_t bytes = (uint32_t)prop_below(prop, prop_chance(prop, 1, 20) ? sizeof(text) : 12);

	for (uint32_t i = 0; i < bytes; i++) {
		text[i] = letters[prop_below(prop, sizeof(letters) - 1)];
	}
	text[bytes] = '\0';
	table_text(table, text);
	append_clean(expected, text);
}

static void draw_cell(struct prop *prop, struct table_writer *table, struct text *expected)
{
	char text[TABLE_CELL_BYTES];
	uint64_t value;
	uint32_t places;

	switch (prop_below(prop, 5)) {
	case 0:
		value = draw_u64(prop);
		table_u64(table, value);
		text_add_bytes(
			expected, text, (size_t)sprintf(text, "%llu", (unsigned long long)value));
		break;
	case 1:
		value = draw_u64(prop);
		places = prop_range(prop, 0, 18);
		table_decimal(table, value, places);
		naive_decimal(text, value, places);
		text_add_bytes(expected, text, strlen(text));
		break;
	case 2:
		table_none(table);
		text_add_bytes(expected, "-", 1);
		break;
	case 3:
		table_text(table, NULL);
		text_add_bytes(expected, "-", 1);
		break;
	default:
		draw_text_cell(prop, table, expected);
		break;
	}
}

/* Files of up to some hundred thousand bytes, so that cells of every kind cross the buffer's end.
 */
static void body_table(struct prop *prop, const void *context)
{
	static struct table_writer table;
	struct text expected = {0};
	struct error error;
	const char *path = context;

	require(table_open(&table, path, "one\ttwo", &error) == STATUS_OK, "%s", error.text);
	text_add_bytes(&expected, "one\ttwo\n", 8);
	uint32_t rows = prop_range(prop, 0, 40);
	uint32_t times = prop_chance(prop, 1, 2) ? 1 : prop_range(prop, 1, 400);
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t cells = prop_range(prop, 1, 4);
		size_t start = expected.size;
		for (uint32_t j = 0; j < cells; j++) {
			if (j > 0) {
				text_add_bytes(&expected, "\t", 1);
			}
			draw_cell(prop, &table, &expected);
		}
		table_end_row(&table);
		text_add_bytes(&expected, "\n", 1);
		/* And rows of one number, to move the buffer's end about. */
		for (uint32_t j = 0; j < times; j++) {
			char digits[24];
			int bytes = sprintf(digits, "%zu\n", start + j);
			table_u64(&table, start + j);
			table_end_row(&table);
			text_add_bytes(&expected, digits, (size_t)bytes);
		}
	}
	require(table_close(&table, &error) == STATUS_OK, "%s", error.text);
	size_t found_bytes;
	char *found = file_read(path, &found_bytes);
	require_equal(found_bytes, expected.size);
	require(memcmp(found, expected.bytes, found_bytes) == 0, "the file differs");
	free(found);
	text_deinit(&expected);
}

Test(table_writer, a_file_holds_what_was_written, .timeout = 120)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {
		.name = "table", .body = body_table, .context = path, .trials = 200};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table", folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* A text that ends exactly where the buffer does, and one byte to either side of it. */
Test(table_writer, the_buffer_may_fill_at_any_byte)
{
	static struct table_writer table;
	static char line[2 * TABLE_BUFFER_BYTES];
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct error error;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table", folder);
	for (size_t bytes = TABLE_BUFFER_BYTES - 4; bytes <= TABLE_BUFFER_BYTES + 4; bytes++) {
		memset(line, 'x', bytes);
		line[bytes] = '\0';
		require(table_open(&table, path, line, &error) == STATUS_OK, "%s", error.text);
		table_u64(&table, 12345);
		table_end_row(&table);
		require(table_close(&table, &error) == STATUS_OK, "%s", error.text);
		size_t found_bytes;
		char *found = file_read(path, &found_bytes);
		require_equal(found_bytes, bytes + 7);
		require(strcmp(found + bytes, "\n12345\n") == 0, "the end is lost");
		free(found);
	}
	temporary_remove(folder);
}

Test(table_writer, failures_are_told_in_a_line)
{
	static struct table_writer table;
	struct error error = {0};

	require_equal(table_open(&table, "/nowhere/table", "header", &error), STATUS_FILE);
	cr_assert(strstr(error.text, "/nowhere/table") != NULL, "%s", error.text);
	require_equal(table_close(&table, &error), STATUS_OK); /* it never opened */

	FILE *full = fopen("/dev/full", "wb");
	if (full == NULL) {
		cr_skip_test("/dev/full is not here");
	}
	fclose(full);
	memset(&error, 0, sizeof(error));
	require_equal(table_open(&table, "/dev/full", "header", &error), STATUS_OK);
	/* "header\n" and rows of two bytes, so that the last byte fills the buffer and nothing is
	   left to be written when it is closed. */
	for (uint32_t i = 0; i < TABLE_BUFFER_BYTES / 2 - 4; i++) {
		table_u64(&table, i % 10);
		table_end_row(&table);
	}
	table_end_row(&table);
	require_equal(table.used, 0);
	/* What went wrong is remembered, whatever other calls make of errno meanwhile. */
	require(fopen("/nowhere/else", "rb") == NULL, "it is there");
	require_equal(table_close(&table, &error), STATUS_FILE);
	cr_assert(strstr(error.text, "No space left") != NULL, "%s", error.text);
	cr_assert(strchr(error.text, '\n') == NULL);
	require_equal(table_close(&table, &error), STATUS_OK); /* closed once is enough */
}
