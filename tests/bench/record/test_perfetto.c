#include "bench/record/perfetto.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/replay/run_to_folder.h"
#include "engine/policy.h"
#include "reports/results/results.h"
#include "engine/profiling/nvtx.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The file that --timeline writes, read back as JSON and compared with the tables of the same
   run. */

enum { REQUESTS = 24, WINDOWS = 16, PATH_BYTES = 2 * TEMPORARY_PATH_BYTES, ROWS_MAX = 4096 };

static void run_rows_in(const char *folder, const char *name, const char *rows,
	const struct policy *policy, uint32_t kv_blocks, uint32_t max_model_len,
	struct perfetto_window window)
{
	char trace[PATH_BYTES], out[PATH_BYTES], timeline[PATH_BYTES];
	struct error error = {0};

	temporary_write(folder, "trace.jsonl", rows, trace);
	snprintf(out, sizeof(out), "%s/%s", folder, name);
	snprintf(timeline, sizeof(timeline), "%s/%s.json", folder, name);
	struct replay_request request = {.run.trace_path = trace,
		.out = out,
		.timeline = timeline,
		.timeline_window = window,
		.wants_steps = true};
	struct replay_config *config = &request.run.config;
	replay_config_default(config);
	while (policy_at(config->policy) != policy) {
		config->policy++;
	}
	config->given.block_size = config->given.max_num_seqs = true;
	config->given.max_num_batched_tokens = true;
	config->block_size = 16;
	config->kv_blocks = kv_blocks;
	config->max_num_seqs = 8;
	config->max_num_batched_tokens = 128;
	config->max_model_len = max_model_len;
	require(run_to_folder(&request, &error) == STATUS_OK, "%s", error.text);
}

static void run_rows(const char *folder, const char *name, const char *rows,
	const struct policy *policy, uint32_t kv_blocks, uint32_t max_model_len)
{
	run_rows_in(
		folder, name, rows, policy, kv_blocks, max_model_len, (struct perfetto_window){0});
}

/* A run that has a backlog, chunked prompts, preemptions and a rejection, into FOLDER/NAME. */
static void run_in(const char *folder, const char *name, struct perfetto_window window)
{
	char rows[8192] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < REQUESTS; i++) {
		uint32_t prompt = i == 5 ? 5000 : 100 + i * 37 % 200;
		used += (size_t)snprintf(rows + used, sizeof(rows) - used,
			"{\"timestamp\":%u,\"input_length\":%u,\"output_length\":%u}\n",
			7000 + i * 3, prompt, 20 + i * 13 % 60);
	}
	run_rows_in(folder, name, rows, &policy_mixed, 60, 900, window);
}

static void run(const char *folder, const char *name)
{
	run_in(folder, name, (struct perfetto_window){0});
}

/* Nanoseconds of a time in microseconds with three places. */
static int64_t ns_of(const cJSON *event, const char *key)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(event, key);

	require(cJSON_IsNumber(node), "no %s", key);
	return (int64_t)(node->valuedouble * 1000 + 0.5);
}

static const char *text_of(const cJSON *event, const char *key)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(event, key);

	require(cJSON_IsString(node), "no %s", key);
	return node->valuestring;
}

static bool is_named(const cJSON *event, const char *name)
{
	return strcmp(text_of(event, "name"), name) == 0;
}

/* Sums over the slices of one request. */
struct request_slices {
	bool is_open, has_slice;
	int64_t begin_ns, end_ns, slice_ns; /* slice_ns: when the last slice began or ended */
	int64_t first_admitted_ns, first_decode_ns;
	uint32_t preemptions, recomputes;
};

static void follow(struct request_slices *slices, const cJSON *event)
{
	int64_t ns = ns_of(event, "ts");
	bool is_begin = strcmp(text_of(event, "ph"), "b") == 0;

	if (is_named(event, "request")) {
		require(slices->is_open != is_begin, "a request begins or ends twice");
		require(!slices->has_slice, "a slice is open around it");
		slices->is_open = is_begin;
		*(is_begin ? &slices->begin_ns : &slices->end_ns) = ns;
		slices->slice_ns = is_begin ? ns : slices->slice_ns;
		return;
	}
	require(slices->is_open, "a slice outside its request");
	require(slices->has_slice != is_begin, "slices overlap");
	require(is_begin ? ns == slices->slice_ns : ns >= slices->slice_ns, "slices leave a gap");
	slices->has_slice = is_begin;
	slices->slice_ns = ns;
	if (is_begin && is_named(event, "prefill")) {
		slices->first_admitted_ns =
			slices->first_admitted_ns < 0 ? ns : slices->first_admitted_ns;
		slices->recomputes++;
	} else if (is_begin && is_named(event, "decode")) {
		slices->first_decode_ns =
			slices->first_decode_ns < 0 ? ns : slices->first_decode_ns;
	} else if (is_begin && is_named(event, "preempted")) {
		slices->preemptions++;
	}
}

/* Slices of every request, in order, tile it from arrival to end, and say what requests.tsv says.
 */
static void require_requests(const cJSON *events, const char *table)
{
	struct request_slices slices[REQUESTS] = {0};
	const cJSON *event;
	uint32_t preemptions = 0, rows = 0;

	for (uint32_t i = 0; i < REQUESTS; i++) {
		slices[i].first_admitted_ns = slices[i].first_decode_ns = -1;
	}
	cJSON_ArrayForEach(event, events)
	{
		const char *kind = text_of(event, "ph");
		if (strcmp(kind, "b") == 0 || strcmp(kind, "e") == 0) {
			uint64_t id = strtoull(text_of(event, "id"), NULL, 10);
			require(id < REQUESTS, "a request that is none");
			follow(&slices[id], event);
		}
	}
	for (const char *at = strchr(table, '\n') + 1; *at != '\0'; at = strchr(at, '\n') + 1) {
		uint64_t id, arrival, scheduled, first_token, finish, preempted;
		rows++;
		if (sscanf(at,
			    "%" SCNu64 "\t-\tfinished\t%" SCNu64 "\t%" SCNu64 "\t%" SCNu64
			    "\t%" SCNu64 "\t%*u\t%*u\t%*u\t%" SCNu64,
			    &id, &arrival, &scheduled, &first_token, &finish, &preempted) != 6) {
			require(strstr(at, "rejected_too_long") != NULL, "row %u", rows);
			continue;
		}
		const struct request_slices *one = &slices[id];
		int64_t origin = 7000000000;
		require_equal(one->begin_ns + origin, arrival);
		require_equal(one->first_admitted_ns + origin, scheduled);
		require_equal(one->first_decode_ns + origin, first_token);
		require_equal(one->end_ns + origin, finish);
		require_equal(one->slice_ns, one->end_ns);
		require_equal(one->preemptions, preempted);
		require_equal(one->recomputes, preempted + 1);
		require(!one->is_open && !one->has_slice, "request %u never ends", (unsigned)id);
		preemptions += one->preemptions;
	}
	require_equal(rows, REQUESTS);
	require(preemptions > 0, "the run was to have preemptions");
}

/* Every step is present, at its time, with its counts. */
static void require_steps(const cJSON *events, const char *table)
{
	const cJSON *event;
	const char *at = strchr(table, '\n') + 1;
	uint32_t kinds[3] = {0};

	cJSON_ArrayForEach(event, events)
	{
		uint64_t step, start, elapsed, decode_rows, prefill_rows;
		if (strcmp(text_of(event, "ph"), "X") != 0) {
			continue;
		}
		require(sscanf(at,
				"%" SCNu64 "\t%" SCNu64 "\t%" SCNu64 "\t%*u\t%*u\tnone\t%" SCNu64
				"\t%" SCNu64,
				&step, &start, &elapsed, &decode_rows, &prefill_rows) == 5,
			"more steps than steps.tsv has");
		at = strchr(at, '\n') + 1;
		const cJSON *counts = cJSON_GetObjectItemCaseSensitive(event, "args");
		uint32_t kind = prefill_rows == 0 ? 0 : decode_rows == 0 ? 1 : 2;
		static const char *const names[] = {"decode", "prefill", "mixed"};
		require(is_named(event, names[kind]), "step %u", (unsigned)step);
		kinds[kind]++;
		require_equal(ns_of(event, "ts") + 7000000000, start);
		require_equal(ns_of(event, "dur"), elapsed);
		require_equal(ns_of(counts, "step"), step * 1000);
		require_equal(ns_of(counts, "decode_rows"), decode_rows * 1000);
	}
	require(*at == '\0', "steps are missing");
	require(kinds[0] > 0 && kinds[1] > 0 && kinds[2] > 0, "a kind of step is missing");
}

/* Requests are preempted when a step starts, as many as it says. */
static void require_preemptions(const cJSON *events)
{
	const cJSON *step, *event;

	cJSON_ArrayForEach(step, events)
	{
		uint64_t found = 0;
		if (strcmp(text_of(step, "ph"), "X") != 0) {
			continue;
		}
		cJSON_ArrayForEach(event, events)
		{
			found += strcmp(text_of(event, "ph"), "b") == 0 &&
				 is_named(event, "preempted") &&
				 ns_of(event, "ts") == ns_of(step, "ts");
		}
		const cJSON *counts = cJSON_GetObjectItemCaseSensitive(step, "args");
		require_equal(found * 1000, ns_of(counts, "preemptions"));
	}
}

/* A counter is written where one of its values changes, and only there. */
static void require_changes(const cJSON *events, const char *name)
{
	const cJSON *event, *last = NULL;

	cJSON_ArrayForEach(event, events)
	{
		if (strcmp(text_of(event, "ph"), "C") != 0 || !is_named(event, name)) {
			continue;
		}
		const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
		require(last == NULL || !cJSON_Compare(args, last, true), "%s did not change",
			name);
		last = args;
	}
	require(last != NULL, "no %s", name);
}

/* The counters show what each step says of itself, until the next one. */
static void require_counters(const cJSON *events)
{
	static const char *const fields[] = {"running", "waiting", "used"};
	int64_t shown[3] = {-1, -1, -1}, said[3] = {-1, -1, -1};
	const cJSON *event;

	cJSON_ArrayForEach(event, events)
	{
		const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
		bool is_step = strcmp(text_of(event, "ph"), "X") == 0;
		for (uint32_t i = 0; i < 3; i++) {
			if (strcmp(text_of(event, "ph"), "C") == 0 &&
				cJSON_HasObjectItem(args, fields[i])) {
				shown[i] = ns_of(args, fields[i]);
			}
			if (is_step) {
				require(shown[i] == said[i], "%s is shown as %lld, not %lld",
					fields[i], (long long)shown[i], (long long)said[i]);
				said[i] = ns_of(args, i < 2 ? fields[i] : "used_blocks");
			}
		}
	}
	require(memcmp(shown, said, sizeof(shown)) == 0, "the last step is not shown");
}

Test(perfetto, agrees_with_the_tables)
{
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES];

	temporary_folder(folder);
	run(folder, "run");
	snprintf(path, sizeof(path), "%s/run.json", folder);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "no JSON: %.200s", cJSON_GetErrorPtr());
	const cJSON *events = cJSON_GetObjectItemCaseSensitive(root, "traceEvents");
	require(cJSON_IsArray(events), "no traceEvents");
	snprintf(path, sizeof(path), "%s/run/%s", folder, RESULT_REQUESTS);
	char *requests = file_read(path, NULL);
	require_requests(events, requests);
	snprintf(path, sizeof(path), "%s/run/%s", folder, RESULT_STEPS);
	char *steps = file_read(path, NULL);
	require_steps(events, steps);
	require_preemptions(events);
	require_counters(events);
	require_changes(events, "sequences");
	require_changes(events, "KV blocks");
	require(strstr(text, "\"rejected: too long\"") != NULL, "the rejection is missing");
	free(requests);
	free(steps);
	cJSON_Delete(root);
	free(text);
	temporary_remove(folder);
}

/* Asynchronous: in step 1, decided while step 0 runs, the first request needs a block, and takes
   it from the second. But step 0 gives the second its only token and ends it. So it has no slice
   behind its end. */
Test(perfetto, a_request_that_ends_preempted_has_no_slice_behind_its_end)
{
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES];
	struct request_slices slices[2] = {0};
	const cJSON *event;

	temporary_folder(folder);
	run_rows(folder, "run",
		"{\"timestamp\":0,\"input_length\":64,\"output_length\":20}\n"
		"{\"timestamp\":0,\"input_length\":64,\"output_length\":1}\n",
		&policy_vllm, 9, 128);
	snprintf(path, sizeof(path), "%s/run.json", folder);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	cJSON_ArrayForEach(event, cJSON_GetObjectItemCaseSensitive(root, "traceEvents"))
	{
		const char *kind = text_of(event, "ph");
		if (strcmp(kind, "b") == 0 || strcmp(kind, "e") == 0) {
			follow(&slices[strtoul(text_of(event, "id"), NULL, 10)], event);
		}
	}
	for (uint32_t i = 0; i < 2; i++) {
		require(!slices[i].is_open && !slices[i].has_slice, "request %u never ends", i);
	}
	require(strstr(text, "\"output_tokens\":1,\"preemptions\":1}") != NULL,
		"the second was not preempted as it ended");
	cJSON_Delete(root);
	free(text);
	temporary_remove(folder);
}

/* ---- windows ---- */

/* A slice of a request or of the engine. */
struct cut {
	uint64_t id;
	char name[16];
	int64_t begin_ns, end_ns;
};

static int compare_cuts(const void *a, const void *b)
{
	const struct cut *x = a, *y = b;
	int names = strcmp(x->name, y->name);

	return x->id != y->id		    ? (x->id < y->id ? -1 : 1)
	       : x->begin_ns != y->begin_ns ? (x->begin_ns < y->begin_ns ? -1 : 1)
					    : names;
}

static struct cut *find_open(struct cut *cuts, uint32_t count, uint64_t id, const char *name)
{
	for (uint32_t i = count; i > 0; i--) {
		struct cut *cut = &cuts[i - 1];
		if (cut->end_ns < 0 && cut->id == id && strcmp(cut->name, name) == 0) {
			return cut;
		}
	}
	require(false, "%s ends and did not begin", name);
	return NULL;
}

/* All slices of requests, each of which has to end, and the starts of steps; in order. */
static uint32_t read_cuts(const char *folder, const char *name, struct cut cuts[ROWS_MAX])
{
	char path[PATH_BYTES];
	const cJSON *event;
	uint32_t count = 0;

	snprintf(path, sizeof(path), "%s/%s.json", folder, name);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	cJSON_ArrayForEach(event, cJSON_GetObjectItemCaseSensitive(root, "traceEvents"))
	{
		char kind = text_of(event, "ph")[0];
		const char *what = text_of(event, "name");
		int64_t ns = ns_of(event, "ts");
		if (kind == 'e') {
			uint64_t id = strtoull(text_of(event, "id"), NULL, 10);
			find_open(cuts, count, id, what)->end_ns = ns;
		} else if (kind == 'b' || kind == 'X') {
			require(count < ROWS_MAX, "too many slices");
			struct cut *cut = &cuts[count++];
			cut->id =
				kind == 'X' ? UINT64_MAX : strtoull(text_of(event, "id"), NULL, 10);
			cut->begin_ns = ns;
			cut->end_ns = kind == 'X' ? ns : -1;
			snprintf(cut->name, sizeof(cut->name), "%s", what);
		}
	}
	cJSON_Delete(root);
	free(text);
	qsort(cuts, count, sizeof(*cuts), compare_cuts);
	return count;
}

/* Cuts them to the window, and drops what is of no time at its edges. */
static uint32_t cut_window(struct cut *cuts, uint32_t count, struct perfetto_window window)
{
	int64_t from_ns = (int64_t)window.from_ns, to_ns = (int64_t)window.to_ns;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct cut cut = cuts[i];
		if (cut.end_ns <= from_ns || cut.begin_ns >= to_ns) {
			continue;
		}
		cut.begin_ns = cut.begin_ns < from_ns ? from_ns : cut.begin_ns;
		cut.end_ns = cut.end_ns > to_ns ? to_ns : cut.end_ns;
		cuts[kept++] = cut;
	}
	qsort(cuts, kept, sizeof(*cuts), compare_cuts);
	return kept;
}

/* A window shows what the whole run shows of that time. No event is at its edges. */
Test(perfetto, a_window_is_cut_from_the_run)
{
	static struct cut whole[ROWS_MAX], shown[ROWS_MAX];
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	run(folder, "whole");
	for (uint64_t i = 0; i < WINDOWS; i++) {
		const struct perfetto_window window = {
			i * 7000001, i * 7000001 + (i % 4 == 0 ? 2 : 15000000 * i)};
		run_in(folder, "window", window);
		uint32_t expected = cut_window(whole, read_cuts(folder, "whole", whole), window);
		uint32_t found = cut_window(shown, read_cuts(folder, "window", shown), window);
		require_equal(found, expected);
		require(found > 0, "nothing happens in window %u", (unsigned)i);
		for (uint32_t k = 0; k < found; k++) {
			require_equal(compare_cuts(&shown[k], &whole[k]), 0);
			require_equal(shown[k].end_ns, whole[k].end_ns);
		}
		char remove[PATH_BYTES + 16];
		snprintf(remove, sizeof(remove), "rm -r %s/window*", folder);
		require_equal(system(remove), 0);
	}
	temporary_remove(folder);
}

/* Which of the rows are shown as rejected for a reason, a bit each. */
static uint64_t rejected_rows(const char *folder, const char *name, const char *reason)
{
	char path[PATH_BYTES], shown[64];
	const cJSON *event;
	uint64_t rows = 0;

	snprintf(path, sizeof(path), "%s/%s.json", folder, name);
	snprintf(shown, sizeof(shown), "rejected: %s", reason);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	cJSON_ArrayForEach(event, cJSON_GetObjectItemCaseSensitive(root, "traceEvents"))
	{
		if (strcmp(text_of(event, "name"), shown) == 0) {
			const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(event, "args");
			const cJSON *id = cJSON_GetObjectItemCaseSensitive(arguments, "id");
			rows |= UINT64_C(1) << (uint32_t)id->valuedouble;
		}
	}
	cJSON_Delete(root);
	free(text);
	return rows;
}

/* A row each 50 ms, of which two of three are rejected while nothing else happens, one since it is
   too long and one since 12 blocks do not hold it: an event of its own may be the first of a
   window, and the first behind it. */
Test(perfetto, a_window_has_its_rejections)
{
	enum { ROWS = 12, EVERY_MS = 50 };
	char folder[TEMPORARY_PATH_BYTES], rows[2048] = "", remove[PATH_BYTES + 16];
	size_t used = 0;

	for (uint32_t i = 0; i < ROWS; i++) {
		used += (size_t)snprintf(rows + used, sizeof(rows) - used,
			"{\"timestamp\":%u,\"input_length\":%u,\"output_length\":1}\n",
			i * EVERY_MS,
			i % 3 == 0   ? 20
			: i % 3 == 1 ? 5000
				     : 850);
	}
	temporary_folder(folder);
	for (uint64_t first = 0; first < ROWS; first++) {
		for (uint64_t end = first + 1; end <= ROWS; end++) {
			const struct perfetto_window window = {
				(first * EVERY_MS - (first > 0 ? 20 : 0)) * 1000000,
				(end * EVERY_MS - 20) * 1000000};
			uint64_t expected[3] = {0};
			for (uint64_t i = first; i < end; i++) {
				expected[i % 3] |= UINT64_C(1) << i;
			}
			run_rows_in(folder, "window", rows, &policy_mixed, 12, 900, window);
			require_equal(rejected_rows(folder, "window", "too long"), expected[1]);
			require_equal(rejected_rows(folder, "window", "never fits"), expected[2]);
			snprintf(remove, sizeof(remove), "rm -r %s/window*", folder);
			require_equal(system(remove), 0);
		}
	}
	temporary_remove(folder);
}

Test(perfetto, the_same_run_gives_the_same_bytes)
{
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES];

	temporary_folder(folder);
	run(folder, "first");
	run(folder, "second");
	snprintf(path, sizeof(path), "%s/first.json", folder);
	char *first = file_read(path, NULL);
	snprintf(path, sizeof(path), "%s/second.json", folder);
	char *second = file_read(path, NULL);
	require(strcmp(first, second) == 0, "two runs, two files");
	free(first);
	free(second);
	temporary_remove(folder);
}

/* Kernels that overlap lie in lanes of their own, and hostile names leave the JSON whole. */
Test(perfetto, kernels_have_lanes)
{
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES];

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/kernels.json", folder);
	FILE *out = fopen(path, "wb");
	struct perfetto *file = perfetto_open(out, 1, &(struct perfetto_window){0});
	perfetto_kernel(file, "qkv", "first", 1000, 500, 0, 3);
	perfetto_kernel(file, "o", "a \"quoted\\\n name", 1200, 500, 0, RANGE_NO_LAYER);
	perfetto_kernel(file, "down", "third", 1600, 500, 0, 3);
	perfetto_kernel(file, "down", "fourth", 1600, 900, 1, 0);
	perfetto_kernel(file, "down", "fifth", 1650, 100, 1, 4);
	perfetto_kernel(file, "down", "sixth", 1680, 20, 1, 4);
	perfetto_kernel(file, "down", "seventh", 1700, 1, 2, 4);
	perfetto_end(file, 3000);
	perfetto_close(file);
	require(fclose(out) == 0, "it cannot be written");
	char *text = file_read(path, NULL);
	cr_assert_str_eq(text,
		"{\"traceEvents\":[\n"
		"{\"ph\":\"M\",\"pid\":1,\"ts\":0.000,\"name\":\"process_name\","
		"\"args\":{\"name\":\"engine\"}},\n"
		"{\"ph\":\"M\",\"pid\":1,\"ts\":0.000,\"tid\":1,\"name\":\"thread_name\","
		"\"args\":{\"name\":\"steps\"}},\n"
		"{\"ph\":\"M\",\"pid\":2,\"ts\":0.000,\"name\":\"process_name\","
		"\"args\":{\"name\":\"requests\"}},\n"
		"{\"ph\":\"M\",\"pid\":3,\"ts\":0.000,\"name\":\"process_name\","
		"\"args\":{\"name\":\"GPU\"}},\n"
		"{\"ph\":\"M\",\"pid\":3,\"ts\":0.000,\"tid\":1,\"name\":\"thread_name\","
		"\"args\":{\"name\":\"kernels\"}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.000,\"tid\":1,\"dur\":0.500,\"name\":\"qkv\","
		"\"args\":{\"kernel\":\"first\",\"step\":0,\"layer\":3}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.200,\"tid\":2,\"dur\":0.500,\"name\":\"o\","
		"\"args\":{\"kernel\":\"a ?quoted?? name\",\"step\":0}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.600,\"tid\":1,\"dur\":0.500,\"name\":\"down\","
		"\"args\":{\"kernel\":\"third\",\"step\":0,\"layer\":3}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.600,\"tid\":3,\"dur\":0.900,\"name\":\"down\","
		"\"args\":{\"kernel\":\"fourth\",\"step\":1,\"layer\":0}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.650,\"tid\":4,\"dur\":0.100,\"name\":\"down\","
		"\"args\":{\"kernel\":\"fifth\",\"step\":1,\"layer\":4}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.680,\"tid\":4,\"dur\":0.020,\"name\":\"down\","
		"\"args\":{\"kernel\":\"sixth\",\"step\":1,\"layer\":4}},\n"
		"{\"ph\":\"X\",\"pid\":3,\"ts\":1.700,\"tid\":2,\"dur\":0.001,\"name\":\"down\","
		"\"args\":{\"kernel\":\"seventh\",\"step\":2,\"layer\":4}}\n"
		"],\"displayTimeUnit\":\"ms\",\"otherData\":{\"kernels_not_shown\":0}}\n");
	free(text);
	temporary_remove(folder);
}

Test(perfetto, kernel_times_need_the_cuda_runner)
{
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES], out[PATH_BYTES];
	struct error error = {0};

	temporary_folder(folder);
	temporary_write(folder, "trace.jsonl",
		"{\"timestamp\":0,\"input_length\":9,\"output_length\":9}\n", trace);
	snprintf(out, sizeof(out), "%s/out", folder);
	struct replay_request request = {
		.run.trace_path = trace, .run.wants_kernel_times = true, .out = out};
	replay_config_default(&request.run.config);
	require_equal(run_to_folder(&request, &error), STATUS_USAGE);
	require(strstr(error.text, "--runner cuda, not sim") != NULL, "found: %s", error.text);
	require(access(out, F_OK) != 0, "a folder was made");
	temporary_remove(folder);
}
