#include "bench/record/summary.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "bench/replay/replay.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/sort.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* Compares summary.json with the rows of requests.tsv, from which all its figures follow. */

enum { ROWS_MAX = 200, PATH_BYTES = TEMPORARY_PATH_BYTES + 32 };

#define NONE UINT64_MAX
#define MILLISECOND UINT64_C(1000000)

struct scene {
	struct replay_config config;
	struct workload_options load;
	struct engine_config engine;
	struct slo slo;
	uint64_t seed;
	uint64_t elapsed_ns; /* of a step, at most */
	bool is_constant;
	char folder[TEMPORARY_PATH_BYTES];
	char trace_path[PATH_BYTES], requests_path[PATH_BYTES], summary_path[PATH_BYTES];
	FILE *trace; /* while it is written */
	uint32_t row_count;
};

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct scene *scene = state;
	(void)token_ids;
	(void)error;

	/* A run that takes no time has no window. */
	time->elapsed_ns = scene->is_constant
				   ? scene->elapsed_ns
				   : 1 + counter_hash(counter_key(scene->seed, 1), batch->step) %
						     scene->elapsed_ns;
	return STATUS_OK;
}

static void scene_open(struct scene *scene)
{
	temporary_folder(scene->folder);
	snprintf(scene->trace_path, PATH_BYTES, "%s/trace.jsonl", scene->folder);
	snprintf(scene->requests_path, PATH_BYTES, "%s/requests.tsv", scene->folder);
	snprintf(scene->summary_path, PATH_BYTES, "%s/summary.json", scene->folder);
	scene->trace = fopen(scene->trace_path, "wb");
	require(scene->trace != NULL, "cannot write %s", scene->trace_path);
	scene->load = (struct workload_options){.speedup_millionths = 1000000};
	replay_config_default(&scene->config);
}

static void add_row(struct scene *scene, uint64_t time_ms, uint32_t input, uint32_t output)
{
	fprintf(scene->trace,
		"{\"timestamp\": %llu, \"input_length\": %u, \"output_length\": %u, "
		"\"hash_ids\": [%u]}\n",
		(unsigned long long)time_ms, input, output, scene->row_count++ % 5);
}

/* Runs the scene into requests.tsv and summary.json. */
static struct run_outcome scene_run(struct scene *scene, struct replay *replay)
{
	static struct table_writer requests;
	struct error error = {0};
	const struct runner runner = {.name = "scene", .state = scene, .execute = take_time};
	const struct replay_options options = {.config = &scene->config,
		.workload = &scene->load,
		.trace_path = scene->trace_path,
		.slo = scene->slo,
		.vocab_size = 1000};
	struct run_outcome outcome;

	require(fclose(scene->trace) == 0, "the trace cannot be written");
	scene->config.concurrency = scene->load.concurrency;
	table_file_open(&requests, scene->requests_path, REQUEST_COLUMNS);
	require(replay_open(replay, &options, &scene->engine, &runner, &error) == STATUS_OK, "%s",
		error.text);
	replay_set_sinks(replay, &(struct replay_sinks){.requests = &requests});
	require(replay_run(replay, &error) == STATUS_OK, "%s", error.text);
	table_file_close(&requests);
	replay_outcome(replay, &outcome);
	outcome.runner_kind = "priced";
	FILE *file = fopen(scene->summary_path, "wb");
	require(file != NULL, "no summary");
	summary_write(&outcome, replay_config_json(&scene->config), file);
	require(fclose(file) == 0, "the summary cannot be written");
	return outcome;
}

static void scene_close(struct scene *scene, struct replay *replay)
{
	replay_close(replay);
	temporary_remove(scene->folder);
}

/* ---- the rows ---- */

enum column {
	ID,
	SESSION,
	STATUS,
	ARRIVAL,
	SCHEDULED,
	FIRST_TOKEN,
	FINISH,
	PROMPT,
	CACHED,
	OUTPUT,
	PREEMPTIONS,
	RECOMPUTED,
	QUEUE,
	TTFT,
	TPOT,
	E2E,
	SLO_MET,
	COLUMN_COUNT
};

struct rows {
	uint64_t cells[ROWS_MAX][COLUMN_COUNT]; /* cells that are not numbers are NONE */
	uint32_t count;
};

static void read_rows(struct rows *rows, const char *path)
{
	char line[1024];
	FILE *file = fopen(path, "rb");

	require(file != NULL && fgets(line, sizeof(line), file) != NULL, "no %s", path);
	rows->count = 0;
	while (fgets(line, sizeof(line), file) != NULL) {
		char *rest = line;
		for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
			char *end;
			uint64_t value = strtoull(rest, &end, 10);
			bool is_number = end > rest && (*end == '\t' || *end == '\n');
			rows->cells[rows->count][i] = is_number ? value : NONE;
			rest += strcspn(rest, "\t\n") + 1;
		}
		rows->count++;
	}
	fclose(file);
}

/* ---- figures ---- */

static double figure(const cJSON *root, const char *first, const char *second, const char *third)
{
	const char *names[] = {first, second, third};
	const cJSON *value = root;

	for (uint32_t i = 0; i < 3 && names[i] != NULL; i++) {
		value = cJSON_GetObjectItem(value, names[i]);
		require(value != NULL, "%s is not there", names[i]);
	}
	require(cJSON_IsNumber(value) || cJSON_IsNull(value), "%s is no number", second);
	return cJSON_IsNull(value) ? -1 : value->valuedouble;
}

/* A rate: rounded down to six significant digits, or to three places if these are more. */
static void require_rate(double found, const char *name, u128 numerator, u128 denominator)
{
	if (denominator == 0) {
		require(found == -1, "%s is %f instead of null", name, found);
		return;
	}
	double exact = (double)numerator / (double)denominator;
	double slack = exact * 1e-5 < 0.001 ? exact * 1e-5 : 0.001;
	require(found <= exact * (1 + 1e-15) && found >= exact * (1 - 1e-15) - slack - 1e-12,
		"%s is %.12f, exactly it is %.12f", name, found, exact);
}

/* A figure of so many places, rounded down from numerator / denominator; null for nothing. */
static void require_ratio(
	double found, const char *name, u128 numerator, u128 denominator, uint32_t places)
{
	uint64_t scale = 1;

	for (uint32_t i = 0; i < places; i++) {
		scale *= 10;
	}
	if (denominator == 0) {
		require(found == -1, "%s is %f instead of null", name, found);
		return;
	}
	double expected = (double)(uint64_t)(numerator * scale / denominator) / (double)scale;
	double difference = found > expected ? found - expected : expected - found;
	require(difference <= expected * 1e-15, "%s is %.9f, expected %.9f", name, found, expected);
}

/* Mean and maximum of a column exactly, percentiles to a thousandth from above. */
static void require_latency(const cJSON *root, const struct rows *rows, enum column column,
	const char *name, uint64_t warmup)
{
	static const char *const names[] = {"p50", "p90", "p95", "p99", "p99_9"};
	static const uint64_t per_mille[] = {500, 900, 950, 990, 999};
	uint64_t values[ROWS_MAX];
	uint32_t count = 0;
	u128 sum = 0;

	for (uint32_t i = 0; i < rows->count; i++) {
		const uint64_t *row = rows->cells[i];
		if (row[ID] >= warmup && row[FINISH] != NONE && row[column] != NONE) {
			values[count++] = row[column];
			sum += row[column];
		}
	}
	if (count == 0) {
		require(figure(root, "latency_ms", name, "mean") == -1, "%s of nothing", name);
		require(figure(root, "latency_ms", name, "p99") == -1, "%s of nothing", name);
		require(figure(root, "latency_ms", name, "max") == -1, "%s of nothing", name);
		return;
	}
	sort_u64(values, count);
	require_ratio(figure(root, "latency_ms", name, "mean"), name, sum / count, MILLISECOND, 6);
	require_ratio(
		figure(root, "latency_ms", name, "max"), name, values[count - 1], MILLISECOND, 6);
	require_ratio(figure(root, "latency_ms", name, "min"), name, values[0], MILLISECOND, 6);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t exact = values[(count * per_mille[i] + 999) / 1000 - 1];
		double found = figure(root, "latency_ms", name, names[i]) * 1e6;
		require(found > (double)exact - 0.5 && found < (double)exact * 1.001 + 0.5,
			"%s %s is %f ns, exactly it is %llu", name, names[i], found,
			(unsigned long long)exact);
	}
}

struct sums {
	uint64_t first_arrival, last_arrival, last_finish;
	uint64_t measured_first_arrival, measured_last_arrival, measured_last_finish;
	uint64_t window_start; /* the first measured arrival that was not rejected */
	uint64_t finished, measured_finished, measured_submitted, window_finished, window_met;
	uint64_t prompt, output, measured_output, recomputed, preemptions, hits, slo_met;
};

static struct sums sum_rows(const struct rows *rows, uint64_t warmup)
{
	struct sums sums = {
		.first_arrival = NONE, .measured_first_arrival = NONE, .window_start = NONE};

	for (uint32_t i = 0; i < rows->count; i++) {
		const uint64_t *row = rows->cells[i];
		bool is_measured = row[ID] >= warmup;
		bool is_finished = row[FINISH] != NONE;
		sums.first_arrival = u64_min(sums.first_arrival, row[ARRIVAL]);
		sums.last_arrival = u64_max(sums.last_arrival, row[ARRIVAL]);
		sums.last_finish = u64_max(sums.last_finish, is_finished ? row[FINISH] : 0);
		sums.finished += is_finished;
		if (is_finished) {
			sums.prompt += row[PROMPT];
			sums.output += row[OUTPUT];
			sums.recomputed += row[RECOMPUTED];
			sums.preemptions += row[PREEMPTIONS];
			sums.hits += row[CACHED];
		}
		if (!is_measured) {
			continue;
		}
		sums.measured_submitted++;
		sums.measured_first_arrival = u64_min(sums.measured_first_arrival, row[ARRIVAL]);
		sums.measured_last_arrival = u64_max(sums.measured_last_arrival, row[ARRIVAL]);
		if (is_finished) {
			sums.window_start = u64_min(sums.window_start, row[ARRIVAL]);
			sums.measured_last_finish = u64_max(sums.measured_last_finish, row[FINISH]);
			sums.measured_finished++;
			sums.measured_output += row[OUTPUT];
			sums.slo_met += row[SLO_MET] == 1;
		}
	}
	for (uint32_t i = 0; i < rows->count; i++) {
		uint64_t finish = rows->cells[i][FINISH];
		bool is_in_window = finish != NONE && finish > sums.window_start &&
				    finish <= sums.measured_last_finish;
		sums.window_finished += is_in_window;
		sums.window_met += is_in_window && rows->cells[i][SLO_MET] == 1;
	}
	return sums;
}

static void require_counts(const cJSON *root, const struct sums *sums, const struct replay *replay)
{
	const struct metrics *metrics = &replay->metrics;

	require_equal(figure(root, "requests", "submitted", NULL), metrics->submitted);
	require_equal(figure(root, "requests", "finished", NULL), sums->finished);
	require_equal(
		figure(root, "requests", "rejected", NULL), metrics->submitted - sums->finished);
	require_equal(figure(root, "requests", "rejected_too_long", NULL) +
			      figure(root, "requests", "rejected_never_fits", NULL),
		metrics->submitted - sums->finished);
	require_equal(figure(root, "requests", "failed", NULL), 0);
	require_equal(figure(root, "requests", "unfinished", NULL), 0);
	require_equal(figure(root, "window", "measured_requests", NULL), sums->measured_submitted);
	require_equal(figure(root, "window", "warmup_requests", NULL),
		metrics->submitted - sums->measured_submitted);
	require_equal(figure(root, "window", "cooldown_requests", NULL), 0);
	require_equal(figure(root, "window", "finished", NULL), sums->window_finished);
	if (metrics->options.warmup > 0) {
		return; /* rows do not say which of their tokens lie in the window */
	}
	require_equal(figure(root, "tokens", "prompt", NULL), sums->prompt);
	require_equal(figure(root, "tokens", "output", NULL), sums->output);
	require_equal(figure(root, "tokens", "recomputed", NULL), sums->recomputed);
	require_equal(figure(root, "preemptions", NULL, NULL), sums->preemptions);
	require_equal(figure(root, "prefix_cache", "hit_tokens", NULL), sums->hits);
	require_equal(figure(root, "prefix_cache", "query_tokens", NULL), sums->prompt);
	require_ratio(figure(root, "prefix_cache", "hit_rate", NULL), "hit_rate", sums->hits,
		sums->prompt, 6);
}

static void require_rates(const cJSON *root, const struct sums *sums, const struct replay *replay)
{
	const uint64_t second = 1000000000;
	const struct metrics *metrics = &replay->metrics;
	uint64_t makespan =
		sums->measured_finished == 0 ? 0 : sums->measured_last_finish - sums->window_start;
	uint64_t span = sums->measured_submitted == 0
				? 0
				: sums->measured_last_arrival - sums->measured_first_arrival;
	uint64_t gaps = sums->measured_submitted == 0 ? 0 : sums->measured_submitted - 1;
	bool is_whole = metrics->options.warmup == 0;
	uint64_t drain = sums->finished == 0 || sums->last_finish < sums->last_arrival
				 ? 0
				 : sums->last_finish - sums->last_arrival;
	bool is_closed = replay->options.config->concurrency > 0;

	require_ratio(figure(root, "time", "makespan_s", NULL), "makespan", makespan, second, 9);
	if (is_whole) {
		require_rate(figure(root, "throughput", "output_tokens_per_s", NULL), "output rate",
			(u128)sums->output * second, makespan);
		require_rate(figure(root, "throughput", "total_tokens_per_s", NULL), "token rate",
			(u128)(sums->prompt + sums->output) * second, makespan);
	}
	require_rate(figure(root, "throughput", "requests_per_s", NULL), "request rate",
		(u128)sums->window_finished * second, makespan);
	require_rate(figure(root, "load", "offered_per_s", NULL), "offered", (u128)gaps * second,
		is_closed ? 0 : span);
	require_ratio(figure(root, "load", "drain_s", NULL), "drain", drain, second, 9);
	require(figure(root, "load", "utilisation", NULL) == -1,
		"nothing prices these steps, and utilisation is known");
	bool has_slo = slo_is_given(&metrics->options.slo);
	require_ratio(figure(root, "slo", "attained", NULL), "attained", sums->slo_met,
		has_slo ? sums->measured_submitted : 0, 6);
	require_rate(figure(root, "slo", "goodput_requests_per_s", NULL), "goodput",
		(u128)sums->window_met * second, has_slo ? makespan : 0);
}

static cJSON *read_summary(const char *path)
{
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "no JSON: %s", text);
	free(text);
	return root;
}

/* ---- figures follow from rows ---- */

/* Asynchronous, a request may be preempted in a step and ended by the step before. */
static void take_vllm(struct prop *prop, struct engine_config *engine)
{
	const struct policy_defaults *own = &policy_vllm.defaults;

	engine->policy = &policy_vllm;
	engine->allocation = own->allocation;
	engine->strategies.free_order = own->free_order;
	engine->strategies.equal_blocks = own->equal_blocks;
	engine->strategies.has_null_block = own->has_null_block;
	engine->is_async = prop_chance(prop, 2, 3);
	engine->kv_block_count =
		u32_max(engine->kv_block_count / 2, 2 + engine->max_model_len / engine->block_size);
}

static void draw_scene(struct prop *prop, struct scene *scene)
{
	uint64_t time_ms = 0;

	scene->engine = (struct engine_config){.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = prop_range(prop, 8, 40),
		.max_num_seqs = prop_range(prop, 1, 6),
		.max_num_batched_tokens = 16,
		.max_model_len = prop_range(prop, 20, 50),
		.eos_token_id = -1};
	if (prop_chance(prop, 1, 2)) {
		take_vllm(prop, &scene->engine);
	}
	scene->seed = prop_below(prop, 100);
	scene->elapsed_ns = 1 + prop_below(prop, prop_chance(prop, 1, 2) ? 3000 : 20000000);
	scene->load.trace.trace_block_size = 32;
	scene->load.concurrency = prop_chance(prop, 1, 3) ? prop_range(prop, 1, 9) : 0;
	scene->config.warmup = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 30) : 0;
	scene->slo.ttft_ns = prop_chance(prop, 1, 2) ? 1 + prop_below(prop, 300000000) : 0;
	scene->slo.tpot_ns = prop_chance(prop, 1, 2) ? 1 + prop_below(prop, 30000000) : 0;
	scene->slo.e2e_ns = prop_chance(prop, 1, 3) ? 1 + prop_below(prop, 900000000) : 0;
	uint32_t count = prop_range(prop, 1, 60);
	for (uint32_t i = 0; i < count; i++) {
		time_ms += prop_chance(prop, 1, 2) ? prop_below(prop, 100) : 0;
		add_row(scene, time_ms, prop_range(prop, 1, 31), prop_range(prop, 1, 20));
	}
	prop_log(prop,
		"%u rows, %u blocks, %u sequences, model length %u, concurrency %llu, "
		"warm-up %llu",
		count, scene->engine.kv_block_count, scene->engine.max_num_seqs,
		scene->engine.max_model_len, (unsigned long long)scene->load.concurrency,
		(unsigned long long)scene->config.warmup);
}

static void body_summary(struct prop *prop, const void *context)
{
	static struct scene scene;
	static struct replay replay;
	static struct rows rows;
	(void)context;

	memset(&scene, 0, sizeof(scene));
	scene_open(&scene);
	draw_scene(prop, &scene);
	scene_run(&scene, &replay);
	read_rows(&rows, scene.requests_path);
	cJSON *root = read_summary(scene.summary_path);
	struct sums sums = sum_rows(&rows, scene.config.warmup);
	require_counts(root, &sums, &replay);
	require_rates(root, &sums, &replay);
	require_latency(root, &rows, QUEUE, "queue", scene.config.warmup);
	require_latency(root, &rows, TTFT, "ttft", scene.config.warmup);
	require_latency(root, &rows, TPOT, "tpot", scene.config.warmup);
	require_latency(root, &rows, E2E, "e2e", scene.config.warmup);
	require_equal(replay.metrics.distributions->latency[LATENCY_ITL].count,
		sums.measured_output - sums.measured_finished);
	cJSON_Delete(root);
	scene_close(&scene, &replay);
}

Test(summary, figures_follow_from_the_rows, .timeout = 300)
{
	struct prop_options options = {.name = "summary", .body = body_summary, .trials = 500};

	cr_assert(prop_holds(&options));
}

/* ---- verdicts ---- */

/* A step takes a millisecond and serves up to four requests of ten tokens: 0.4 requests a
   millisecond are what the engine can do. */
static void open_verdict_scene(struct scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	scene_open(scene);
	scene->is_constant = true;
	scene->elapsed_ns = MILLISECOND;
	scene->load.trace.trace_block_size = 32;
	scene->engine = (struct engine_config){.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 100,
		.max_num_seqs = 4,
		.max_num_batched_tokens = 64,
		.max_model_len = 50,
		.eos_token_id = -1};
}

/* `burst` requests at time 0, then one each `gap_ms`, ROWS_MAX in all. */
static enum verdict verdict_of(uint32_t burst, uint64_t gap_ms, uint64_t concurrency)
{
	static struct scene scene;
	static struct replay replay;

	open_verdict_scene(&scene);
	scene.load.concurrency = concurrency;
	for (uint32_t i = 0; i < ROWS_MAX; i++) {
		add_row(&scene, i < burst ? 0 : (i - burst) * gap_ms, 5, 10);
	}
	enum verdict verdict = scene_run(&scene, &replay).verdict;
	cJSON *root = read_summary(scene.summary_path);
	cr_assert_str_eq(
		cJSON_GetObjectItem(cJSON_GetObjectItem(root, "load"), "verdict")->valuestring,
		verdict_name(verdict));
	cJSON_Delete(root);
	scene_close(&scene, &replay);
	return verdict;
}

Test(summary, a_verdict_distinguishes_load_from_capacity)
{
	/* 0.25 requests a millisecond, and 0.33 with a small burst at first */
	cr_expect_eq(verdict_of(0, 4, 0), VERDICT_STABLE);
	cr_expect_eq(verdict_of(8, 3, 0), VERDICT_STABLE);
	/* 1 and 0.5 a millisecond */
	cr_expect_eq(verdict_of(0, 1, 0), VERDICT_OVERLOADED);
	cr_expect_eq(verdict_of(0, 2, 0), VERDICT_OVERLOADED);
	/* all at once, and so many at once that the rest waits behind them */
	cr_expect_eq(verdict_of(ROWS_MAX, 0, 0), VERDICT_BACKLOGGED);
	cr_expect_eq(verdict_of(100, 3, 0), VERDICT_BACKLOGGED);
	/* a closed loop that fits, and one in which requests queue for longer than they are served
	 */
	cr_expect_eq(verdict_of(0, 0, 4), VERDICT_STABLE);
	cr_expect_eq(verdict_of(0, 0, 20), VERDICT_BACKLOGGED);
}

/* ---- nothing at all ---- */

Test(summary, a_run_in_which_nothing_is_served_has_no_figures)
{
	static struct scene scene;
	static struct replay replay;

	open_verdict_scene(&scene);
	add_row(&scene, 3, 31, 30); /* too long */
	scene_run(&scene, &replay);
	cJSON *root = read_summary(scene.summary_path);
	require_equal(figure(root, "requests", "rejected", NULL), 1);
	require(figure(root, "throughput", "requests_per_s", NULL) == -1, "a rate of nothing");
	require(figure(root, "latency_ms", "ttft", "mean") == -1, "a mean of nothing");
	require(figure(root, "prefix_cache", "hit_rate", NULL) == -1, "a share of nothing");
	require(figure(root, "load", "kv_mean", NULL) == -1, "a share of nothing");
	require_equal(figure(root, "time", "steps", NULL), 0);
	cJSON_Delete(root);
	scene_close(&scene, &replay);
}

/* ---- rates ---- */

static char *summary_of_rates(uint64_t submitted, uint64_t span_ns, uint64_t tokens)
{
	const struct run_outcome outcome = {.runner_kind = "priced",
		.submitted = submitted,
		.measured_submitted = submitted,
		.arrival_span_ns = span_ns,
		.window_ns = span_ns,
		.work.output_tokens = tokens};
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES];

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/summary.json", folder);
	FILE *file = fopen(path, "wb");
	require(file != NULL, "%s cannot be written", path);
	summary_write(&outcome, cJSON_CreateObject(), file);
	require(fclose(file) == 0, "%s cannot be written", path);
	char *text = file_read(path, NULL);
	temporary_remove(folder);
	return text;
}

Test(summary, rates_have_three_places_or_six_significant_digits)
{
	static const struct {
		uint64_t submitted, span_ns, tokens;
		const char *offered, *output;
	} cases[] = {
		{1054, 440575000000000, 440575, "0.00239005", "1.00000"},
		{2, 3000000000, 3000, "0.333333", "1000.000"},
		{2, 1000000000000000, 0, "0.00000100000", "0.000"},
		{3, 7, 123456789, "285714285.714", "17636684142857142.857"},
		{1, 5000000000, 617283945, "0.000", "123456789.000"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[2][96];
		char *text =
			summary_of_rates(cases[i].submitted, cases[i].span_ns, cases[i].tokens);
		snprintf(line[0], sizeof(line[0]), "\"offered_per_s\":\t%s,", cases[i].offered);
		snprintf(
			line[1], sizeof(line[1]), "\"output_tokens_per_s\":\t%s,", cases[i].output);
		require(strstr(text, line[0]) != NULL, "no %s in %s", line[0], text);
		require(strstr(text, line[1]) != NULL, "no %s in %s", line[1], text);
		free(text);
	}
}
