#include "bench/replay/run_to_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/base/table.h"
#include "engine/policy.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Every derived cell of a result, computed a second time from requests.tsv and steps.tsv by the
   words of reports/results/results.h: one request and one step after the other, in all bins. */

enum { ROWS_MAX = 6000, COLUMNS_MAX = 24 };

#define NONE UINT64_MAX

/* ---- reading tables ---- */

struct cells {
	uint32_t rows;
	uint64_t at[ROWS_MAX][COLUMNS_MAX]; /* by the order of the names; NONE: no value */
	char text[ROWS_MAX][16];	    /* of the first name */
};

/* places: decimal places of the cells, by name; others are integers, texts or "-". */
struct columns {
	const char *const *names;
	const uint32_t *places;
	uint32_t count;
};

static void read_cells(
	struct cells *cells, const char *folder, const char *file, const struct columns *columns)
{
	char path[PATH_BYTES];
	struct table_reader table;
	struct error error = {0};
	uint32_t fields[COLUMNS_MAX];

	path_in(path, folder, file);
	table_reader_open(&table, path, NULL, &error);
	for (uint32_t i = 0; i < columns->count; i++) {
		table_reader_column(&table, columns->names[i], &fields[i], &error);
	}
	for (cells->rows = 0; table_reader_next(&table, &error); cells->rows++) {
		require(cells->rows < ROWS_MAX, "too many rows in %s", path);
		snprintf(cells->text[cells->rows], sizeof(cells->text[0]), "%s",
			table.cells[fields[0]]);
		for (uint32_t i = 0; i < columns->count; i++) {
			const char *cell = table.cells[fields[i]];
			uint64_t *value = &cells->at[cells->rows][i];
			if (!decimal_to_u64(cell, strlen(cell), columns->places[i], value)) {
				*value = NONE;
			}
		}
	}
	require(error.status == STATUS_OK, "%s", error.text);
	table_reader_close(&table);
}

#define COLUMN_NAME(name, places) #name,
#define COLUMN_PLACES(name, places) places,
#define COLUMNS(list)                                                                              \
	{                                                                                          \
		.names = (const char *const[]){list(COLUMN_NAME)},                                 \
		.places = (const uint32_t[]){list(COLUMN_PLACES)},                                 \
		.count = sizeof((const uint32_t[]){list(COLUMN_PLACES)}) / sizeof(uint32_t)        \
	}

#define REQUEST_LIST(X)                                                                            \
	X(id, 0)                                                                                   \
	X(arrival_ns, 0)                                                                           \
	X(first_scheduled_ns, 0)                                                                   \
	X(first_token_ns, 0)                                                                       \
	X(finish_ns, 0)                                                                            \
	X(prompt_tokens, 0)                                                                        \
	X(cached_tokens, 0)                                                                        \
	X(output_tokens, 0)                                                                        \
	X(preemptions, 0)                                                                          \
	X(recomputed_tokens, 0)                                                                    \
	X(queue_ns, 0)                                                                             \
	X(ttft_ns, 0)                                                                              \
	X(tpot_ns, 0)                                                                              \
	X(e2e_ns, 0)                                                                               \
	X(slo_met, 0)
#define STEP_LIST(X)                                                                               \
	X(step, 0)                                                                                 \
	X(start_ns, 0)                                                                             \
	X(elapsed_ns, 0)                                                                           \
	X(gpu_ns, 0)                                                                               \
	X(host_ns, 0)                                                                              \
	X(decode_rows, 0)                                                                          \
	X(prefill_rows, 0)                                                                         \
	X(prefill_tokens, 0)                                                                       \
	X(sampled_rows, 0)                                                                         \
	X(running, 0)                                                                              \
	X(waiting, 0)                                                                              \
	X(used_blocks, 0)                                                                          \
	X(preemptions, 0)
#define TIMELINE_LIST(X)                                                                           \
	X(time_s, 9)                                                                               \
	X(width_s, 9)                                                                              \
	X(running, 3)                                                                              \
	X(waiting, 3)                                                                              \
	X(used_blocks, 3)                                                                          \
	X(hit_tokens, 0)                                                                           \
	X(query_tokens, 0)                                                                         \
	X(output_tokens, 0)                                                                        \
	X(prefill_tokens, 0)                                                                       \
	X(preemptions, 0)                                                                          \
	X(steps, 0)                                                                                \
	X(busy_share, 6)
#define GRID_LIST(X)                                                                               \
	X(decode_rows_low, 0)                                                                      \
	X(decode_rows_high, 0)                                                                     \
	X(prefill_tokens_low, 0)                                                                   \
	X(prefill_tokens_high, 0)                                                                  \
	X(steps, 0)                                                                                \
	X(mean_ns, 0)                                                                              \
	X(max_ns, 0)
#define LATENCY_LIST(X) X(metric, 0) X(upper_ns, 0) X(count, 0)

#define COLUMN_INDEX(name, places) R_##name,
enum { REQUEST_LIST(COLUMN_INDEX) };
#undef COLUMN_INDEX
#define COLUMN_INDEX(name, places) S_##name,
enum { STEP_LIST(COLUMN_INDEX) };
#undef COLUMN_INDEX
#define COLUMN_INDEX(name, places) T_##name,
enum { TIMELINE_LIST(COLUMN_INDEX) };
#undef COLUMN_INDEX
#define COLUMN_INDEX(name, places) G_##name,
enum { GRID_LIST(COLUMN_INDEX) };
#undef COLUMN_INDEX
#define COLUMN_INDEX(name, places) L_##name,
enum { LATENCY_LIST(COLUMN_INDEX) };
#undef COLUMN_INDEX

static const struct columns request_columns = COLUMNS(REQUEST_LIST);
static const struct columns step_columns = COLUMNS(STEP_LIST);
static const struct columns timeline_columns = COLUMNS(TIMELINE_LIST);
static const struct columns grid_columns = COLUMNS(GRID_LIST);
static const struct columns latency_columns = COLUMNS(LATENCY_LIST);

static struct cells requests, steps, found;

/* ---- requests.tsv and steps.tsv themselves ---- */

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a == NONE || b == NONE ? NONE : a - b;
}

static void require_requests(const struct slo *slo)
{
	for (uint32_t i = 0; i < requests.rows; i++) {
		const uint64_t *row = requests.at[i];
		bool is_finished = row[R_finish_ns] != NONE;
		bool has_tpot = is_finished && row[R_output_tokens] > 1;
		require_equal(row[R_queue_ns], minus(row[R_first_scheduled_ns], row[R_arrival_ns]));
		require_equal(row[R_ttft_ns], minus(row[R_first_token_ns], row[R_arrival_ns]));
		require_equal(row[R_e2e_ns], minus(row[R_finish_ns], row[R_arrival_ns]));
		uint64_t decoding = minus(row[R_finish_ns], row[R_first_token_ns]);
		uint64_t tpot = has_tpot ? decoding / (row[R_output_tokens] - 1) : NONE;
		require_equal(row[R_tpot_ns], tpot);
		bool is_met = (slo->ttft_ns == 0 || row[R_ttft_ns] <= slo->ttft_ns) &&
			      (slo->tpot_ns == 0 || !has_tpot || tpot <= slo->tpot_ns) &&
			      (slo->e2e_ns == 0 || row[R_e2e_ns] <= slo->e2e_ns);
		bool has_slo = slo->ttft_ns > 0 || slo->tpot_ns > 0 || slo->e2e_ns > 0;
		require_equal(row[R_slo_met], is_finished && has_slo ? is_met : NONE);
	}
}

static uint64_t sum_steps(uint32_t column)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < steps.rows; i++) {
		sum += steps.at[i][column];
	}
	return sum;
}

static uint64_t sum_requests(uint32_t column)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < requests.rows; i++) {
		sum += requests.at[i][column] == NONE ? 0 : requests.at[i][column];
	}
	return sum;
}

static void require_steps(const cJSON *summary)
{
	uint64_t end_ns = 0;

	for (uint32_t i = 0; i < steps.rows; i++) {
		const uint64_t *row = steps.at[i];
		require_equal(row[S_step], i);
		require(row[S_start_ns] >= end_ns, "step %u overlaps the one before", i);
		require_equal(row[S_gpu_ns] + row[S_host_ns], row[S_elapsed_ns]);
		end_ns = row[S_start_ns] + row[S_elapsed_ns];
	}
	require_equal(sum_steps(S_sampled_rows), sum_requests(R_output_tokens));
	require_equal(sum_steps(S_preemptions), sum_requests(R_preemptions));
	require_equal(number_in(summary, "time", "steps"), steps.rows);
}

/* The index of the step that starts at this time. */
static uint32_t step_at(uint64_t start_ns)
{
	uint32_t i = 0;

	while (i < steps.rows && steps.at[i][S_start_ns] != start_ns) {
		i++;
	}
	require(i < steps.rows, "no step starts at %llu ns", (unsigned long long)start_ns);
	return i;
}

/* ---- timeline.tsv ---- */

/* The time of a step within [from, until). */
static uint64_t overlap(const uint64_t *step, uint64_t from_ns, uint64_t until_ns)
{
	uint64_t start = step[S_start_ns], end = start + step[S_elapsed_ns];

	start = start > from_ns ? start : from_ns;
	end = end < until_ns ? end : until_ns;
	return end > start ? end - start : 0;
}

/* The last instant of a step. */
static uint64_t last_ns(const uint64_t *step)
{
	return step[S_start_ns] + step[S_elapsed_ns] - (step[S_elapsed_ns] > 0);
}

static void require_bin(const uint64_t *bin, uint64_t from_ns, uint64_t width_ns)
{
	u128 running = 0, waiting = 0, blocks = 0;
	uint64_t busy = 0, hit = 0, query = 0, output = 0, prefill = 0, preempted = 0, count = 0;
	uint64_t until_ns = from_ns + width_ns;

	for (uint32_t i = 0; i < steps.rows; i++) {
		const uint64_t *step = steps.at[i];
		uint64_t time = overlap(step, from_ns, until_ns);
		running += (u128)time * step[S_running];
		waiting += (u128)time * step[S_waiting];
		blocks += (u128)time * step[S_used_blocks];
		busy += time;
		if (last_ns(step) < from_ns || last_ns(step) >= until_ns) {
			continue;
		}
		count++;
		output += step[S_sampled_rows];
		prefill += step[S_prefill_tokens];
		preempted += step[S_preemptions];
	}
	for (uint32_t i = 0; i < requests.rows; i++) {
		const uint64_t *row = requests.at[i];
		if (row[R_first_scheduled_ns] == NONE) {
			continue;
		}
		uint64_t last = last_ns(steps.at[step_at(row[R_first_scheduled_ns])]);
		bool is_here = last >= from_ns && last < until_ns;
		hit += is_here ? row[R_cached_tokens] : 0;
		query += is_here ? row[R_prompt_tokens] : 0;
	}
	require_equal(bin[T_running], running * 1000 / width_ns);
	require_equal(bin[T_waiting], waiting * 1000 / width_ns);
	require_equal(bin[T_used_blocks], blocks * 1000 / width_ns);
	require_equal(bin[T_hit_tokens], hit);
	require_equal(bin[T_query_tokens], query);
	require_equal(bin[T_output_tokens], output);
	require_equal(bin[T_prefill_tokens], prefill);
	require_equal(bin[T_preemptions], preempted);
	require_equal(bin[T_steps], count);
	require_equal(bin[T_busy_share], (u128)busy * 1000000 / width_ns);
}

static void require_timeline(const char *folder)
{
	uint64_t origin_ns = NONE, width_ns = 1000;

	for (uint32_t i = 0; i < requests.rows; i++) {
		origin_ns = u64_min(origin_ns, requests.at[i][R_arrival_ns]);
	}
	uint64_t span_ns = last_ns(steps.at[steps.rows - 1]) - origin_ns;
	while (span_ns / width_ns >= 2000) {
		width_ns *= 2;
	}
	read_cells(&found, folder, RESULT_TIMELINE, &timeline_columns);
	require_equal(found.rows, span_ns / width_ns + 1);
	for (uint32_t i = 0; i < found.rows; i++) {
		require_equal(found.at[i][T_width_s], width_ns);
		require_equal(found.at[i][T_time_s], origin_ns + i * width_ns);
		/* Each bin looks at every step: the first, the last, and some between them. */
		if (i % 37 == 0 || i + 3 > found.rows || i < 3) {
			require_bin(found.at[i], origin_ns + i * width_ns, width_ns);
		}
	}
}

/* ---- step_grid.tsv ---- */

/* The first count of the next range: single counts below 8, then quarters of an octave. */
static uint64_t range_after(uint64_t low)
{
	uint64_t octave = 8;

	if (low < 8) {
		return low + 1;
	}
	while (octave * 2 <= low) {
		octave *= 2;
	}
	return low + octave / 4;
}

static void require_range(uint64_t low, uint64_t high)
{
	uint64_t start = 0;

	while (start < low) {
		start = range_after(start);
	}
	require_equal(start, low);
	require_equal(high + 1, range_after(low));
}

static void require_grid(const char *folder)
{
	uint64_t all = 0;

	read_cells(&found, folder, RESULT_STEP_GRID, &grid_columns);
	for (uint32_t i = 0; i < found.rows; i++) {
		const uint64_t *cell = found.at[i];
		uint64_t count = 0, sum = 0, max = 0;
		require_range(cell[G_decode_rows_low], cell[G_decode_rows_high]);
		require_range(cell[G_prefill_tokens_low], cell[G_prefill_tokens_high]);
		for (uint32_t j = 0; j < steps.rows; j++) {
			const uint64_t *step = steps.at[j];
			if (step[S_decode_rows] >= cell[G_decode_rows_low] &&
				step[S_decode_rows] <= cell[G_decode_rows_high] &&
				step[S_prefill_tokens] >= cell[G_prefill_tokens_low] &&
				step[S_prefill_tokens] <= cell[G_prefill_tokens_high]) {
				count++;
				sum += step[S_elapsed_ns];
				max = u64_max(max, step[S_elapsed_ns]);
			}
		}
		require(count > 0, "a cell without steps");
		require_equal(cell[G_steps], count);
		require_equal(cell[G_mean_ns], sum / count);
		require_equal(cell[G_max_ns], max);
		all += count;
	}
	require_equal(all, steps.rows);
}

/* ---- latency.tsv ---- */

/* The largest value with the same leading eleven bits. */
static uint64_t upper_of(uint64_t value)
{
	uint32_t dropped = 0;

	while (value >> dropped >= 2048) {
		dropped++;
	}
	return (((value >> dropped) + 1) << dropped) - 1;
}

static void require_histogram(const char *name, uint32_t column, uint64_t warmup)
{
	uint64_t total = 0, before = 0, counted = 0;
	bool is_first = true;

	for (uint32_t i = 0; i < requests.rows; i++) {
		const uint64_t *row = requests.at[i];
		total += row[R_id] >= warmup && row[R_finish_ns] != NONE && row[column] != NONE;
	}
	for (uint32_t i = 0; i < found.rows; i++) {
		uint64_t upper = found.at[i][L_upper_ns], count = 0;
		if (strcmp(found.text[i], name) != 0) {
			continue;
		}
		require(is_first || upper > before, "%s does not rise", name);
		for (uint32_t j = 0; j < requests.rows; j++) {
			const uint64_t *row = requests.at[j];
			count += row[R_id] >= warmup && row[R_finish_ns] != NONE &&
				 row[column] != NONE && upper_of(row[column]) == upper;
		}
		require_equal(found.at[i][L_count], count);
		counted += count;
		before = upper;
		is_first = false;
	}
	require_equal(counted, total);
}

static void require_latency(const char *folder, uint64_t warmup)
{
	uint64_t gaps = 0, counted = 0;

	read_cells(&found, folder, RESULT_LATENCY, &latency_columns);
	require_histogram("queue", R_queue_ns, warmup);
	require_histogram("ttft", R_ttft_ns, warmup);
	require_histogram("tpot", R_tpot_ns, warmup);
	require_histogram("e2e", R_e2e_ns, warmup);
	for (uint32_t i = 0; i < requests.rows; i++) {
		const uint64_t *row = requests.at[i];
		bool counts = row[R_id] >= warmup && row[R_output_tokens] > 0;
		gaps += counts ? row[R_output_tokens] - 1 : 0;
	}
	for (uint32_t i = 0; i < found.rows; i++) {
		counted += strcmp(found.text[i], "itl") == 0 ? found.at[i][L_count] : 0;
	}
	require_equal(counted, gaps);
}

/* ---- runs ---- */

static void run_and_require(struct replay_request *request)
{
	struct error error = {0};
	const struct replay_config *config = &request->run.config;
	uint64_t warmup = config->warmup;

	require(run_to_folder(request, &error) == STATUS_OK, "%s", error.text);
	read_cells(&requests, request->out, RESULT_REQUESTS, &request_columns);
	read_cells(&steps, request->out, RESULT_STEPS, &step_columns);
	cJSON *summary = read_summary(request->out);
	require(steps.rows > 100 && requests.rows > 50, "a small run");
	require_requests(&request->run.slo);
	require_steps(summary);
	require_timeline(request->out);
	require_grid(request->out);
	require_latency(request->out, warmup);
	if (warmup == 0) {
		require_equal(number_in(summary, "tokens", "prefill_computed"),
			sum_steps(S_prefill_tokens));
		require_equal(number_in(summary, "tokens", "recomputed"),
			sum_requests(R_recomputed_tokens));
	}
	cJSON_Delete(summary);
}

static struct replay_request request_in(const struct replay_fixture *fixture)
{
	struct replay_request request = {
		.run = {.trace_path = fixture->trace}, .out = fixture->out, .wants_steps = true};
	struct replay_config *config = &request.run.config;

	replay_config_default(config);
	config->block_size = 16;
	config->kv_blocks = 60;
	config->max_num_seqs = 8;
	config->max_num_batched_tokens = 128;
	config->max_model_len = 700;
	config->trace_block_size = 16;
	return request;
}

Test(recomputed, a_small_engine_with_limits_on_latencies, .timeout = 120)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	struct replay_request request = request_in(&fixture);
	request.run.slo.ttft_ns = 100000000;
	request.run.slo.tpot_ns = 6000000;
	run_and_require(&request);
	replay_fixture_close(&fixture);
}

Test(recomputed, a_closed_loop_with_a_warm_up, .timeout = 120)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	struct replay_request request = request_in(&fixture);
	request.run.config.concurrency = 12;
	request.run.config.warmup = 9;
	request.run.slo.tpot_ns = 5000000;
	run_and_require(&request);
	replay_fixture_close(&fixture);
}

Test(recomputed, whole_prompts_priced_by_a_calibrated_profile, .timeout = 120)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	struct replay_request request = request_in(&fixture);
	request.run.config.gpu = "h200-qwen3-0.6b";
	request.run.config.policy = 1;
	cr_assert_str_eq(policy_at(1)->name, "prefill-first");
	request.run.config.max_num_batched_tokens = 2048;
	run_and_require(&request);
	replay_fixture_close(&fixture);
}
