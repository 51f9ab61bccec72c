#include "reports/results/plan_file.h"
#include "reports/results/sweep_file.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/mutate.h"
#include "tests/harness/files.h"
#include "tests/harness/made_plan.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* The folders of `quire plan` and `quire sweep`: what was written is read again, and what was
   changed by accident or on purpose is read or refused in one line. */

static char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

static void make_folder(void)
{
	temporary_folder(folder);
}

static void remove_folder(void)
{
	temporary_remove(folder);
}

TestSuite(plan_file, .init = make_folder, .fini = remove_folder);

Test(plan_file, a_plan_is_read_as_it_was_written)
{
	struct made_plan made = made_plan_ordinary;
	struct plan_file plan;
	struct error error = {0};

	made.configurations = 3;
	made.has_stretch = true;
	make_plan(folder, "plan", &made, path);
	require(plan_file_open(&plan, path, &error) == STATUS_OK, "%s", error.text);
	require_equal(plan.configuration_count, 3);
	require_equal(plan.probe_count, 3 * (made.loads + made.replicates));
	cr_assert_str_eq(plan.answer.vary, "rate");
	cr_assert(plan.is_complete && plan.is_calibrated && !plan.answer.is_least);
	cr_assert_float_eq(plan.answer.highest_pass.value, 0.87 * 8, 1e-12);
	cr_assert_not(plan.answer.lowest_pass.has_value);
	cr_assert_float_eq(plan_answer_fail(&plan.answer).value, 1.02 * 0.87 * 8, 1e-12);
	cr_assert_float_eq(plan.answer.sampling.interval.high.value, 1.05 * 0.87 * 8, 1e-12);
	cr_assert_str_eq(plan.answer.sampling.method, "block bootstrap");
	require_equal(plan.answer.stretch_count, 1);
	cr_assert_float_eq(plan.answer.stretches[0].to, 4, 1e-12);
	cr_assert_str_eq(plan.configurations[2].name, "c2");
	cr_assert_float_eq(plan.configurations[2].gpus, 1, 0);
	require_equal(plan.probes[made.loads].purpose, PROBE_SAMPLING);
	require_equal(plan.probes[made.loads].replicate.value, 1);
	require_equal(plan.probes[made.loads + made.replicates].configuration, 1);
	cr_assert_float_eq(plan.probes[0].load.value, 8 * 1.3 / 12, 1e-6);
	cr_assert_float_eq(plan.probes[0].ttft_p99_ms.value, 500 / (1 - 1.3 / 12), 1e-6);
	require_equal(plan.probes[made.loads - 1].verdict, VERDICT_OVERLOADED);
	plan_file_close(&plan);
}

/* Of a fleet whose groups differ a file has the mean, which seldom is a whole number. */
Test(plan_file, gpus_of_replicas_are_whole)
{
	for (uint64_t replicas = 1; replicas <= 300; replicas++) {
		for (uint64_t gpus = replicas; gpus <= 8 * replicas; gpus++) {
			double mean = (double)gpus / (double)replicas;
			require(plan_gpus(mean, (double)replicas) == (double)gpus,
				"%llu GPUs of %llu replicas are %.17g", (unsigned long long)gpus,
				(unsigned long long)replicas, plan_gpus(mean, (double)replicas));
		}
	}
}

/* ---- rows ---- */

enum {
	ROWS_MOST = 12,
#define COUNT_VERDICT(name, text) +1
	VERDICTS = 0 VERDICT_LIST(COUNT_VERDICT),
#undef COUNT_VERDICT
};

/* A value that a column of these places can say: none, a small one, or its maximum. */
static struct result_value draw_cell(struct prop *prop, uint32_t places, double maximum)
{
	static const double units[] = {1, 10, 100, 1000, 1e4, 1e5, 1e6};
	uint64_t most = (uint64_t)(maximum > 1e6 ? 1e12 : maximum * units[places]);

	if (prop_chance(prop, 1, 4)) {
		return (struct result_value){0};
	}
	if (prop_chance(prop, 1, 8)) {
		return (struct result_value){true, maximum};
	}
	return (struct result_value){true, (double)prop_below(prop, most + 1) / units[places]};
}

static void draw_probe(struct prop *prop, const struct plan_file *plan, struct plan_probe *probe)
{
	*probe = (struct plan_probe){
		.configuration = (uint32_t)prop_below(prop, plan->configuration_count),
		.purpose = (enum probe_purpose)prop_below(prop, PROBE_PURPOSE_COUNT),
		.has_verdict = prop_chance(prop, 4, 5),
		.failure = prop_chance(prop, 1, 3) ? "--warmup 3 leaves nothing" : NULL,
		.options = prop_chance(prop, 1, 2) ? "--rate 2.5 --policy vllm" : NULL};
	probe->verdict =
		probe->has_verdict ? (enum verdict)prop_below(prop, VERDICTS) : VERDICT_STABLE;
#define NO_NUMBER(name)
#define DRAW_NUMBER(name, places, maximum) probe->name = draw_cell(prop, places, maximum);
	PROBE_COLUMN_LIST(NO_NUMBER, DRAW_NUMBER)
#undef DRAW_NUMBER
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		probe->limits[i] = draw_cell(prop, 6, PROBE_NUMBER_MAX);
	}
}

static void require_number(
	const char *name, struct result_value found, struct result_value expected)
{
	require(found.has_value == expected.has_value, "%s: a value %s", name,
		expected.has_value ? "is lost" : "appears");
	require(!found.has_value || found.value == expected.value, "%s: %.17g, not %.17g", name,
		found.value, expected.value);
}

static void require_text(const char *name, const char *found, const char *expected)
{
	require((found == NULL) == (expected == NULL) &&
			(found == NULL || strcmp(found, expected) == 0),
		"%s: '%s', not '%s'", name, found == NULL ? "-" : found,
		expected == NULL ? "-" : expected);
}

static void require_probe(const struct plan_file *plan, const struct plan_probe *found,
	const struct plan_probe *expected)
{
	require_equal(found->configuration, expected->configuration);
	require_equal(found->purpose, expected->purpose);
	require_equal(found->has_verdict, expected->has_verdict);
	require_equal(found->verdict, expected->verdict);
	require_text("failure", found->failure, expected->failure);
	require_text("options", found->options, expected->options);
#define REQUIRE_NUMBER(name, places, most) require_number(#name, found->name, expected->name);
	PROBE_COLUMN_LIST(NO_NUMBER, REQUIRE_NUMBER)
#undef REQUIRE_NUMBER
#undef NO_NUMBER
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		require_number("a limit", found->limits[i], expected->limits[i]);
	}
}

static void body_rows(struct prop *prop, const void *context)
{
	static struct table_writer table;
	struct plan_probe probes[ROWS_MOST];
	struct plan_file before, plan;
	struct text header = {0};
	struct error error = {0};
	uint32_t rows = prop_range(prop, 1, ROWS_MOST);
	char name[TEMPORARY_PATH_BYTES + 16];

	require(plan_file_open(&before, context, &error) == STATUS_OK, "%s", error.text);
	plan_probe_header(&header, &before.limits);
	snprintf(name, sizeof(name), "%s/%s", (const char *)context, PLAN_PROBES);
	table_file_open(&table, name, header.bytes);
	for (uint32_t i = 0; i < rows; i++) {
		draw_probe(prop, &before, &probes[i]);
		plan_probe_write(&table, before.configurations[probes[i].configuration].name,
			&probes[i], &before.limits);
	}
	table_file_close(&table);
	require(plan_file_open(&plan, context, &error) == STATUS_OK, "%s", error.text);
	require_equal(plan.probe_count, rows);
	for (uint32_t i = 0; i < rows; i++) {
		require_probe(&plan, &plan.probes[i], &probes[i]);
	}
	text_deinit(&header);
	plan_file_close(&plan);
	plan_file_close(&before);
}

/* Every cell of plan.tsv: each purpose and verdict, each number at its maximum, none of each. */
Test(plan_file, drawn_rows_are_read_as_they_were_written, .timeout = 120)
{
	const struct prop_options options = {
		.name = "rows of a plan", .body = body_rows, .context = path, .trials = 300};
	struct made_plan made = made_plan_ordinary;

	made.configurations = 3;
	made.loads = 1;
	made.replicates = 0;
	make_plan(folder, "plan", &made, path);
	cr_assert(prop_holds(&options));
	made.has_run_limits = true;
	make_plan(folder, "limits", &made, path);
	cr_assert(prop_holds(&options));
}

/* ---- answers ---- */

/* Of at most 15 digits, which JSON keeps. */
static struct result_value draw_value(struct prop *prop, double maximum)
{
	double value = (double)prop_below(prop, maximum > 1 ? 100000000 : 65) / 64;

	return (struct result_value){prop_chance(prop, 3, 4), prop_chance(prop, 1, 8) ? 0 : value};
}

static struct plan_interval draw_interval(struct prop *prop)
{
	struct plan_interval interval = {draw_value(prop, 2), draw_value(prop, 2)};
	bool is_turned = interval.low.has_value && interval.high.has_value &&
			 interval.low.value > interval.high.value;

	return is_turned ? (struct plan_interval){interval.high, interval.low} : interval;
}

static const char *draw_words(struct prop *prop)
{
	static const char *const words[] = {
		"", "ttft", "\"it\" \\ fails", "TTFT \u2264 2 s", "a\nb"};

	return words[prop_below(prop, 5)];
}

static void draw_answer(struct prop *prop, struct plan_answer *answer)
{
	*answer = (struct plan_answer){0};
#define DRAW_TEXT(name) answer->name = draw_words(prop);
	PLAN_ANSWER_TEXT_LIST(DRAW_TEXT)
#undef DRAW_TEXT
#define DRAW_BOOL(name) answer->name = prop_chance(prop, 1, 2);
	PLAN_ANSWER_BOOL_LIST(DRAW_BOOL)
#undef DRAW_BOOL
#define DRAW_VALUE(name, maximum) answer->name = draw_value(prop, maximum);
	PLAN_ANSWER_NUMBER_LIST(DRAW_VALUE)
#undef DRAW_VALUE
	answer->short_trace = draw_words(prop);
	answer->early_turns = draw_words(prop);
	answer->router_note = draw_words(prop);
	answer->stretch_count = prop_range(prop, 0, PLAN_STRETCHES_MAX);
	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		double from = (double)prop_below(prop, 100) / 8;
		answer->stretches[i] =
			(struct plan_stretch){from, from + (double)prop_below(prop, 9) / 8};
	}
	answer->sampling.interval = draw_interval(prop);
	answer->sampling.replicates = draw_value(prop, 2);
	answer->sampling.window_s = draw_value(prop, 2);
	answer->sampling.method = draw_words(prop);
	answer->sampling.text = draw_words(prop);
	answer->model.interval = draw_interval(prop);
	answer->model.error = draw_value(prop, 2);
	answer->model.is_guess = prop_chance(prop, 1, 2);
	answer->model.text = draw_words(prop);
	answer->alone.requests = draw_value(prop, 2);
	answer->alone.misses = draw_value(prop, 2);
	answer->alone.longest_tokens = draw_value(prop, 2);
}

static void require_interval(
	const struct plan_interval *found, const struct plan_interval *expected)
{
	require_number("low", found->low, expected->low);
	require_number("high", found->high, expected->high);
}

static void require_answer(const struct plan_answer *found, const struct plan_answer *expected)
{
#define REQUIRE_TEXT(name) require_text(#name, found->name, expected->name);
	PLAN_ANSWER_TEXT_LIST(REQUIRE_TEXT)
#undef REQUIRE_TEXT
#define REQUIRE_BOOL(name) require_equal(found->name, expected->name);
	PLAN_ANSWER_BOOL_LIST(REQUIRE_BOOL)
#undef REQUIRE_BOOL
#define REQUIRE_VALUE(name, maximum) require_number(#name, found->name, expected->name);
	PLAN_ANSWER_NUMBER_LIST(REQUIRE_VALUE)
#undef REQUIRE_VALUE
	require_text("short_trace", found->short_trace, expected->short_trace);
	require_text("early_turns", found->early_turns, expected->early_turns);
	require_text("router_note", found->router_note, expected->router_note);
	require_equal(found->stretch_count, expected->stretch_count);
	for (uint32_t i = 0; i < expected->stretch_count; i++) {
		require(found->stretches[i].from == expected->stretches[i].from &&
				found->stretches[i].to == expected->stretches[i].to,
			"stretch %u", i);
	}
	require_interval(&found->sampling.interval, &expected->sampling.interval);
	require_number("replicates", found->sampling.replicates, expected->sampling.replicates);
	require_number("window_s", found->sampling.window_s, expected->sampling.window_s);
	require_text("method", found->sampling.method, expected->sampling.method);
	require_text("sampling", found->sampling.text, expected->sampling.text);
	require_interval(&found->model.interval, &expected->model.interval);
	require_number("error", found->model.error, expected->model.error);
	require_equal(found->model.is_guess, expected->model.is_guess);
	require_text("model", found->model.text, expected->model.text);
	require_number("requests", found->alone.requests, expected->alone.requests);
	require_number("misses", found->alone.misses, expected->alone.misses);
	require_number("longest", found->alone.longest_tokens, expected->alone.longest_tokens);
}

/* The plan's own answer and that of its configuration, which are two. */
static void body_answers(struct prop *prop, const void *context)
{
	struct plan_answer whole, own;
	struct plan_file plan;
	struct error error = {0};
	char name[TEMPORARY_PATH_BYTES + 16];

	draw_answer(prop, &whole);
	draw_answer(prop, &own);
	snprintf(name, sizeof(name), "%s/%s", (const char *)context, PLAN_SUMMARY);
	char *text = file_read(name, NULL);
	cJSON *root = cJSON_Parse(text);
	cJSON *one = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "configurations"), 0);
	cJSON_ReplaceItemInObject(root, "answer", plan_answer_json(&whole));
	cJSON_ReplaceItemInObject(one, "answer", plan_answer_json(&own));
	char *printed = cJSON_Print(root);
	file_write(name, printed, strlen(printed));
	require(plan_file_open(&plan, context, &error) == STATUS_OK, "%s", error.text);
	require_answer(&plan.answer, &whole);
	require_answer(&plan.configurations[0].answer, &own);
	plan_file_close(&plan);
	cJSON_free(printed);
	cJSON_Delete(root);
	free(text);
}

Test(plan_file, drawn_answers_are_read_as_they_were_written, .timeout = 120)
{
	const struct prop_options options = {
		.name = "answers of a plan", .body = body_answers, .context = path, .trials = 300};

	make_plan(folder, "plan", &made_plan_ordinary, path);
	cr_assert(prop_holds(&options));
}

/* The second of two limits on a metric has no column of its own. */
Test(plan_file, limits_on_a_metric_have_one_column)
{
	struct plan_limits limits = {0};
	struct plan_probe probe = {0};
	struct text header = {0};
	struct table_writer table;
	struct error error = {0};
	const char *const text = "ttft.p99<=700,hit_rate>=0.1,ttft.p99<=500,hit_rate<=0.9,steps<=7";

	require(metric_limits_parse("--slo", text, false, limits.list, &limits.count, &error) ==
			STATUS_OK,
		"%s", error.text);
	for (uint32_t i = 0; i < limits.count; i++) {
		probe.limits[i] = (struct result_value){true, i + 0.5};
	}
	plan_probe_header(&header, &limits);
	const char *names = strstr(header.bytes, "\tlimit.");
	cr_assert_str_eq(names, "\tlimit.ttft.p99\tlimit.hit_rate\tlimit.steps");
	temporary_write(folder, "probes", "", path);
	FILE *file = fopen(path, "w");
	table_begin(&table, file, header.bytes);
	plan_probe_write(&table, "c", &probe, &limits);
	table_end(&table);
	fclose(file);
	char *written = file_read(path, NULL);
	const char *values = strstr(written, "\t0.5");
	require(values != NULL, "%s", written);
	cr_assert_str_eq(values, "\t0.500000\t1.500000\t4.500000\n");
	free(written);
	text_deinit(&header);
}

Test(plan_file, a_sweep_is_read_as_it_was_written)
{
	struct made_sweep made = {.parameters = 3, .values = 4, .has_failures = true};
	struct sweep_file sweep;
	struct error error = {0};

	make_sweep(folder, "sweep", &made, path);
	require(sweep_file_open(&sweep, path, &error) == STATUS_OK, "%s", error.text);
	require_equal(sweep.run_count, 4 * 4 * 3);
	require_equal(sweep.parameter_count, 3);
	cr_assert(sweep.parameters[0].is_number && !sweep.parameters[2].is_number);
	cr_assert_str_eq(sweep.parameters[2].values[2], "prefill-first");
	require_equal(sweep.runs[5].values[0], 1);
	require_equal(sweep.runs[5].values[1], 1);
	require_equal(sweep.runs[5].status, SWEEP_RUN_COMPLETE);
	require_equal(sweep.runs[6].status, SWEEP_RUN_FAILED);
	cr_assert_not(sweep.runs[6].metrics[0].has_value);
	require_equal(sweep.runs[1].kv_blocks.value, 512);
	cr_assert(sweep.cache_count == 0 && !sweep.is_complete);
	sweep_file_close(&sweep);
}

Test(plan_file, every_metric_of_a_sweep_is_a_metric)
{
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		require(metric_find(sweep_metrics[i]) != NULL, "%s", sweep_metrics[i]);
	}
}

/* ---- bad files ---- */

static enum status open_either(bool is_plan, struct error *error)
{
	struct plan_file plan;
	struct sweep_file sweep;
	enum status status =
		is_plan ? plan_file_open(&plan, path, error) : sweep_file_open(&sweep, path, error);

	if (is_plan) {
		plan_file_close(&plan);
	} else {
		sweep_file_close(&sweep);
	}
	return status;
}

/* Replaces the first `from` of a file by `to`, demands a refusal that has `expected`, and puts the
   file back. */
static void require_refused(
	const char *name, const char *from, const char *to, const char *expected)
{
	char file[TEMPORARY_PATH_BYTES + 16];
	struct error error = {0};
	struct text changed = {0};

	snprintf(file, sizeof(file), "%s/%s", path, name);
	char *text = file_read(file, NULL);
	char *place = strstr(text, from);
	require(place != NULL, "%s lacks '%s'", name, from);
	text_add_bytes(&changed, text, (size_t)(place - text));
	text_add(&changed, to);
	text_add(&changed, place + strlen(from));
	file_write(file, changed.bytes, changed.byte_count);
	enum status status = open_either(strncmp(name, "plan", 4) == 0, &error);
	require(status == STATUS_INPUT, "'%s' for '%s' in %s: status %u", to, from, name, status);
	require(strstr(error.text, expected) != NULL && strstr(error.text, name) != NULL,
		"'%s' lacks '%s'", error.text, expected);
	file_write(file, text, strlen(text));
	text_deinit(&changed);
	free(text);
}

Test(plan_file, a_bad_plan_is_refused_in_one_line)
{
	make_plan(folder, "plan", &made_plan_ordinary, path);
	require_refused("plan.json", "quire-plan-1", "quire-plan-9", "\"quire-plan-1\"");
	require_refused("plan.json", "\"complete\"", "\"done\"", "complete, interrupted or failed");
	require_refused("plan.json", "\"attained\":\t0.9913", "\"attained\":\t1.5", "0 to 1");
	require_refused("plan.json", "\"attained\":\t0.9913", "\"attained\":\t-1", "0 to 1");
	require_refused(
		"plan.json", "\"attained\":\t0.9913", "\"attained\":\t\"x\"", "a number or null");
	require_refused("plan.json", "\"attained\":\t0.9913", "\"attained\":\t1e999", "found");
	require_refused("plan.json", "\"attained\":", "\"attend\":", "answer.attained");
	require_refused("plan.json", "\"high\":\t", "\"high\":\t1e-9, \"x\":", "at least low");
	require_refused("plan.json", "\"stretches\":\t[]", "\"stretches\":\t[1]", "objects");
	require_refused("plan.json", "\"same_as\":\t[]", "\"same_as\":\t[1]", "a list of names");
	require_refused("plan.json", "\"rank\":\t1", "\"rank\":\t0", "configurations[0].rank");
	require_refused("plan.json", "\"configurations\":\t[{", "\"configurations\":\t[5, {",
		"a list of objects");
	require_refused("plan.tsv", "\tpasses", "\tpassed", "passes");
	require_refused("plan.tsv", "\tattained\t", "\tpasses\t", "passes");
	require_refused("plan.tsv", "c0\t", "c9\t", "a configuration of plan.json");
	require_refused("plan.tsv", "\tfirst\t", "\tlast\t", "a purpose");
	require_refused("plan.tsv", "\tstable\t", "\tunstable\t", "a verdict");
	require_refused("plan.tsv", "\tfirst\t0\t", "\tfirst\tnan\t", "0 to 1e+13 or -");
	require_refused("plan.tsv", "\tfirst\t0\t", "\tfirst\t1e999\t", "0 to 1e+13 or -");
	require_refused("plan.tsv", "\tfirst\t0\t", "\tfirst\t-1\t", "0 to 1e+13 or -");
	require_refused("plan.tsv", "\tfirst\t0\t", "\tfirst\t0x1\t", "0 to 1e+13 or -");
	require_refused("plan.tsv", "\tfirst\t0\t", "\tfirst\t2e13\t", "0 to 1e+13 or -");
	require_refused("plan.tsv", "\tfirst\t0\t", "\tfirst\t", "32 columns");
}

Test(plan_file, configurations_have_names_of_their_own)
{
	struct made_plan made = made_plan_ordinary;

	made.configurations = 3;
	make_plan(folder, "plan", &made, path);
	require_refused("plan.json", "\"name\":\t\"c1\"", "\"name\":\t\"c0\"",
		"configurations[1].name: found \"c0\", expected a name of its own");
	require_refused("plan.json", "\"name\":\t\"c2\"", "\"name\":\t\"c0\"",
		"configurations[2].name: found \"c0\", expected a name of its own");
	require_refused("plan.json", "\"name\":\t\"c2\"", "\"name\":\t\"c1\"",
		"configurations[2].name: found \"c1\", expected a name of its own");
}

Test(plan_file, a_bad_sweep_is_refused_in_one_line)
{
	make_sweep(folder, "sweep", &made_sweep_ordinary, path);
	require_refused("sweep.json", "quire-sweep-1", "quire-plan-1", "\"quire-sweep-1\"");
	require_refused("sweep.json", "\"256\"", "256", "a list of texts");
	require_refused("sweep.json", "\"256\"", "\"512\"", "each value once");
	require_refused("sweep.json", "\"parameters\":\t[", "\"parameters\":\t[7, ", "objects");
	require_refused("sweep.tsv", "kv-blocks", "kv-block", "kv-blocks");
	require_refused("sweep.tsv", "complete", "whole", "complete, failed or missing");
	require_refused("sweep.tsv", "\t512\t", "\t513\t", "a value of this parameter");
	require_refused("sweep.tsv", "ttft.p99", "ttft.p98", "ttft.p99");
	require_refused("sweep.tsv", "\t0.0", "\t7.0", "0 to 1");
}

Test(plan_file, a_sweep_of_too_many_runs_is_refused)
{
	enum { RUNS_MAX = 100000 };
	char file[TEMPORARY_PATH_BYTES + 16];
	struct text many = {0};
	struct error error = {0};

	make_sweep(folder, "sweep", &made_sweep_ordinary, path);
	snprintf(file, sizeof(file), "%s/%s", path, SWEEP_RUNS);
	char *text = file_read(file, NULL);
	const char *row = strchr(text, '\n') + 1;
	size_t bytes = strcspn(row, "\n") + 1;
	text_add_bytes(&many, text, (size_t)(row - text));
	for (uint32_t i = 0; i <= RUNS_MAX; i++) {
		text_add_bytes(&many, row, bytes);
	}
	file_write(file, many.bytes, many.byte_count);
	require(open_either(false, &error) == STATUS_INPUT, "it was read");
	require(strstr(error.text, "/sweep.tsv:100002: column run: found '") != NULL &&
			strstr(error.text, "', expected a table of at most 100,000 rows") != NULL,
		"%s", error.text);
	text_deinit(&many);
	free(text);
}

Test(plan_file, a_table_that_figures_cannot_draw_is_refused)
{
	struct error error = {0};

	make_sweep(folder, "sweep", &made_sweep_ordinary, path);
	temporary_write(path, SWEEP_CACHE, "capacity_tokens\ttotal_tokens\n512\t7\n", NULL);
	require(open_either(false, &error) == STATUS_INPUT, "it was read");
	require(strstr(error.text, "lru_tail_hit_tokens") != NULL, "%s", error.text);
}

/* Whatever is done to one of the files, it is read or refused. */
static void mutate_file(const char *name, uint32_t count)
{
	char file[TEMPORARY_PATH_BYTES + 16];
	bool is_plan = strncmp(name, "plan", 4) == 0;
	uint32_t refused = 0;
	size_t bytes;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	char *text = file_read(file, &bytes);
	for (uint32_t i = 0; i < count; i++) {
		struct draw draw = {.key = i};
		struct text changed = {0};
		struct error error = {0};
		if (i % 4 == 3) {
			text_add_bytes(&changed, text, draw_below(&draw, (uint32_t)bytes));
		} else if (strstr(name, ".json") != NULL) {
			mutate_json(text, bytes, &draw, &changed);
		} else {
			mutate_table(text, bytes, &draw, &changed);
		}
		file_write(file, changed.bytes, changed.byte_count);
		enum status status = open_either(is_plan, &error);
		require(status == STATUS_OK || status == STATUS_INPUT, "%u: %s", i, error.text);
		require((status == STATUS_OK) == (error.text[0] == '\0'), "%u", i);
		require(strchr(error.text, '\n') == NULL, "%s", error.text);
		refused += status != STATUS_OK;
		text_deinit(&changed);
	}
	require(refused > count / 4, "only %u of %u changes of %s were refused", refused, count,
		name);
	file_write(file, text, bytes);
	free(text);
}

Test(plan_file, no_change_of_a_file_is_read_as_another)
{
	struct made_plan plan = made_plan_ordinary;

	plan.loads = 3;
	plan.replicates = 2;
	make_plan(folder, "plan", &plan, path);
	mutate_file(PLAN_SUMMARY, 600);
	mutate_file(PLAN_PROBES, 600);
	make_sweep(folder, "sweep", &made_sweep_ordinary, path);
	mutate_file(SWEEP_SUMMARY, 600);
	mutate_file(SWEEP_RUNS, 600);
	mutate_file(SWEEP_CACHE, 300);
}

Test(plan_file, of_one_the_unit_is_in_the_singular)
{
	static const struct {
		const char *unit, *of_one;
	} units[] = {{"replicas", "replica"}, {"KV blocks", "KV block"},
		{"requests at a time", "request at a time"}, {"requests/s", "requests/s"},
		{"", ""}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const struct plan_answer answer = {.unit = units[i].unit};
		cr_assert_str_eq(plan_answer_unit(&answer, 1), units[i].of_one);
		cr_assert_str_eq(plan_answer_unit(&answer, 2), units[i].unit);
		cr_assert_str_eq(plan_answer_unit(&answer, 1.5), units[i].unit);
	}
}

/* An end is told from the other and from 1, in three digits or as many as that takes. */
Test(plan_file, a_ratio_has_the_digits_that_tell_it)
{
	static const struct {
		double low, high;
		const char *text;
	} cases[] = {{0.85, 0.97123, "0.85 to 0.971"}, {1, 1, "1"}, {0.5, 0.5, "0.5"},
		{0.99933, 0.99933, "0.999"}, {0.99967, 0.99967, "0.9997"},
		{0.99933, 1.0004, "0.99933 to 1.0004"}, {1, 1.00004, "1 to 1.00004"},
		{1.0003, 1.5, "1.0003 to 1.5"}, {0.98779, 0.99716, "0.988 to 0.997"},
		{2.0001, 2.0002, "2.0001 to 2.0002"}, {1 - 1e-13, 1 + 1e-13, "1"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct plan_interval ratio = {{true, cases[i].low}, {true, cases[i].high}};
		struct text text = {0};
		plan_add_ratio(&text, &ratio);
		require(strcmp(text.bytes, cases[i].text) == 0, "%s, expected %s", text.bytes,
			cases[i].text);
		text_deinit(&text);
	}
}

Test(plan_file, a_ratio_near_one_is_one)
{
	static const struct {
		double low, high;
		bool is_one;
	} cases[] = {{1, 1, true}, {0.5, 2, true}, {0.99933, 0.99934, true}, {1.0002, 1.0009, true},
		{0.9989, 0.9999, false}, {1.0002, 1.0011, false}, {1.2, 1.3, false},
		{0.9, 1, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct plan_interval ratio = {{true, cases[i].low}, {true, cases[i].high}};
		require(plan_ratio_is_one(&ratio) == cases[i].is_one, "%g to %g", cases[i].low,
			cases[i].high);
		ratio.low.has_value = false;
		require(!plan_ratio_is_one(&ratio), "an open end");
	}
}
