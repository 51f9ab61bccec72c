#include "workloads/trace/format.h"
#include "workloads/trace/trace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Calendar times of Azure's traces beside a calendar that counts one day after the other. */

static const uint64_t DAY_NS = UINT64_C(86400000000000);

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(format_azure, .init = set_up, .fini = tear_down);

static uint32_t days_in(uint32_t year, uint32_t month)
{
	bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	switch (month) {
	case 2:
		return is_leap ? 29 : 28;
	case 4:
	case 6:
	case 9:
	case 11:
		return 30;
	default:
		return 31;
	}
}

/* A trace with its header, open for rows. */
static FILE *open_file(char *path)
{
	temporary_write(folder, "trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", path);
	FILE *file = fopen(path, "ab");
	require(file != NULL, "cannot write %s", path);
	return file;
}

/* Every day from 1971 to 2200 is a day after the one before it. */
Test(format_azure, counts_every_day_of_its_calendar)
{
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	const struct trace_options options = {0};
	uint64_t days = 0;
	bool has_row = true;
	FILE *file = open_file(path);

	for (uint32_t year = 1971; year <= 2200; year++) {
		for (uint32_t month = 1; month <= 12; month++) {
			for (uint32_t day = 1; day <= days_in(year, month); day++) {
				fprintf(file, "%u-%02u-%02u 12:34:56,1,1\n", year, month, day);
				days++;
			}
		}
	}
	fclose(file);
	require_equal(days, 84006); /* 230 * 365 + 58 leap days - 2 */
	require_equal(trace_open(&trace, path, &options, &error), STATUS_OK);
	for (uint64_t i = 0; i < days; i++) {
		enum status status = trace_next(trace, &row, &has_row, &error);
		require(status == STATUS_OK && has_row, "%s", error.text);
		require(row.arrival_ns == i * DAY_NS, "day %llu", (unsigned long long)i);
	}
	require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
	require(!has_row, "more rows than days");
	trace_close(trace);
}

/* The time of the second row after the first, which is 2023-11-16 00:00:00; false: refused. */
static bool read_second(const char *time, uint64_t *ns)
{
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	const struct trace_options options = {0};
	bool has_row = false;
	FILE *file = open_file(path);

	fprintf(file, "2023-11-16 00:00:00,1,1\n%s,1,1\n", time);
	fclose(file);
	require_equal(trace_open(&trace, path, &options, &error), STATUS_OK);
	require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
	enum status status = trace_next(trace, &row, &has_row, &error);
	*ns = status == STATUS_OK ? row.arrival_ns : 0;
	trace_close(trace);
	return status == STATUS_OK;
}

Test(format_azure, refuses_days_that_do_not_exist)
{
	for (uint32_t year = 2024; year <= 2200; year++) {
		for (uint32_t month = 1; month <= 12; month++) {
			char time[64];
			uint64_t ns;
			snprintf(time, sizeof(time), "%u-%02u-%02u 00:00:00", year, month,
				days_in(year, month) + 1);
			require(!read_second(time, &ns), "accepts %s", time);
			month += year % 100 > 4 && month > 2; /* most years: not every month */
		}
	}
}

Test(format_azure, reads_times_to_the_nanosecond_and_within_their_ranges)
{
	static const struct {
		const char *time;
		bool is_good;
		uint64_t ns;
	} cases[] = {
		{"2023-11-16 00:00:00", true, 0}, {"2023-11-16 00:00:00.000000001", true, 1},
		{"2023-11-16 00:00:59.999999999", true, 59999999999},
		{"2023-11-16 00:59:59", true, 3599000000000},
		{"2023-11-16 23:59:59.9", true, 86399900000000},
		{"2023-11-17 00:00:00", true, 86400000000000},
		{"2023-11-16T01:00:00Z", true, 3600000000000},
		{"2023-11-16 01:00:00+00:30", true, 1800000000000},
		{"2023-11-16 01:00:00-00:30", true, 5400000000000},
		{"2023-11-16 14:59:00+14:59", true, 0},
		{"2200-12-31 23:59:59", true, 5589561599000000000},
		{"2023-11-16 24:00:00", false, 0}, {"2023-11-16 00:60:00", false, 0},
		{"2023-11-16 00:00:60", false, 0}, {"2023-11-16 00:00:6", false, 0},
		{"2023-11-16 00:00:000", false, 0}, {"2023-11-16 00:00:00.", false, 0},
		{"2023-11-16 01:00:00+15:00", false, 0}, {"2023-11-16 01:00:00+00:60", false, 0},
		{"2023-11-16 01:00:00+0030", false, 0}, {"2023-11-16_01:00:00", false, 0},
		{"2023-11-16 01:00:00 00:30", false, 0}, {"2023-11-16 01:00:00x00:30", false, 0},
		{"2023-11-16 01:00:00+00x30", false, 0}, {"2023-11-16 01:00x00", false, 0},
		{"2023-11-16 01x00:00", false, 0}, {"2023-11x16 01:00:00", false, 0},
		{"2023x11-16 01:00:00", false, 0}, {"2023-00-16 01:00:00", false, 0},
		{"2023-13-16 01:00:00", false, 0}, {"2023-12-00 01:00:00", false, 0},
		{"2201-01-01 00:00:00", false, 0}, {"1970-12-31 00:00:00", false, 0},
		{"2023-11-15 23:59:59", false, 0}, /* before the first row */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ns;
		require(read_second(cases[i].time, &ns) == cases[i].is_good, "%s", cases[i].time);
		require(ns == cases[i].ns, "%s is %llu ns later", cases[i].time,
			(unsigned long long)ns);
	}
}
