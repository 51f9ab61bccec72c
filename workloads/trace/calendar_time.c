#include "workloads/trace/calendar_time.h"

#include "engine/base/number.h"

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

bool calendar_time_ns(const char *text, size_t bytes, uint64_t *ns)
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

bool calendar_time_has_form(const char *text, size_t bytes)
{
	static const char form[] = "dddd-dd-dd";
	bool has_form = bytes >= sizeof(form) - 1;

	for (size_t i = 0; has_form && form[i] != '\0'; i++) {
		has_form = form[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
	}
	return has_form;
}
