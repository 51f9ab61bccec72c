#include "workloads/trace/format.h"
#include "workloads/trace/trace.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Files as `vllm bench serve --save-detailed` writes them: fields that quire does not need among
   those that it does. */

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(format_vllm_bench, .init = set_up, .fini = tear_down);

#define RESULT(rate, inputs, outputs, more)                                                        \
	"{\"backend\": \"vllm\", \"request_rate\": " rate ", \"max_concurrency\": null, "          \
	"\"input_lens\": " inputs ", \"output_lens\": " outputs ", "                               \
	"\"itls\": [[0.01, 1e-05], [], []], \"errors\": [\"\", \"\\u00e9\", \"\"]" more "}"

/* Reads a trace as "arrival_ns input output" rows; then its error, or its note behind a #. */
static void read_all(const char *text, bool sorts, char *out, size_t out_bytes)
{
	const struct trace_options options = {.sort = sorts};
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;
	size_t used = 0;

	temporary_write(folder, "t", text, path);
	out[0] = '\0';
	enum status status = trace_open(&trace, path, &options, &error);
	while (status == STATUS_OK && has_row) {
		status = trace_next(trace, &row, &has_row, &error);
		if (status == STATUS_OK && has_row) {
			used += (size_t)snprintf(out + used, out_bytes - used,
				"%" PRIu64 " %" PRIu32 " %" PRIu32 "\n", row.arrival_ns,
				row.input_length, row.output_length);
		}
	}
	if (status != STATUS_OK) {
		snprintf(out + used, out_bytes - used, "%s", strstr(error.text, "/t:") + 1);
	} else if (trace_note(trace, 0) != NULL) {
		snprintf(out + used, out_bytes - used, "#%s", trace_note(trace, 0));
	}
	trace_close(trace);
}

/* rows: up to the end, or to some word of the note or the error. */
static void expect(const char *text, const char *rows)
{
	char found[1024];

	for (uint32_t sorts = 0; sorts < 2; sorts++) {
		read_all(text, sorts, found, sizeof(found));
		bool is_begin = strncmp(found, rows, strlen(rows)) == 0;
		bool is_whole = rows[strlen(rows) - 1] == '\n' && strlen(found) > strlen(rows);
		require(is_begin && !is_whole, "found %s, expected %s", found, rows);
	}
}

Test(format_vllm_bench, rows_come_in_order_of_their_start)
{
	expect(RESULT("2.5", "[10, 20, 30]", "[5, 6, 7]",
		       ", \"start_times\": [100.5, 100.25, 101.000000123]"),
		"0 20 6\n250000000 10 5\n750000123 30 7\n");
	/* Ties as in the file. */
	expect(RESULT("\"inf\"", "[3, 2, 1]", "[1, 2, 3]", ", \"start_times\": [7, 7.0, 0.7e1]"),
		"0 3 1\n0 2 2\n0 1 3\n");
}

Test(format_vllm_bench, failed_requests_are_passed_over_and_do_not_set_the_start)
{
	expect(RESULT("2", "[10, 0, 30]", "[0, 0, 7]", ", \"start_times\": [1, 2, 3]"), "0 30 7\n");
}

Test(format_vllm_bench, without_start_times_the_rate_gives_even_arrivals_and_a_note)
{
	expect(RESULT("2.5", "[1, 2, 3]", "[1, 1, 1]", ""),
		"0 1 1\n400000000 2 1\n800000000 3 1\n#the file has no start_times: requests "
		"arrive evenly");
	expect(RESULT("\"inf\"", "[1, 2, 3]", "[1, 1, 1]", ", \"start_times\": [0.0, 0, 0]"),
		"0 1 1\n0 2 1\n0 3 1\n#the file has no start_times: all requests arrive at once");
}

/* Request i comes at i / rate, rounded down, however many come before it. Failed ones have their
   place, and the first that did not fail is at 0. */
Test(format_vllm_bench, even_arrivals_do_not_drift)
{
	enum { COUNT = 60 };
	static const struct {
		const char *text;
		uint64_t millionths;
	} rates[] = {{"7", 7000000}, {"0.3", 300000}, {"1.7", 1700000}, {"999.999999", 999999999},
		{"1000000", UINT64_C(1000000000000)}, {"0.000001", 1}, {"3e1", 30000000}};
	char file[COUNT * 16 + 512], found[COUNT * 48], rows[COUNT * 48];

	for (size_t k = 0; k < 7; k++) {
		char inputs[COUNT * 8], outputs[COUNT * 8];
		size_t used[3] = {0};
		uint64_t first = 0;
		bool has_first = false;
		for (uint32_t i = 0; i < COUNT; i++) {
			uint64_t at = i * UINT64_C(1000000000000000) / rates[k].millionths;
			bool fails = counter_hash(k, i) % 4 == 0;
			used[0] += (size_t)sprintf(inputs + used[0], i == 0 ? "%u" : ",%u", i + 1);
			used[1] +=
				(size_t)sprintf(outputs + used[1], i == 0 ? "%d" : ",%d", !fails);
			if (fails) {
				continue;
			}
			first = has_first ? first : at;
			has_first = true;
			used[2] += (size_t)sprintf(
				rows + used[2], "%" PRIu64 " %u 1\n", at - first, i + 1);
		}
		snprintf(file, sizeof(file), RESULT("%s", "[%s]", "[%s]", ""), rates[k].text,
			inputs, outputs);
		read_all(file, false, found, sizeof(found));
		require(strncmp(found, rows, used[2]) == 0 && found[used[2]] == '#',
			"rate %s: %s instead of %s", rates[k].text, found, rows);
	}
}

/* From 18,447 requests on the product of a request's number and a second in the units of the rate
   takes more than 64 bits. */
Test(format_vllm_bench, even_arrivals_of_many_requests_do_not_wrap)
{
	enum { COUNT = 40000, ITEM = 3 };
	char *items = malloc(COUNT * ITEM + 1), *file = malloc(2 * COUNT * ITEM + 512);
	char path[TEMPORARY_PATH_BYTES];
	struct trace_row row = {0};
	const struct trace_options options = {0};
	struct error error = {0};
	struct trace *trace;
	bool has_row = true;

	for (uint32_t i = 0; i < COUNT; i++) {
		memcpy(items + (size_t)ITEM * i, "1, ", ITEM);
	}
	items[ITEM * (COUNT - 1) + 1] = '\0'; /* no comma behind the last */
	snprintf(file, 2 * COUNT * ITEM + 512, RESULT("4", "[%s]", "[%s]", ""), items, items);
	temporary_write(folder, "t", file, path);
	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < COUNT; i++) {
		require(trace_next(trace, &row, &has_row, &error) == STATUS_OK && has_row, "%s",
			error.text);
		require_equal(row.arrival_ns, i * UINT64_C(250000000));
	}
	trace_close(trace);
	free(file);
	free(items);
}

/* A clock may begin at 0. That all times are 0, and no single one, says that there are none. */
Test(format_vllm_bench, one_time_that_is_not_0_tells_of_start_times)
{
	static const char *const times[] = {"[0.5, 0, 0]", "[0, 0.5, 0]", "[0, 0.0, 0.5]"};
	static const char *const rows[] = {"0 2 1\n0 3 1\n500000000 1 1\n",
		"0 1 1\n0 3 1\n500000000 2 1\n", "0 1 1\n0 2 1\n500000000 3 1\n"};
	char text[512], found[512];

	for (uint32_t i = 0; i < 3; i++) {
		snprintf(text, sizeof(text),
			RESULT("2.5", "[1, 2, 3]", "[1, 1, 1]", ", \"start_times\": %s"), times[i]);
		read_all(text, false, found, sizeof(found));
		cr_assert_str_eq(found, rows[i]);
	}
}

Test(format_vllm_bench, bad_files_get_one_clear_line)
{
#define GOOD RESULT("1", "[1]", "[1]", "")
	static const struct {
		const char *text, *error;
	} cases[] = {
		{RESULT("1", "[1, 2]", "[1]", ""), "t:1: output_lens: found 1 value, expected 2"},
		{RESULT("1", "[1]", "[1]", ", \"start_times\": [1, 2]"),
			"t:1: start_times: found 2 values, expected 1"},
		{RESULT("1", "[]", "[]", ""), "t:1: input_lens: found no request"},
		{RESULT("1", "[0]", "[1]", ""), "t:1: input_lens: found 0, expected at least 1"},
		{RESULT("null", "[1]", "[1]", ""), "t:1: found neither start_times nor"},
		{RESULT("0", "[1]", "[1]", ""), "t:1: request_rate: found 0, expected requests"},
		{RESULT("\"fast\"", "[1]", "[1]", ""),
			"t:1: request_rate: found the text \"fast\""},
		{RESULT("1", "[1]", "[1]", ", \"start_times\": [-1]"),
			"t:1: start_times: found -1"},
		{RESULT("1", "[1]", "[1]", ", \"start_times\": [1e300]"),
			"t:1: start_times: found 1e300"},
		{RESULT("1", "[1.5]", "[1]", ""), "t:1: input_lens: found 1.5"},
		{RESULT("1", "[1]", "[null]", ""), "t:1: output_lens: found null"},
		{"{\"request_rate\": 1, \"mean_ttft_ms\": 3, \"output_throughput\": 4}",
			"t:1: input_lens: found nothing, expected an array of integers in [0, "
			"268435456]; --save-detailed writes it"},
		{RESULT("1", "[1]", "[1]", ", \"p\": NaN"), "t:1: found"},
		{RESULT("1", "[1]", "[0]", ""),
			"t: found no row, expected at least one beside the 1 request"},
	};
	char found[1024];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect(cases[i].text, cases[i].error);
	}
	read_all(GOOD "\n" GOOD, false, found, sizeof(found));
	require(strncmp(found, "0 1 1\nt:2: found {", 18) == 0, "%s", found);
	require(strstr(found, "--append-result") != NULL, "%s", found);
#undef GOOD
}

/* Many requests, some of them out of order or failed, beside a list that is sorted by insertion. */
Test(format_vllm_bench, gives_what_a_sorted_list_would)
{
	enum { COUNT = 500 };
	static struct {
		uint64_t start_us, input, output;
	} list[COUNT], moved;
	static char text[3][COUNT * 24], file[COUNT * 80], found[COUNT * 40], rows[COUNT * 40];
	size_t used[3] = {0}, length = 0;
	uint64_t first = 0;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t hash = counter_hash(7, i);
		uint64_t start = 5000000 + i * 100 + hash % 1000 / 100 * 100;
		uint64_t output = hash >> 20 & 7;
		const char *comma = i == 0 ? "" : ", ";
		used[0] += (size_t)sprintf(text[0] + used[0], "%s%" PRIu64, comma, 1 + hash % 99);
		used[1] += (size_t)sprintf(text[1] + used[1], "%s%" PRIu64, comma, output);
		used[2] += (size_t)sprintf(text[2] + used[2], "%s%" PRIu64 ".%06" PRIu64, comma,
			start / 1000000, start % 1000000);
		if (output == 0) {
			continue;
		}
		uint32_t at = kept++;
		moved.start_us = start;
		moved.input = 1 + hash % 99;
		moved.output = output;
		for (; at > 0 && list[at - 1].start_us > start; at--) {
			list[at] = list[at - 1];
		}
		list[at] = moved;
	}
	snprintf(file, sizeof(file), RESULT("1", "[%s]", "[%s]", ", \"start_times\": [%s]"),
		text[0], text[1], text[2]);
	first = list[0].start_us;
	for (uint32_t i = 0; i < kept; i++) {
		length += (size_t)sprintf(rows + length, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			(list[i].start_us - first) * 1000, list[i].input, list[i].output);
	}
	read_all(file, false, found, sizeof(found));
	require(strcmp(found, rows) == 0, "%.200s instead of %.200s", found, rows);
}
