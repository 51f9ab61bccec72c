#include <criterion/criterion.h>

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/page.h"
#include "reports/page/page_plan.h"
#include "tests/harness/made_result.h"
#include "tests/harness/page_table.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The page of a plan, of drawn plans in which figures are missing, zero, equal or all the
   same: each cell is found by the title of its column and compared with the plan. */

enum {
	CONFIGURATIONS_MOST = 4,
	PROBES_MOST = 4,
	NAMES_BYTES = 100,
#define COUNT_VERDICT(name, text) +1
	VERDICTS = 0 VERDICT_LIST(COUNT_VERDICT),
#undef COUNT_VERDICT
};

struct drawn_plan {
	struct plan_file plan;
	struct plan_configuration configurations[CONFIGURATIONS_MOST];
	struct plan_probe probes[PROBES_MOST];
	char names[CONFIGURATIONS_MOST][16];
	cJSON *same[CONFIGURATIONS_MOST];
};

/* Often none, often 0 or 1, often equal to another. */
static struct result_value draw_value(struct prop *prop)
{
	static const double values[] = {0, 1, 0.25, 0.5, 0.9995, 2, 12, 999.5, 1234, 1e6};

	if (prop_chance(prop, 1, 4)) {
		return (struct result_value){0};
	}
	double value = prop_chance(prop, 1, 2) ? values[prop_below(prop, 10)]
					       : (double)prop_below(prop, 100000) / 64;
	return (struct result_value){true, value};
}

static struct plan_interval draw_interval(struct prop *prop)
{
	struct plan_interval interval = {draw_value(prop), draw_value(prop)};

	if (interval.low.has_value && interval.high.has_value &&
		interval.low.value > interval.high.value) {
		return (struct plan_interval){interval.high, interval.low};
	}
	return interval;
}

static void draw_answer(struct prop *prop, struct plan_answer *answer)
{
	static const char *const varied[][2] = {
		{"rate", "requests/s"}, {"speedup", ""}, {"replicas", "replicas"}};
	uint32_t kind = (uint32_t)prop_below(prop, 3);

	*answer = (struct plan_answer){.vary = varied[kind][0],
		.unit = varied[kind][1],
		.sentence = "so much",
		.binding = prop_chance(prop, 1, 2) ? "ttft & co" : "",
		.is_least = kind == 2};
	answer->highest_pass = draw_value(prop);
	answer->lowest_fail = draw_value(prop);
	answer->lowest_pass = draw_value(prop);
	answer->highest_fail = draw_value(prop);
	answer->cost_per_million_tokens = draw_value(prop);
	answer->is_bound = prop_chance(prop, 1, 2);
	answer->attained = draw_value(prop);
	answer->offered_requests_per_s = draw_value(prop);
	answer->goodput_requests_per_s = draw_value(prop);
	answer->output_tokens_per_s = draw_value(prop);
	answer->outside_share = draw_value(prop);
	answer->replicas = draw_value(prop);
	answer->gpus = draw_value(prop);
	answer->spare = draw_value(prop);
	answer->currency_per_gpu_hour = draw_value(prop);
	answer->sampling.interval = draw_interval(prop);
	answer->sampling.text = "drawn again";
	answer->model.interval = draw_interval(prop);
	answer->model.text = "step times";
	answer->model.is_guess = prop_chance(prop, 1, 2);
	answer->alone.requests = draw_value(prop);
	answer->alone.misses = draw_value(prop);
	answer->alone.longest_tokens = draw_value(prop);
	answer->binding_text = prop_chance(prop, 1, 2) ? "the <first> token" : "";
	answer->why_not_more = prop_chance(prop, 1, 2) ? "it fails" : "";
	answer->short_trace = prop_chance(prop, 1, 2) ? "2 s" : "";
	answer->early_turns = prop_chance(prop, 1, 2) ? "half" : "";
	answer->router_note = prop_chance(prop, 1, 2) ? "no ids" : "";
	answer->stretch_count = prop_range(prop, 0, 2);
	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		bool is_wide = prop_chance(prop, 2, 3);
		answer->stretches[i] =
			(struct plan_stretch){2 * i + 1, 2 * i + (is_wide ? 1.5 : 1)};
	}
}

static void draw_configuration(struct prop *prop, struct drawn_plan *drawn, uint32_t index)
{
	struct plan_configuration *one = &drawn->configurations[index];

	snprintf(drawn->names[index], sizeof(drawn->names[index]), "<c%u>", index);
	drawn->same[index] = cJSON_CreateArray();
	for (uint32_t i = 0; i < index; i++) {
		if (prop_chance(prop, 1, 2)) {
			cJSON_AddItemToArray(
				drawn->same[index], cJSON_CreateString(drawn->names[i]));
		}
	}
	*one = (struct plan_configuration){.name = drawn->names[index],
		.options = prop_chance(prop, 1, 2) ? "" : "--policy vllm",
		.profile = "h200",
		.is_calibrated = prop_chance(prop, 1, 2),
		.gpus = prop_range(prop, 1, 8),
		.goodput_per_gpu = draw_value(prop),
		.against_best = draw_value(prop),
		.goodput_per_gpu_interval = draw_interval(prop),
		.against_best_interval = draw_interval(prop),
		.utilisation = draw_value(prop),
		.throughput_per_gpu = draw_value(prop),
		.speed_per_user = draw_value(prop),
		.rank = index + 1,
		.same_as = drawn->same[index],
		.on_pareto_front = prop_chance(prop, 1, 2)};
	draw_answer(prop, &one->answer);
}

static void draw_probe(struct prop *prop, struct drawn_plan *drawn, struct plan_probe *probe)
{
	*probe = (struct plan_probe){
		.configuration = (uint32_t)prop_below(prop, drawn->plan.configuration_count),
		.purpose = (enum probe_purpose)prop_below(prop, PROBE_PURPOSE_COUNT),
		.has_verdict = prop_chance(prop, 2, 3),
		.verdict = (enum verdict)prop_below(prop, VERDICTS),
		.failure = prop_chance(prop, 1, 5) ? "no <memory>" : NULL};
#define NO_NUMBER(name)
#define DRAW_NUMBER(name, places, maximum) probe->name = draw_value(prop);
	PROBE_COLUMN_LIST(NO_NUMBER, DRAW_NUMBER)
#undef NO_NUMBER
#undef DRAW_NUMBER
	if (probe->passes.has_value) {
		probe->passes.value = (double)prop_below(prop, 2);
	}
	for (uint32_t i = 0; i < drawn->plan.limits.count; i++) {
		probe->limits[i] = draw_value(prop);
	}
}

static void draw_plan(struct prop *prop, struct drawn_plan *drawn)
{
	static const char *const limited[] = {"ttft.p95", "hit_rate", "output_tokens_per_s"};

	memset(drawn, 0, sizeof(*drawn));
	drawn->plan.configurations = drawn->configurations;
	drawn->plan.configuration_count = prop_range(prop, 1, CONFIGURATIONS_MOST);
	drawn->plan.probes = drawn->probes;
	drawn->plan.probe_count = prop_below(prop, PROBES_MOST + 1);
	drawn->plan.limits.count = prop_range(prop, 0, 3);
	drawn->plan.slo_ttft_ms = draw_value(prop);
	draw_answer(prop, &drawn->plan.answer);
	for (uint32_t i = 0; i < drawn->plan.limits.count; i++) {
		drawn->plan.limits.list[i].metric = metric_find(limited[i]);
	}
	for (uint32_t i = 0; i < drawn->plan.configuration_count; i++) {
		draw_configuration(prop, drawn, i);
	}
	for (uint32_t i = 0; i < drawn->plan.probe_count; i++) {
		draw_probe(prop, drawn, &drawn->probes[i]);
	}
}

static void free_plan(struct drawn_plan *drawn)
{
	for (uint32_t i = 0; i < drawn->plan.configuration_count; i++) {
		cJSON_Delete(drawn->same[i]);
	}
}

/* ---- cells ---- */

static void require_number(const struct shown_table *table, const char *title,
	enum number_format format, struct result_value value)
{
	struct text text = {0};

	text_add_number(&text, format, value.has_value, value.value);
	shown_table_require(table, title, text.bytes);
	text_deinit(&text);
}

/* `none` where there is no load. */
static void require_load(const struct shown_table *table, const char *title,
	const struct plan_answer *answer, struct result_value value, const char *none)
{
	struct text text = {0};

	if (value.has_value) {
		page_load(&text, answer, value.value);
	}
	shown_table_require(table, title, value.has_value ? text.bytes : none);
	text_deinit(&text);
}

/* ---- the runs of the search ---- */

static void require_probe(const struct drawn_plan *drawn, const struct shown_table *table,
	const struct plan_probe *probe)
{
	const struct plan_file *plan = &drawn->plan;
	char name[32];

	require_equal(table->row.count, table->titles.count);
	require_load(table, "Load", &plan->answer, probe->load, "\u2013");
	if (plan->configuration_count > 1) {
		snprintf(name, sizeof(name), "&lt;c%u&gt;", probe->configuration);
		shown_table_require(table, "Configuration", name);
	}
	shown_table_require(table, "Purpose", probe_purposes[probe->purpose]);
	require_number(table, "Replicate", NUMBER_COUNT, probe->replicate);
	require_number(table, "Step time \u00d7", NUMBER_RATE, probe->step_time_scale);
	require_number(table, "Replicas", NUMBER_COUNT, probe->replicas);
	require_number(table, "Requests/s offered", NUMBER_RATE, probe->offered_requests_per_s);
	require_number(table, plan->slo_ttft_ms.has_value ? "Within the SLO" : "Finished",
		NUMBER_SHARE, probe->attained);
	require_number(table, "Goodput, requests/s", NUMBER_RATE, probe->goodput_requests_per_s);
	require_number(table, "Output tokens/s", NUMBER_RATE, probe->output_tokens_per_s);
	require_number(table, "TTFT, median", NUMBER_TIME_MS, probe->ttft_p50_ms);
	require_number(table, "TTFT, p99", NUMBER_TIME_MS, probe->ttft_p99_ms);
	require_number(table, "TPOT, median", NUMBER_TIME_MS, probe->tpot_p50_ms);
	require_number(table, "TPOT, p99", NUMBER_TIME_MS, probe->tpot_p99_ms);
	require_number(table, "Hit rate", NUMBER_SHARE, probe->hit_rate);
	require_number(table, "Preemptions", NUMBER_COUNT, probe->preemptions);
	require_number(table, "Utilisation", NUMBER_SHARE, probe->utilisation);
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		const struct metric *metric = plan->limits.list[i].metric;
		require_number(table, metric->name, metric->format, probe->limits[i]);
	}
	shown_table_require(table, "SLO",
		probe->failure != NULL	   ? "not run: no &lt;memory&gt;"
		: !probe->passes.has_value ? "\u2013"
		: probe->passes.value > 0  ? "passes"
					   : "fails");
}

static const char *verdict_text(const struct plan_probe *probe)
{
	static const char *const names[] = {
#define VERDICT_NAME(name, text) text,
		VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
	};

	return probe->has_verdict ? names[probe->verdict] : "\u2013";
}

static void body_probes(struct prop *prop, const void *context)
{
	struct drawn_plan drawn;
	struct shown_table table;
	struct text page = {0};
	uint64_t rows = 0;

	(void)context;
	draw_plan(prop, &drawn);
	page_plan_probes(&page, &drawn.plan);
	shown_table_open(&table, page.bytes);
	for (; shown_table_next(&table); rows++) {
		require(rows < drawn.plan.probe_count, "more rows than runs");
		require_probe(&drawn, &table, &drawn.probes[rows]);
		shown_table_require(&table, "Verdict", verdict_text(&drawn.probes[rows]));
	}
	require_equal(rows, drawn.plan.probe_count);
	text_deinit(&page);
	free_plan(&drawn);
}

Test(plan_tables, have_every_figure_of_every_run, .timeout = 120)
{
	const struct prop_options options = {
		.name = "runs of a plan", .body = body_probes, .trials = 1000};

	cr_assert(prop_holds(&options));
}

/* ---- configurations ---- */

/* The bar of an interval whose ends are known or open, in percent of the picture. */
static void bar_text(
	const struct plan_interval *interval, double low, double high, char *text, size_t bytes)
{
	if (!interval->low.has_value && !interval->high.has_value) {
		text[0] = '\0';
	} else if (!interval->low.has_value) {
		snprintf(text, bytes, "<i class=\"no-low\" style=\"left:0.0%%;width:%.1f%%\"></i>",
			high);
	} else if (!interval->high.has_value) {
		snprintf(text, bytes,
			"<i class=\"no-high\" style=\"left:%.1f%%;width:%.1f%%\"></i>", low,
			100 - low);
	} else {
		snprintf(
			text, bytes, "<i style=\"left:%.1f%%;width:%.1f%%\"></i>", low, high - low);
	}
}

/* The share of the longest bar, which reaches to the largest value or upper end of all. */
static void require_bar(const struct drawn_plan *drawn, const struct shown_table *table,
	const struct plan_configuration *one)
{
	const struct plan_interval *interval = &one->goodput_per_gpu_interval;
	double most = 0, value = one->goodput_per_gpu.value;
	char bar[160], expected[PAGE_CELL_BYTES];

	for (uint32_t i = 0; i < drawn->plan.configuration_count; i++) {
		const struct plan_configuration *other = &drawn->configurations[i];
		struct result_value end = other->goodput_per_gpu_interval.high;
		most = other->goodput_per_gpu.has_value && other->goodput_per_gpu.value > most
			       ? other->goodput_per_gpu.value
			       : most;
		most = end.has_value && end.value > most ? end.value : most;
	}
	bar_text(interval, 100 * interval->low.value / most, 100 * interval->high.value / most, bar,
		sizeof(bar));
	snprintf(expected, sizeof(expected),
		"<span class=\"interval sampling\">%s<b style=\"left:%.1f%%\"></b></span>", bar,
		100 * value / most);
	bool is_drawn = one->goodput_per_gpu.has_value && most > 0;
	shown_table_require(table, "95\u00a0% interval", is_drawn ? expected : "");
}

static void require_words(const struct drawn_plan *drawn, const struct shown_table *table,
	const struct plan_configuration *one)
{
	const struct plan_interval *against = &one->against_best_interval;
	char text[PAGE_CELL_BYTES] = "", name[NAMES_BYTES];
	struct text number = {0};

	for (uint32_t i = 0; i < one->rank - 1; i++) {
		snprintf(name, sizeof(name), "%s&lt;c%u&gt;", text[0] == '\0' ? "" : ", ", i);
		const cJSON *item = NULL;
		cJSON_ArrayForEach(item, one->same_as)
		{
			strcat(text, strcmp(item->valuestring, drawn->names[i]) == 0 ? name : "");
		}
	}
	shown_table_require(table, "Does not differ from", text[0] == '\0' ? "\u2013" : text);
	text_add_number(&number, NUMBER_RATE, one->against_best.has_value, one->against_best.value);
	if (strcmp(number.bytes, "1.00") == 0 && one->against_best.value != 1) {
		const struct plan_interval ratio = {one->against_best, one->against_best};
		text_deinit(&number);
		number = (struct text){0};
		plan_add_ratio(&number, &ratio);
		require(strcmp(number.bytes, "1") != 0, "%.17g", one->against_best.value);
	}
	if (against->low.has_value && against->high.has_value) {
		text_add(&number, "<br><small>");
		plan_add_ratio(&number, against);
		text_add(&number, "</small>");
	}
	shown_table_require(table, "Of the best", number.bytes);
	text_deinit(&number);
	snprintf(text, sizeof(text), "%u. &lt;c%u&gt;%s<small>priced by h200%s</small>", one->rank,
		one->rank - 1, one->options[0] == '\0' ? "" : "<small>--policy vllm</small>",
		one->is_calibrated ? "" : " <span class=\"badge\">uncalibrated</span>");
	shown_table_require(table, "Configuration", text);
}

static void require_configuration(const struct drawn_plan *drawn, const struct shown_table *table,
	const struct plan_configuration *one, bool is_priced)
{
	const struct plan_answer *answer = &one->answer;

	require_equal(table->row.count, table->titles.count);
	require_words(drawn, table, one);
	require_load(table, "Passes at", answer,
		answer->is_least ? answer->lowest_pass : answer->highest_pass, "no load");
	require_number(
		table, "GPUs a replica", NUMBER_COUNT, (struct result_value){true, one->gpus});
	require_number(table, "Goodput a GPU", NUMBER_RATE, one->goodput_per_gpu);
	require_bar(drawn, table, one);
	require_number(table, "Utilisation", NUMBER_SHARE, one->utilisation);
	require_number(table, "Output tokens/s a GPU", NUMBER_RATE, one->throughput_per_gpu);
	require_number(table, "Tokens/s a user", NUMBER_RATE, one->speed_per_user);
	shown_table_require(table, "Pareto front", one->on_pareto_front ? "yes" : "\u2013");
	if (is_priced) {
		require_number(table, "Cost of a million tokens", NUMBER_RATE,
			answer->cost_per_million_tokens);
	}
	shown_table_require(table, "What binds", answer->binding[0] == '\0' ? "" : "ttft &amp; co");
}

/* Cost is a column where any configuration has one. */
static void body_configurations(struct prop *prop, const void *context)
{
	bool is_priced = false;
	struct drawn_plan drawn;
	struct shown_table table;
	struct text page = {0};
	uint32_t rows = 0;

	(void)context;
	draw_plan(prop, &drawn);
	page_plan_configurations(&page, &drawn.plan);
	if (drawn.plan.configuration_count == 1) {
		require(page.byte_count == 0, "a table of one configuration");
		free_plan(&drawn);
		return;
	}
	shown_table_open(&table, page.bytes);
	for (uint32_t i = 0; i < drawn.plan.configuration_count; i++) {
		is_priced |= drawn.configurations[i].answer.cost_per_million_tokens.has_value;
	}
	require_equal(table.titles.count, is_priced ? 13 : 12);
	for (; shown_table_next(&table); rows++) {
		require(rows < drawn.plan.configuration_count, "more rows than configurations");
		require_configuration(&drawn, &table, &drawn.configurations[rows], is_priced);
	}
	require_equal(rows, drawn.plan.configuration_count);
	text_deinit(&page);
	free_plan(&drawn);
}

Test(plan_tables, have_every_figure_of_every_configuration, .timeout = 120)
{
	const struct prop_options options = {
		.name = "configurations of a plan", .body = body_configurations, .trials = 1000};

	cr_assert(prop_holds(&options));
}

/* ---- the answer ---- */

static struct text number_text(enum number_format format, double value)
{
	struct text text = {0};

	text_add_number(&text, format, true, value);
	return text;
}

/* A card stands on the page where its value is known and a load passes. */
static void require_card(const char *page, bool has_pass, const char *title,
	enum number_format format, struct result_value value)
{
	char start[128], expected[192];
	bool is_there = has_pass && value.has_value;
	struct text number = number_text(format, value.value);

	snprintf(start, sizeof(start), "<dt>%s</dt><dd>", title);
	snprintf(expected, sizeof(expected), "%s%s<small>", start, number.bytes);
	require(occurrences(page, start) == is_there && occurrences(page, expected) == is_there,
		"%u cards '%s', %u times '%s'", occurrences(page, start), title,
		occurrences(page, expected), expected);
	text_deinit(&number);
}

static void require_cards(const struct plan_file *plan, bool has_pass, const char *page)
{
	const struct plan_answer *answer = &plan->answer;
	bool has_slo = plan->slo_ttft_ms.has_value;
	bool has_cost = has_pass && answer->cost_per_million_tokens.has_value;
	bool has_spare = has_pass && answer->gpus.has_value && answer->spare.has_value &&
			 answer->spare.value > 0;
	struct text hour = {0};

	require_card(page, has_pass, "GPUs", NUMBER_COUNT, answer->gpus);
	require_card(page, has_pass, "Cost of a million tokens", NUMBER_RATE,
		answer->cost_per_million_tokens);
	require_card(page, has_pass, has_slo ? "Requests within the SLO" : "Requests finished",
		NUMBER_SHARE, answer->attained);
	require_card(
		page, has_pass, "Requests offered", NUMBER_RATE, answer->offered_requests_per_s);
	require_card(page, has_pass, "Goodput", NUMBER_RATE, answer->goodput_requests_per_s);
	require_card(page, has_pass, "Output", NUMBER_RATE, answer->output_tokens_per_s);
	require_card(
		page, has_pass, "Priced outside the profile", NUMBER_SHARE, answer->outside_share);
	struct text spare = number_text(NUMBER_COUNT, answer->spare.value);
	text_add(&spare, " lost</small>");
	require_equal(occurrences(page, " lost</small>"), has_spare);
	require(!has_spare || strstr(page, spare.bytes) != NULL, "no %s", spare.bytes);
	text_deinit(&spare);
	text_add(&hour, "--cost-per-gpu-hour ");
	text_add_number(&hour, NUMBER_RATE, answer->currency_per_gpu_hour.has_value,
		answer->currency_per_gpu_hour.value);
	text_add(&hour, "</small>");
	require_equal(occurrences(page, hour.bytes), has_cost);
	text_deinit(&hour);
}

/* A load as the page writes it, or `none`. */
static struct text load_text(
	const struct plan_answer *answer, struct result_value value, const char *none)
{
	struct text text = {0};

	if (value.has_value) {
		page_load(&text, answer, value.value);
	} else {
		text_add(&text, none);
	}
	return text;
}

static void require_bounds(const struct plan_answer *answer, struct result_value pass,
	struct result_value fail, const char *page)
{
	struct text passes = load_text(answer, pass, ""), fails = load_text(answer, fail, "");
	struct text sentence = {0};

	if (pass.has_value) {
		text_add(&sentence, "Passes: ");
		text_add(&sentence, passes.bytes);
		text_add(&sentence, answer->is_bound ? ", and more was not tried. " : ". ");
	}
	if (fail.has_value) {
		text_add(&sentence, "Fails: ");
		text_add(&sentence, fails.bytes);
		text_add(&sentence, ". ");
	}
	text_add(&sentence, "</p>");
	require_has(page, sentence.bytes);
	require_equal(occurrences(page, "Passes: "), pass.has_value);
	require_equal(occurrences(page, "Fails: "), fail.has_value);
	text_deinit(&passes);
	text_deinit(&fails);
	text_deinit(&sentence);
}

/* The row of an interval: its ends in words, and the bar on the scale of all known ends and of the
   value that passes, with a margin of 8 % on both sides. */
static void require_interval(const struct plan_answer *answer, struct result_value pass,
	const struct plan_interval *own, const char *name, const char *page)
{
	const struct result_value ends[] = {pass, answer->sampling.interval.low,
		answer->sampling.interval.high, answer->model.interval.low,
		answer->model.interval.high};
	struct text low = load_text(answer, own->low, "open");
	struct text high = load_text(answer, own->high, "open"), row = {0};
	double least = 0, most = 0;
	bool is_there = own->low.has_value || own->high.has_value, has_any = false;

	for (uint32_t i = 0; i < 5; i++) {
		if (ends[i].has_value) {
			least = !has_any || ends[i].value < least ? ends[i].value : least;
			most = !has_any || ends[i].value > most ? ends[i].value : most;
			has_any = true;
		}
	}
	double from = 1.16 * (most - least), left = least - 0.08 * (most - least),
	       scale = 100 / from;
	char bar[160];
	bar_text(own, (own->low.value - left) * scale, (own->high.value - left) * scale, bar,
		sizeof(bar));
	if (strcmp(low.bytes, high.bytes) != 0) {
		text_add(&row, low.bytes);
		text_add(&row, " to ");
	}
	text_add(&row, high.bytes);
	text_format(&row, "</td><td class=\"picture\"><span class=\"interval %s\">", name);
	bool is_wide = most > least;
	if (is_wide) {
		text_add(&row, bar);
	}
	if (is_wide && pass.has_value) {
		text_format(&row, "<b style=\"left:%.1f%%\"></b>", (pass.value - left) * scale);
	}
	require_equal(occurrences(page, row.bytes), is_there);
	text_deinit(&low);
	text_deinit(&high);
	text_deinit(&row);
}

/* Why not more: only what is known, and each once. */
static void require_reasons(const struct plan_answer *answer, const char *page)
{
	bool is_alone = answer->alone.requests.has_value && answer->alone.misses.has_value;
	bool is_longest = is_alone && answer->alone.longest_tokens.has_value;

	require_equal(occurrences(page, "<li>What binds: the &lt;first&gt; token</li>"),
		answer->binding_text[0] != '\0');
	require_equal(occurrences(page, "<li>What fails next: it fails</li>"),
		answer->why_not_more[0] != '\0');
	require_equal(occurrences(page, "<li>The trace is short: 2 s</li>"),
		answer->short_trace[0] != '\0');
	require_equal(occurrences(page, "<li>Sessions are squeezed: half</li>"),
		answer->early_turns[0] != '\0');
	require_equal(occurrences(page, "<li>The router has nothing to go by: no ids</li>"),
		answer->router_note[0] != '\0');
	require_equal(occurrences(page, "One request at a time, "), is_alone);
	require_equal(occurrences(page, "no number of GPUs helps"),
		is_alone && answer->alone.misses.value > 0);
	require_equal(occurrences(page, "; the longest prompt has "), is_longest);
	require_equal(
		occurrences(page, "Not every lower load passes: "), answer->stretch_count > 0);
	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		const struct plan_stretch *stretch = &answer->stretches[i];
		struct text text = {0};
		page_load(&text, answer, stretch->from);
		if (stretch->to > stretch->from) {
			text_add(&text, " to ");
			page_load(&text, answer, stretch->to);
		}
		text_add(&text, i + 1 < answer->stretch_count ? " fails; " : " fails.</li>");
		require_has(page, text.bytes);
		text_deinit(&text);
	}
}

static void body_answer(struct prop *prop, const void *context)
{
	const struct page_sheet sheet = {.style = "", .script = ""};
	struct drawn_plan drawn;
	struct text page = {0};
	struct error error = {0};
	cJSON *summary = cJSON_CreateObject();

	(void)context;
	draw_plan(prop, &drawn);
	drawn.plan.root.node = summary;
	drawn.plan.directory = drawn.plan.trace_name = "chat";
	drawn.plan.made_by = prop_chance(prop, 1, 2) ? "" : "quire trace make <1>";
	drawn.plan.slo_text = "";
	drawn.plan.is_complete = prop_chance(prop, 1, 2);
	drawn.plan.is_failed = !drawn.plan.is_complete && prop_chance(prop, 1, 2);
	const struct plan_answer *answer = &drawn.plan.answer;
	struct result_value pass = answer->is_least ? answer->lowest_pass : answer->highest_pass;
	struct result_value fail = answer->is_least ? answer->highest_fail : answer->lowest_fail;
	require(page_plan_write(&page, &drawn.plan, &sheet, &error) == STATUS_OK, "%s", error.text);
	require_bounds(answer, pass, fail, page.bytes);
	require_interval(answer, pass, &answer->sampling.interval, "sampling", page.bytes);
	require_interval(answer, pass, &answer->model.interval, "model", page.bytes);
	require_cards(&drawn.plan, pass.has_value, page.bytes);
	require_reasons(answer, page.bytes);
	require_equal(occurrences(page.bytes, ", made by <code>quire trace make &lt;1&gt;</code>"),
		drawn.plan.made_by[0] != '\0');
	require_equal(occurrences(page.bytes, "role=\"alert\""), !drawn.plan.is_complete);
	require_equal(occurrences(page.bytes, "The search could not go on;"), drawn.plan.is_failed);
	text_deinit(&page);
	cJSON_Delete(summary);
	free_plan(&drawn);
}

/* An answer without some of its values, at the ends of its intervals, or with all of them equal. */
Test(plan_tables, an_answer_says_what_is_known, .timeout = 120)
{
	const struct prop_options options = {
		.name = "answers of a plan", .body = body_answer, .trials = 2000};

	cr_assert(prop_holds(&options));
}
