#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/page.h"
#include "tests/harness/made_result.h"
#include "tests/harness/page_table.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The page of a sweep, of drawn sweeps: runs that are complete, failed or missing, figures that no
   run has, one run alone, equal bests. Each cell is found by the title of its column. */

enum { RUNS_MOST = 6, PARAMETERS_MOST = 3, VALUES_MOST = 4 };

struct drawn_sweep {
	struct sweep_file sweep;
	struct sweep_run runs[RUNS_MOST];
	const char *values[PARAMETERS_MOST][VALUES_MOST];
	char names[RUNS_MOST][16], messages[RUNS_MOST][16];
};

static const char *const parameter_names[] = {"kv-blocks", "policy", "max-num-seqs"};
static const char *const value_texts[] = {"0", "<1>", "20", "mixed"};

static struct result_value draw_value(struct prop *prop)
{
	static const double values[] = {0, 0, 0.5, 0.5, 1, 12, 1234};

	return prop_chance(prop, 1, 4) ? (struct result_value){0}
				       : (struct result_value){true, values[prop_below(prop, 7)]};
}

static void draw_run(struct prop *prop, struct drawn_sweep *drawn, uint32_t index, uint32_t hidden)
{
	struct sweep_run *run = &drawn->runs[index];

	snprintf(drawn->names[index], sizeof(drawn->names[index]), "run-%u", index);
	run->name = drawn->names[index];
	run->status = prop_chance(prop, 1, 2)
			      ? SWEEP_RUN_COMPLETE
			      : (enum sweep_run_status)prop_below(prop, SWEEP_RUN_STATUS_COUNT);
	if (run->status == SWEEP_RUN_FAILED && prop_chance(prop, 1, 2)) {
		strcpy(drawn->messages[index], "no <room>");
	}
	run->message = drawn->messages[index];
	for (uint32_t i = 0; i < drawn->sweep.parameter_count; i++) {
		run->values[i] = (uint32_t)prop_below(prop, VALUES_MOST);
	}
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT && run->status == SWEEP_RUN_COMPLETE; i++) {
		run->metrics[i] = i % 8 == hidden ? (struct result_value){0} : draw_value(prop);
	}
	if (run->status == SWEEP_RUN_COMPLETE) {
		run->kv_blocks = draw_value(prop);
		run->gpus = draw_value(prop);
		run->verdict = (enum verdict)prop_below(prop, 4);
		run->is_calibrated = prop_chance(prop, 1, 2);
	}
}

static void draw_sweep(struct prop *prop, struct drawn_sweep *drawn)
{
	struct sweep_file *sweep = &drawn->sweep;
	uint32_t hidden = (uint32_t)prop_below(prop, 12); /* metrics that no run has */

	bool has_slo = prop_chance(prop, 1, 2);

	memset(drawn, 0, sizeof(*drawn));
	*sweep = (struct sweep_file){.directory = "sweep",
		.trace_name = "chat",
		.trace_requests = draw_value(prop),
		.parameter_count = prop_range(prop, 1, PARAMETERS_MOST),
		.slo_ttft_ms = {has_slo, 20},
		.slo_e2e_ms = {has_slo, 1500},
		.run_count = prop_range(prop, 1, RUNS_MOST),
		.runs = drawn->runs};
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		memcpy(drawn->values[i], value_texts, sizeof(value_texts));
		sweep->parameters[i] = (struct sweep_parameter){.name = parameter_names[i],
			.value_count = prop_range(prop, 1, VALUES_MOST),
			.values = drawn->values[i]};
	}
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		draw_run(prop, drawn, i, hidden);
	}
}

static const char *title_of(const struct metric *metric)
{
	return strchr(metric->name, '.') == NULL ? metric->title : metric->name;
}

static bool is_of_rejected(uint32_t metric)
{
	return strcmp(sweep_metrics[metric], "rejected") == 0;
}

static double rejected_by(const struct sweep_run *run)
{
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		if (is_of_rejected(i) && run->metrics[i].has_value) {
			return run->metrics[i].value;
		}
	}
	return 0;
}

/* What an overloaded run has of single requests only says how long the trace is. */
static bool is_of_requests(uint32_t metric)
{
	const char *name = sweep_metrics[metric];

	return strstr(name, ".p") != NULL || strcmp(name, "goodput") == 0 ||
	       strcmp(name, "attained") == 0;
}

static bool keeps_up(const struct sweep_run *run)
{
	return run->verdict == VERDICT_STABLE || run->verdict == VERDICT_BACKLOGGED;
}

/* Whether a run of those that rejected as few keeps up. */
static bool one_keeps_up(const struct sweep_file *sweep, double rejected)
{
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->status == SWEEP_RUN_COMPLETE && rejected_by(run) <= rejected &&
			keeps_up(run)) {
			return true;
		}
	}
	return false;
}

/* Whether no run rejected fewer requests, and no other of those that rejected as few is better,
   where better is said of the metric. Where one of them keeps up only such runs count. */
static bool is_best(const struct sweep_file *sweep, uint32_t run, uint32_t metric)
{
	int better = metric_find(sweep_metrics[metric])->better;
	const struct result_value *own = &sweep->runs[run].metrics[metric];
	double rejected = rejected_by(&sweep->runs[run]);
	bool must_keep_up = one_keeps_up(sweep, rejected);

	if (must_keep_up ? !keeps_up(&sweep->runs[run]) : is_of_requests(metric)) {
		return false;
	}
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct result_value *other = &sweep->runs[i].metrics[metric];
		if (sweep->runs[i].status != SWEEP_RUN_COMPLETE) {
			continue;
		}
		if (rejected_by(&sweep->runs[i]) < rejected ||
			(rejected_by(&sweep->runs[i]) <= rejected && other->has_value &&
				(!must_keep_up || keeps_up(&sweep->runs[i])) &&
				(other->value - own->value) * better > 0)) {
			return false;
		}
	}
	return own->has_value && better != 0 && !(is_of_rejected(metric) && own->value > 0);
}

static bool is_shown(const struct sweep_file *sweep, uint32_t metric)
{
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		if (sweep->runs[i].metrics[metric].has_value) {
			return true;
		}
	}
	return false;
}

static void require_value(const struct shown_table *table, const char *title,
	enum number_format format, struct result_value value)
{
	struct text text = {0};

	text_add_number(&text, format, value.has_value, value.value);
	shown_table_require(table, title, text.bytes);
	text_deinit(&text);
}

/* How many complete runs are calibrated, or are not. */
static uint32_t calibrated_count(const struct sweep_file *sweep, bool is_calibrated)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		count += run->status == SWEEP_RUN_COMPLETE && run->is_calibrated == is_calibrated;
	}
	return count;
}

static bool is_mixed(const struct sweep_file *sweep)
{
	return calibrated_count(sweep, true) > 0 && calibrated_count(sweep, false) > 0;
}

static void require_run(
	const struct sweep_file *sweep, uint32_t index, const struct shown_table *table)
{
	const struct sweep_run *run = &sweep->runs[index];

	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		const char *text = value_texts[run->values[i]];
		shown_table_require(table, parameter_names[i], text[0] == '<' ? "&lt;1&gt;" : text);
	}
	if (run->status != SWEEP_RUN_COMPLETE) {
		const char *found = table->row.cells[sweep->parameter_count];
		char expected[64], span[64];
		snprintf(expected, sizeof(expected), "%s%s",
			run->status == SWEEP_RUN_FAILED ? "failed" : "missing",
			run->message[0] == '\0' ? "" : ": no &lt;room&gt;");
		require(strcmp(found, expected) == 0, "'%s', expected '%s'", found, expected);
		snprintf(span, sizeof(span), "colspan=\"%u\"",
			table->titles.count - sweep->parameter_count - 1);
		require_has(table->row.tags[sweep->parameter_count], span);
		require_equal(table->row.count, sweep->parameter_count + 2);
	}
	const char *folder = table->row.cells[table->row.count - 1];
	require(strcmp(folder, run->name) == 0, "the folder '%s'", folder);
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT && run->status == SWEEP_RUN_COMPLETE; i++) {
		const struct metric *metric = metric_find(sweep_metrics[i]);
		if (is_shown(sweep, i)) {
			uint32_t column = shown_table_column(table, title_of(metric));
			require_value(table, title_of(metric), metric->format, run->metrics[i]);
			bool is_green = strstr(table->row.tags[column], "better") != NULL;
			require(is_green == is_best(sweep, index, i), "%s of run %u is %s",
				metric->name, index, is_green ? "green" : "not green");
			bool is_red = strstr(table->row.tags[column], "worse") != NULL;
			bool is_outside = strcmp(sweep_metrics[i], "outside_time") == 0;
			require_equal(is_red, (is_of_rejected(i) && run->metrics[i].value > 0) ||
						      (is_outside && run->metrics[i].value > 0.05));
		}
	}
	if (run->status == SWEEP_RUN_COMPLETE) {
		require_equal(table->row.count, table->titles.count);
		static const char *const verdicts[] = {
			"stable", "backlogged", "overloaded", "unserved"};
		shown_table_require(table, "Verdict", verdicts[run->verdict]);
		const char *tag = table->row.tags[shown_table_column(table, "Verdict")];
		require_equal(strstr(tag, "worse") != NULL, !keeps_up(run));
		if (is_mixed(sweep)) {
			shown_table_require(table, "Calibrated", run->is_calibrated ? "yes" : "no");
		}
		require_value(table, "KV blocks", NUMBER_COUNT, run->kv_blocks);
		require_value(table, "GPUs", NUMBER_COUNT, run->gpus);
	}
}

/* Of a wide table the first columns are seen: what was rejected stands before every latency. */
static void require_order(const struct sweep_file *sweep, const struct shown_table *table)
{
	uint32_t rejected = 0;

	while (!is_of_rejected(rejected)) {
		rejected++;
	}
	if (!is_shown(sweep, rejected)) {
		return;
	}
	uint32_t place = shown_table_column(table, "Requests rejected");
	for (uint32_t i = place; i-- > 0;) {
		require(strstr(table->titles.cells[i], ".p") == NULL, "%s stands before it",
			table->titles.cells[i]);
	}
}

/* What is said above the table: how many runs there are, fail and are missing. */
static void require_counts(const struct sweep_file *sweep, const char *page)
{
	uint32_t failed = 0, missing = 0;
	char text[160];

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		failed += sweep->runs[i].status == SWEEP_RUN_FAILED;
		missing += sweep->runs[i].status == SWEEP_RUN_MISSING;
	}
	const char *runs = sweep->run_count == 1 ? "run" : "runs";
	snprintf(text, sizeof(text), "%u %s over <strong>kv-blocks</strong> (%u %s",
		sweep->run_count, runs, sweep->parameters[0].value_count,
		sweep->parameters[0].value_count == 1 ? "value)" : "values)");
	require_has(page, text);
	snprintf(text, sizeof(text), "> %u of %u %s failed;", failed, sweep->run_count, runs);
	require_equal(occurrences(page, text), failed > 0);
	require_equal(occurrences(page, " failed; the table"), failed > 0);
	snprintf(text, sizeof(text), "> %u of %u %s %s missing;", missing, sweep->run_count, runs,
		missing == 1 ? "is" : "are");
	require_equal(occurrences(page, text), missing > 0);
	require_equal(occurrences(page, " missing; the same"), missing > 0);
	uint32_t uncalibrated = calibrated_count(sweep, false), overloaded = 0;
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		overloaded += sweep->runs[i].status == SWEEP_RUN_COMPLETE &&
			      sweep->runs[i].verdict == VERDICT_OVERLOADED;
	}
	snprintf(text, sizeof(text), "uncalibrated</span> %u of %u %s, marked", uncalibrated,
		sweep->run_count, runs);
	require_equal(occurrences(page, text), is_mixed(sweep));
	require_equal(occurrences(page, "uncalibrated</span> The times"),
		uncalibrated > 0 && !is_mixed(sweep));
	snprintf(text, sizeof(text), "overloaded</span> %u of %u %s.", overloaded, sweep->run_count,
		runs);
	require_equal(occurrences(page, text), overloaded > 0);
	require_equal(occurrences(page, "class=\"caution"), (uncalibrated > 0) + (overloaded > 0));
	struct text slo = {0};
	text_add(&slo, "; SLO: TTFT ");
	text_add_number(&slo, NUMBER_TIME_MS, true, 20);
	text_add(&slo, ", E2E ");
	text_add_number(&slo, NUMBER_TIME_MS, true, 1500);
	text_add(&slo, "</p>");
	require_equal(occurrences(page, slo.bytes), sweep->slo_ttft_ms.has_value);
	text_deinit(&slo);
	require_equal(occurrences(page, "SLO:"), sweep->slo_ttft_ms.has_value);
}

static void body_sweep(struct prop *prop, const void *context)
{
	const struct page_sheet sheet = {.style = "", .script = ""};
	struct drawn_sweep drawn;
	struct shown_table table;
	struct text page = {0};
	struct error error = {0};
	cJSON *summary = cJSON_CreateObject();
	uint32_t rows = 0, shown = 0;

	(void)context;
	draw_sweep(prop, &drawn);
	drawn.sweep.root.node = summary;
	require(page_sweep_write(&page, &drawn.sweep, &sheet, &error) == STATUS_OK, "%s",
		error.text);
	require_counts(&drawn.sweep, page.bytes);
	shown_table_open(&table, strstr(page.bytes, "<section id=\"runs\">"));
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		shown += is_shown(&drawn.sweep, i);
	}
	require_order(&drawn.sweep, &table);
	require_equal(table.titles.count,
		drawn.sweep.parameter_count + shown + 4 + is_mixed(&drawn.sweep));
	for (; shown_table_next(&table); rows++) {
		require(rows < drawn.sweep.run_count, "more rows than runs");
		require_run(&drawn.sweep, rows, &table);
	}
	require_equal(rows, drawn.sweep.run_count);
	text_deinit(&page);
	cJSON_Delete(summary);
}

Test(sweep_table, has_every_figure_of_every_run, .timeout = 120)
{
	const struct prop_options options = {
		.name = "runs of a sweep", .body = body_sweep, .trials = 1000};

	cr_assert(prop_holds(&options));
}

/* Each GPU and number of KV blocks that it has no room for is named once, and at most eight. */
Test(sweep_table, runs_beyond_the_memory_are_named_by_gpu_and_blocks)
{
	enum { RUNS = 20, SAID = 8 };
	static const struct page_sheet sheet = {.style = "", .script = ""};
	static const char *const gpus[] = {"a<b", "c"};
	static struct sweep_run runs[RUNS];
	const char *values[] = {"1"};
	struct sweep_parameter seed = {.name = "seed", .value_count = 1, .values = values};
	cJSON *summary = cJSON_CreateObject();

	for (uint32_t kinds = 1; kinds <= SAID + 2; kinds++) {
		struct text page = {0}, expected = {0};
		struct error error = {0};
		struct sweep_file sweep = {.directory = "sweep",
			.trace_name = "chat",
			.parameter_count = 1,
			.parameters = {seed},
			.run_count = RUNS,
			.runs = runs};
		sweep.root.node = summary;
		for (uint32_t i = 0; i < RUNS; i++) {
			uint32_t kind = i % kinds;
			runs[i] = (struct sweep_run){.name = "run",
				.message = "",
				.status = SWEEP_RUN_COMPLETE,
				.is_calibrated = true,
				.gpu = gpus[kind % 2],
				.is_beyond_memory = i < RUNS - 1,
				.kv_blocks = {true, 9000 + kind / 2},
				.found_kv_blocks = 100 * (1 + kind % 2)};
			if (i < kinds && i < SAID) {
				text_format(&expected, "%s9,%03u on %s, whose memory holds %u",
					i == 0 ? "" : "; ", kind / 2,
					kind % 2 == 0 ? "a&lt;b" : "c", 100 * (1 + kind % 2));
			}
		}
		text_format(&expected, " (%u of %u runs, marked red in the table).</p>\n", RUNS - 1,
			RUNS);
		require(page_sweep_write(&page, &sweep, &sheet, &error) == STATUS_OK, "%s",
			error.text);
		const char *at = strstr(page.bytes, "has room for: ");
		require(at != NULL, "nothing is said");
		at += strlen("has room for: ");
		require(strncmp(at, expected.bytes, strlen(expected.bytes)) == 0,
			"%u kinds: found %.300s, expected %s", kinds, at, expected.bytes);
		text_deinit(&page);
		text_deinit(&expected);
	}
	cJSON_Delete(summary);
}
