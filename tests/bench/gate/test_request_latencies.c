#include "bench/gate/request_latencies.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* What a gate takes from requests.tsv. */

#define HEADER "id\tfinish_ns\tqueue_ns\tttft_ns\ttpot_ns\te2e_ns\n"

static enum status read_text(struct request_latencies *out, const char *text, uint64_t first,
	uint64_t count, struct error *error)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "requests.tsv", text, path);
	enum status status = request_latencies_read(out, path, first, count, error);
	temporary_remove(folder);
	return status;
}

/* Rows stand in the order of finishing; ids 0 and 4 are outside of the window, 2 never finished. */
static const char rows[] = HEADER "3\t90\t0\t31\t32\t33\n"
				  "0\t91\t1\t2\t3\t4\n"
				  "1\t92\t10\t11\t-\t13\n"
				  "4\t93\t40\t41\t42\t43\n"
				  "2\t-\t20\t21\t-\t-\n";

static void require_rows(const struct request_latencies *latencies)
{
	static const uint64_t expected[LATENCY_COUNT][3] = {
		[LATENCY_QUEUE] = {10, NO_LATENCY, 0},
		[LATENCY_TTFT] = {11, NO_LATENCY, 31},
		[LATENCY_TPOT] = {NO_LATENCY, NO_LATENCY, 32},
		[LATENCY_E2E] = {13, NO_LATENCY, 33},
	};

	require_equal(latencies->count, 3);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		for (uint32_t j = 0; latencies->ns[i] != NULL && j < 3; j++) {
			require(latencies->ns[i][j] == expected[i][j], "%s of %u: %llu",
				latency_names[i], j, (unsigned long long)latencies->ns[i][j]);
		}
	}
	require(latencies->ns[LATENCY_ITL] == NULL && latencies->ns[LATENCY_TTFT] != NULL, "itl");
}

Test(request_latencies, stand_in_the_order_of_the_trace)
{
	struct request_latencies latencies, again;
	struct error error = {0};

	enum status status = read_text(&latencies, rows, 1, 3, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_rows(&latencies);
	cJSON *json = request_latencies_to_json(&latencies);
	struct json_document document = {.name = "baseline", .root = json};
	struct json_object object = {.document = &document, .node = json};
	status = request_latencies_from_json(&again, &object, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_rows(&again);
	request_latencies_close(&latencies);
	request_latencies_close(&again);
	cJSON_Delete(json);
}

Test(request_latencies, too_many_are_not_known)
{
	struct request_latencies latencies;
	struct error error = {0};

	require_equal(read_text(&latencies, rows, 0, REQUEST_LATENCIES_MAX + 1, &error), STATUS_OK);
	require_equal(latencies.count, 0);
	request_latencies_close(&latencies);
	require_equal(
		read_text(&latencies, HEADER "0\t1\tx\t1\t1\t1\n", 0, 1, &error), STATUS_INPUT);
	require(strstr(error.text, "queue_ns") != NULL, "%s", error.text);
	request_latencies_close(&latencies);
}

Test(request_latencies, a_damaged_baseline_is_refused)
{
	static const char *const lists[] = {
		"7", "[]", "[1]", "[1, 2, 3]", "[1, -2]", "[1, 1.5]", "[1, \"x\"]", "[1, 1e300]"};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct error error = {0};
		struct json_document document;
		struct json_object object;
		struct request_latencies latencies;
		char text[256];
		snprintf(text, sizeof(text),
			"{\"queue\": [1, null], \"ttft\": %s, \"tpot\": [1, 2], \"e2e\": [1, 2]}",
			lists[i]);
		json_document_parse(&document, "b.json", text, strlen(text), &error);
		json_root(&object, &document, &error);
		require_equal(error.status, STATUS_OK);
		enum status status = request_latencies_from_json(&latencies, &object, &error);
		require(status == STATUS_INPUT && strstr(error.text, "ttft") != NULL, "%s: %s",
			lists[i], error.text);
		request_latencies_close(&latencies);
		json_document_close(&document);
	}
}

/* As many as are kept, and one more. */
Test(request_latencies, of_too_many_requests_are_not_known)
{
	struct text table = {0};
	struct request_latencies latencies;
	struct error error = {0};

	text_add(&table, HEADER);
	for (uint32_t i = 0; i <= REQUEST_LATENCIES_MAX; i++) {
		text_format(&table, "%u\t9\t1\t2\t3\t4\n", i);
	}
	enum status status = read_text(&latencies, table.bytes, 0, REQUEST_LATENCIES_MAX, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(latencies.count, REQUEST_LATENCIES_MAX);
	require_equal(latencies.ns[LATENCY_E2E][REQUEST_LATENCIES_MAX - 1], 4);
	request_latencies_close(&latencies);
	status = read_text(&latencies, table.bytes, 0, REQUEST_LATENCIES_MAX + 1, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(latencies.count, 0);
	request_latencies_close(&latencies);
	text_deinit(&table);
}
