#include "workloads/trace/format.h"

#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "workloads/trace/csv_row.h"

#include <stdlib.h>
#include <string.h>

/* The CSV of the Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens. Times are
   calendar times, with an offset from UTC (2024: 2024-05-10 00:00:00.009930+00:00) or without one
   (2023: 2023-11-16 18:15:46.6805900). */

enum { COLUMN_TIME, COLUMN_INPUT, COLUMN_OUTPUT, COLUMN_COUNT };

static const struct csv_column columns[COLUMN_COUNT] = {
	{"TIMESTAMP", true}, {"ContextTokens", true}, {"GeneratedTokens", true}};

static bool azure_recognises(const char *line, size_t line_bytes)
{
	return line_contains(line, line_bytes, "TIMESTAMP") &&
	       line_contains(line, line_bytes, "ContextTokens");
}

static void *azure_open(void)
{
	return memory_take(1, sizeof(struct csv_layout));
}

static void azure_close(void *state)
{
	free(state);
}

static enum status azure_header(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct error *error)
{
	return csv_header(state, columns, COLUMN_COUNT, at, line, line_bytes, error);
}

/* Days since 1970-01-01 in the Gregorian calendar; year >= 1970. Years are counted from March, so
   that the leap day is the last day. */
static uint64_t days_of(uint64_t year, uint64_t month, uint64_t day)
{
	uint64_t y = month <= 2 ? year - 1 : year;
	uint64_t months_since_march = (month + 9) % 12;

	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * months_since_march + 2) / 5 + day - 1 -
	       719468;
}

/* Two digits, at most `maximum`. */
static bool two_digits(const char *text, uint64_t maximum, uint64_t *value)
{
	return digits_to_u64(text, 2, value) && *value <= maximum;
}

static bool is_leap(uint64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool read_date(const char *text, uint64_t *days)
{
	static const uint8_t lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	uint64_t year, month, day;

	if (!digits_to_u64(text, 4, &year) || text[4] != '-' || !two_digits(text + 5, 12, &month) ||
		text[7] != '-' || !two_digits(text + 8, 31, &day)) {
		return false;
	}
	if (year < 1971 || year > 2200 || month < 1 || day < 1 ||
		day > (uint64_t)lengths[month - 1] + (month == 2 && is_leap(year))) {
		return false;
	}
	*days = days_of(year, month, day);
	return true;
}

/* Parses the offset behind the time: nothing, Z, +HH:MM or -HH:MM; the result is in seconds. */
static bool read_offset(const char *text, size_t bytes, int64_t *offset_s)
{
	uint64_t hours, minutes;

	*offset_s = 0;
	if (bytes == 0 || (bytes == 1 && text[0] == 'Z')) {
		return true;
	}
	if (bytes != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':' ||
		!two_digits(text + 1, 14, &hours) || !two_digits(text + 4, 59, &minutes)) {
		return false;
	}
	*offset_s = (int64_t)(hours * 3600 + minutes * 60) * (text[0] == '+' ? 1 : -1);
	return true;
}

/* "2023-11-16 18:15:46.6805900" to nanoseconds since 1970. */
static bool read_time(const char *text, size_t bytes, uint64_t *ns)
{
	uint64_t days, hours, minutes, seconds_ns;
	int64_t offset_s;

	if (bytes < 19 || !read_date(text, &days) || (text[10] != ' ' && text[10] != 'T') ||
		!two_digits(text + 11, 23, &hours) || text[13] != ':' ||
		!two_digits(text + 14, 59, &minutes) || text[16] != ':') {
		return false;
	}
	size_t end = 17;
	while (end < bytes && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) {
		end++;
	}
	if (end < 19 || (end > 19 && text[19] != '.') ||
		!decimal_to_u64(text + 17, end - 17, 9, &seconds_ns) ||
		seconds_ns >= UINT64_C(60000000000) ||
		!read_offset(text + end, bytes - end, &offset_s)) {
		return false;
	}
	int64_t seconds = (int64_t)((days * 24 + hours) * 3600 + minutes * 60) - offset_s;
	*ns = (uint64_t)seconds * UINT64_C(1000000000) + seconds_ns;
	return true;
}

static enum status azure_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct csv_field values[COLUMN_COUNT];
	const struct csv_field *moment = &values[COLUMN_TIME];
	uint64_t input = 0;
	uint64_t output = 0;

	*is_skipped = false;
	TRY(csv_line(state, at, line, line_bytes, values, error));
	if (!read_time(moment->text, moment->bytes, &row->arrival_ns)) {
		return source_line_error(error, at, columns[COLUMN_TIME].name, moment->text,
			moment->bytes, "YYYY-MM-DD HH:MM:SS.fraction, with +HH:MM or without");
	}
	TRY(csv_count(at, columns[COLUMN_INPUT].name, &values[COLUMN_INPUT], 1, TRACE_LENGTH_MAX,
		&input, error));
	TRY(csv_count(at, columns[COLUMN_OUTPUT].name, &values[COLUMN_OUTPUT], 1, TRACE_LENGTH_MAX,
		&output, error));
	row->input_length = (uint32_t)input;
	row->output_length = (uint32_t)output;
	return STATUS_OK;
}

const struct trace_format format_azure = {
	.name = "azure",
	.starts_at_first_row = true,
	.recognises = azure_recognises,
	.open = azure_open,
	.close = azure_close,
	.header = azure_header,
	.row = azure_row,
};
