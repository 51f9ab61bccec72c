
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/number.h"
#include "engine/base/table.h"
#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
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
	char found[NUMBER_TEXT_BYTES];
	char expected[NUMBER_TEXT_BYTES];
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

Test(table, decimals_have_exactly_their_places)
{
	static const struct {
		uint64_t value;
		uint32_t places;
		const char *text;
	} cases[] = {{0, 0, "0"}, {0, 1, "0.0"}, {0, 6, "0.000000"}, {5, 1, "0.5"}, {10, 1, "1.0"},
		{9, 2, "0.09"}, {100, 2, "1.00"}, {1000000000, 9, "1.000000000"},
		{999999999, 9, "0.999999999"}, {UINT64_MAX, 0, "18446744073709551615"},
		{UINT64_MAX, 18, "18.446744073709551615"}};
	char text[NUMBER_TEXT_BYTES];

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

/* Half a unit of the last place more, rounded down. */
static void require_rounded(uint64_t numerator, uint64_t denominator, uint32_t places)
{
	char found[NUMBER_TEXT_BYTES], expected[NUMBER_TEXT_BYTES];
	uint64_t scale = 2;

	for (uint32_t i = 0; i < places; i++) {
		scale *= 10;
	}
	naive_ratio(expected, numerator * scale + denominator, denominator * scale, places);
	rounded_text(found, numerator, denominator, places, "nothing");
	require(strcmp(found, expected) == 0, "%llu / %llu: found %s, expected %s",
		(unsigned long long)numerator, (unsigned long long)denominator, found, expected);
}

static void body_ratio(struct prop *prop, const void *context)
{
	char found[NUMBER_TEXT_BYTES];
	char expected[NUMBER_TEXT_BYTES];
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
	if (numerator <= UINT64_MAX / 2000000000 && denominator <= UINT64_MAX / 2000000000) {
		require_rounded(numerator, denominator, places);
	}
}

Test(table, ratios_are_rounded_down)
{
	struct prop_options options = {.name = "ratio", .body = body_ratio, .trials = 5000};
	char text[NUMBER_TEXT_BYTES];

	cr_assert(prop_holds(&options));
	/* What a rate comes to at most: a count of 2^64 times 10^9 over a nanosecond. */
	ratio_text(text, (u128)UINT64_MAX * 1000000000, 1, 3, "-");
	cr_assert_str_eq(text, "18446744073709551615000000000.000");
	ratio_text(text, 0, 0, 3, "-");
	cr_assert_str_eq(text, "-");
}

Test(table, printed_ratios_are_rounded_to_the_nearest)
{
	static const struct {
		u128 numerator, denominator;
		uint32_t places;
		const char *text;
	} rows[] = {{4300, 1500, 2, "2.87"}, {4300, 1500, 0, "3"},
		{109143628000, 1000000000, 3, "109.144"}, {1, 2000, 3, "0.001"},
		{4999, 10000000, 3, "0.000"}, {19999, 20000, 3, "1.000"},
		{(u128)UINT64_MAX * 1000000000, 1, 3, "18446744073709551615000000000.000"},
		{7, 0, 3, "-"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[NUMBER_TEXT_BYTES];
		size_t bytes = rounded_text(
			text, rows[i].numerator, rows[i].denominator, rows[i].places, "-");
		cr_assert_str_eq(text, rows[i].text);
		require_equal(bytes, strlen(text));
	}
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
	char text[NUMBER_TEXT_BYTES];
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
	const char *path = context;

	table_file_open(&table, path, "one\ttwo");
	text_add_bytes(&expected, "one\ttwo\n", 8);
	uint32_t rows = prop_range(prop, 0, 40);
	uint32_t times = prop_chance(prop, 1, 2) ? 1 : prop_range(prop, 1, 400);
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t cells = prop_range(prop, 1, 4);
		size_t start = expected.byte_count;
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
	table_file_close(&table);
	size_t found_bytes;
	char *found = file_read(path, &found_bytes);
	require_equal(found_bytes, expected.byte_count);
	require(memcmp(found, expected.bytes, found_bytes) == 0, "the file differs");
	free(found);
	text_deinit(&expected);
}

Test(table, a_file_holds_what_was_written, .timeout = 120)
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
Test(table, the_buffer_may_fill_at_any_byte)
{
	static struct table_writer table;
	static char line[2 * TABLE_BUFFER_BYTES];
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table", folder);
	for (size_t bytes = TABLE_BUFFER_BYTES - 4; bytes <= TABLE_BUFFER_BYTES + 4; bytes++) {
		memset(line, 'x', bytes);
		line[bytes] = '\0';
		table_file_open(&table, path, line);
		table_u64(&table, 12345);
		table_end_row(&table);
		table_file_close(&table);
		size_t found_bytes;
		char *found = file_read(path, &found_bytes);
		require_equal(found_bytes, bytes + 7);
		require(strcmp(found + bytes, "\n12345\n") == 0, "the end is lost");
		free(found);
	}
	temporary_remove(folder);
}

/* A write that failed, be it the last, shows in the file. */
Test(table, a_failed_write_is_left_for_who_closes_the_file)
{
	static struct table_writer table;
	FILE *full = fopen("/dev/full", "wb");

	if (full == NULL) {
		cr_skip_test("/dev/full is not here");
	}
	table_begin(&table, full, "header");
	table_u64(&table, 1);
	table_end_row(&table);
	require(ferror(full) == 0, "it was not buffered");
	table_end(&table);
	require(ferror(full) != 0, "the failure is lost");
	table_end(&table); /* ended once is enough */
	fclose(full);
}

/* ---- reading ---- */

enum { READER_BYTES = 40 }; /* at most in a file of the property */

/* What a table of these bytes is, by the words of engine/base/table.h alone. */
enum verdict { VERDICT_GOOD, VERDICT_EMPTY, VERDICT_BYTE, VERDICT_TWICE, VERDICT_WIDTH };

struct naive_table {
	enum verdict verdict;
	uint64_t line;
	uint32_t columns, rows;
	/* By row (0: the header) and column; as many and as long as READER_BYTES can be. */
	char cells[READER_BYTES + 1][READER_BYTES + 1][READER_BYTES + 1];
};

static enum verdict naive_header(const struct naive_table *naive)
{
	for (uint32_t i = 0; i < naive->columns; i++) {
		for (uint32_t j = i + 1; j < naive->columns; j++) {
			if (strcmp(naive->cells[0][i], naive->cells[0][j]) == 0) {
				return VERDICT_TWICE;
			}
		}
	}
	return VERDICT_GOOD;
}

/* One line; its end is no part of it, nor a carriage return before that. */
static enum verdict naive_line(struct naive_table *naive, const char *bytes, size_t count)
{
	uint32_t column = 0, length = 0;

	count -= count > 0 && bytes[count - 1] == '\r';
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\0' || bytes[i] == '\r') {
			return VERDICT_BYTE;
		}
	}
	memset(naive->cells[naive->rows], 0, sizeof(naive->cells[0]));
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\t') {
			column++;
			length = 0;
		} else {
			naive->cells[naive->rows][column][length++] = bytes[i];
		}
	}
	if (naive->line == 1) {
		naive->columns = column + 1;
		return naive_header(naive);
	}
	return column + 1 == naive->columns ? VERDICT_GOOD : VERDICT_WIDTH;
}

static void naive_read(struct naive_table *naive, const char *bytes, size_t count)
{
	memset(naive, 0, sizeof(*naive));
	if (count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
		bytes += 3;
		count -= 3;
	}
	naive->verdict = count == 0 ? VERDICT_EMPTY : VERDICT_GOOD;
	naive->line = count == 0;
	for (size_t start = 0; start < count && naive->verdict == VERDICT_GOOD;) {
		size_t end = start;
		while (end < count && bytes[end] != '\n') {
			end++;
		}
		naive->line++;
		naive->verdict = naive_line(naive, bytes + start, end - start);
		naive->rows += naive->verdict == VERDICT_GOOD;
		start = end + 1;
	}
}

static void require_verdict(const struct naive_table *naive, const char *path, const char *found)
{
	static const char *const words[] = {[VERDICT_EMPTY] = "found an empty file",
		[VERDICT_BYTE] = ", expected",
		[VERDICT_TWICE] = "twice",
		[VERDICT_WIDTH] = "expected the header's"};
	char where[600];

	snprintf(where, sizeof(where), "%s:%llu: ", path, (unsigned long long)naive->line);
	require(strstr(found, where) != NULL, "'%s' does not say '%s'", found, where);
	require(strstr(found, words[naive->verdict]) != NULL, "'%s' does not say '%s'", found,
		words[naive->verdict]);
}

/* Any bytes are read as the naive reader reads them, or refused for its reason at its line. */
static void body_reader(struct prop *prop, const void *context)
{
	static const char letters[] = "a1\t\n\tb-\n\r#";
	const char *path = context;
	struct naive_table naive;
	struct table_reader table;
	struct error error = {0};
	char bytes[READER_BYTES];
	uint32_t count = prop_range(prop, 0, READER_BYTES), width = prop_range(prop, 0, 3);
	uint32_t rows = 0, used = 0;

	/* Mostly a table with a header, then some bytes changed to any others. */
	if (!prop_chance(prop, 1, 4)) {
		used = (uint32_t)sprintf(bytes, "%sx%s\n",
			prop_chance(prop, 1, 8) ? "\xef\xbb\xbf" : "",
			width == 0   ? ""
			: width == 1 ? "\ty"
				     : "\ty\tz");
	}
	while (used < count) {
		bytes[used++] = letters[prop_below(prop, sizeof(letters) - 1)];
	}
	if (prop_chance(prop, 1, 20) && used > 0) {
		bytes[prop_below(prop, used)] = '\0';
	}
	FILE *file = fopen(path, "wb");
	require(file != NULL && fwrite(bytes, 1, used, file) == used, "cannot write %s", path);
	fclose(file);
	prop_log(prop, "%u bytes: %.*s", used, (int)used, bytes);
	naive_read(&naive, bytes, used);

	table_reader_open(&table, path, NULL, &error);
	require(error.status != STATUS_OK || table.column_count == naive.columns, "%u columns",
		table.column_count);
	for (uint32_t i = 0; i < table.column_count && error.status == STATUS_OK; i++) {
		require(strcmp(table.names[i], naive.cells[0][i]) == 0, "column %u", i);
		require_equal(table_reader_find(&table, naive.cells[0][i]), i);
	}
	while (table_reader_next(&table, &error)) {
		rows++;
		for (uint32_t i = 0; i < table.column_count; i++) {
			require(strcmp(table.cells[i], naive.cells[rows][i]) == 0,
				"row %u, column %u: '%s'", rows, i, table.cells[i]);
		}
	}
	require_equal(error.status, naive.verdict == VERDICT_GOOD ? STATUS_OK : STATUS_INPUT);
	if (naive.verdict != VERDICT_GOOD) {
		require_verdict(&naive, path, error.text);
	}
	require(naive.rows == rows + (naive.rows > 0), "%u rows", rows);
	require(!table_reader_next(&table, &error), "a row behind the end");
	table_reader_close(&table);
	table_reader_close(&table);
}

Test(table, any_bytes_are_read_or_refused_with_their_line, .timeout = 120)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {
		.name = "reader", .body = body_reader, .context = path, .trials = 4000};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table", folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* What the writer writes, the reader reads. */
static void body_round_trip(struct prop *prop, const void *context)
{
	static struct table_writer writer;
	const char *path = context;
	uint64_t numbers[40][3];
	struct table_reader table;
	struct error error = {0};
	uint32_t rows = prop_range(prop, 0, 40), row = 0;

	table_file_open(&writer, path, "a\tb\tc");
	for (uint32_t i = 0; i < rows; i++) {
		for (uint32_t j = 0; j < 3; j++) {
			numbers[i][j] = draw_u64(prop);
			table_u64(&writer, numbers[i][j]);
		}
		table_end_row(&writer);
	}
	table_file_close(&writer);
	table_reader_open(&table, path, NULL, &error);
	for (; table_reader_next(&table, &error); row++) {
		for (uint32_t j = 0; j < 3; j++) {
			uint64_t value;
			table_reader_u64(&table, j, UINT64_MAX, &value, &error);
			require_equal(value, numbers[row][j]);
		}
	}
	require(error.status == STATUS_OK, "%s", error.text);
	require_equal(row, rows);
	table_reader_close(&table);
}

Test(table, what_is_written_is_read)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {
		.name = "round trip", .body = body_round_trip, .context = path, .trials = 300};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table", folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* The line with which a table, read whole by its columns a and b, is refused. */
static void require_refused(const char *folder, const char *text, const char *line)
{
	char path[TEMPORARY_PATH_BYTES];
	struct table_reader table;
	struct error error = {0};
	uint32_t a, b;
	uint64_t value = 0;

	temporary_write(folder, "t", text, path);
	table_reader_open(&table, path, NULL, &error);
	table_reader_column(&table, "a", &a, &error);
	table_reader_column(&table, "b", &b, &error);
	while (table_reader_next(&table, &error)) {
		table_reader_u64(&table, a, 9, &value, &error);
		table_reader_u64(&table, b, UINT64_MAX, &value, &error);
	}
	table_reader_close(&table);
	require_equal(error.status, STATUS_INPUT);
	cr_expect(strncmp(error.text, path, strlen(path)) == 0);
	cr_expect_str_eq(error.text + strlen(path), line);
}

/* A first line without an end is not taken into memory: it may be all of a large file. */
Test(table, a_first_line_has_a_limit)
{
	static char text[TABLE_FIRST_LINE_BYTES_MAX + 4];
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct error error = {0};
	struct table_reader table;

	temporary_folder(folder);
	memset(text, 'x', TABLE_FIRST_LINE_BYTES_MAX);
	require_refused(folder, text,
		":1: found a line of 65536 bytes or more, expected a table with a header");
	temporary_write(folder, "t.tsv", "", path);
	require(truncate(path, (off_t)1 << 36) == 0, "no sparse file");
	require_equal(table_reader_open(&table, path, NULL, &error), STATUS_INPUT);
	cr_expect(strstr(error.text, ":1: found a zero byte, expected a table of text") != NULL,
		"%s", error.text);
	table_reader_close(&table);
	/* The longest line, with the rows behind it. */
	memset(text, 'a', TABLE_FIRST_LINE_BYTES_MAX - 1);
	strcpy(text + TABLE_FIRST_LINE_BYTES_MAX - 1, "\n1\n");
	temporary_write(folder, "t.tsv", text, path);
	error = (struct error){0};
	require_equal(table_reader_open(&table, path, NULL, &error), STATUS_OK);
	cr_expect(table_reader_next(&table, &error) && strcmp(table.cells[0], "1") == 0, "%s",
		error.text);
	table_reader_close(&table);
	temporary_remove(folder);
}

Test(table, a_refusal_names_line_column_and_what_was_found)
{
	char folder[TEMPORARY_PATH_BYTES];
	char wide[2 * TABLE_COLUMNS_MAX + 4] = "a";

	temporary_folder(folder);
	require_refused(folder, "", ":1: found an empty file, expected a table with a header");
	require_refused(folder, "a\n1\n", ":1: column b is missing from the header");
	require_refused(folder, "a\tb\ta\n", ":1: found column a twice, expected it once");
	require_refused(folder, "b\ta\n1\t2\n3\n", ":3: found 1 column, expected the header's 2");
	require_refused(folder, "a\tb\n1\t2\n10\t3",
		":3: column a: found '10', expected an integer in [0, 9]");
	require_refused(folder, "a\tb\n1\t123456789012345678901234567890123\n",
		":2: column b: found '12345678901234567890123456789012', expected an integer in "
		"[0, 18446744073709551615]");
	require_refused(folder, "# a remark\na\tb\n", ":1: column a is missing from the header");
	for (uint32_t i = 0; i < TABLE_COLUMNS_MAX; i++) {
		memcpy(wide + 1 + 2 * i, "\tb", 3);
	}
	require_refused(folder, wide, ":1: found 257 columns, expected at most 256");
	require_refused(folder, "a b\n1 2\n",
		":1: column a is missing from the header; columns are separated by tabs");
	temporary_remove(folder);
}

Test(table, remarks_in_front_are_kept_apart)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct table_reader table;
	struct error error = {0};
	struct text remarks = {0};

	temporary_folder(folder);
	temporary_write(folder, "t", "# one\n#two\na\n#3\n", path);
	require_equal(table_reader_open(&table, path, &remarks, &error), STATUS_OK);
	cr_expect_str_eq(remarks.bytes, "# one\n#two\n");
	cr_assert(table_reader_next(&table, &error));
	cr_expect_str_eq(table.cells[0], "#3");
	require_equal(table.line_number, 4);
	cr_assert_not(table_reader_next(&table, &error));
	require_equal(error.status, STATUS_OK);
	table_reader_close(&table);
	text_deinit(&remarks);
	require_equal(table_reader_open(&table, "/nowhere/t", NULL, &error), STATUS_FILE);
	cr_expect_str_eq(error.text, "/nowhere/t: cannot be opened: No such file or directory");
	table_reader_close(&table);
	temporary_remove(folder);
}
