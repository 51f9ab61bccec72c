#include <criterion/criterion.h>

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/page.h"
#include "reports/page/page_sections.h"
#include "tests/harness/made_result.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Cards, errors and run lines of a page, of drawn results: each figure absent, 0, equal to another,
   at a limit or far beyond one. What is shown is put together again from the figures alone. */

enum { RESULTS_MOST = 3 };

static struct result_value draw_value(struct prop *prop)
{
	static const double values[] = {0, 0, 1, 1, 0.98, 0.99, 1.02, 1.05, 1.1, 12, 4321.5, 1e7};
	uint32_t kind = (uint32_t)prop_below(prop, 14);

	return (struct result_value){.has_value = kind < 12, .value = kind < 12 ? values[kind] : 0};
}

static void draw_result(struct prop *prop, struct result *result, uint32_t index)
{
	static const char *const verdicts[] = {"stable", "backlogged", "overloaded", "unserved"};

	memset(result, 0, sizeof(*result));
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		result->numbers[i] = draw_value(prop);
	}
	for (uint32_t i = 0; i < LATENCY_COUNT * STATISTIC_COUNT; i++) {
		result->latency_ms[i / STATISTIC_COUNT][i % STATISTIC_COUNT] = draw_value(prop);
	}
	result->verdict = verdicts[prop_below(prop, 4)];
	text_format(&result->label, "out/run%u", index);
	text_format(&result->legend, "run%u", index);
}

static void free_result(struct result *result)
{
	cJSON_Delete((cJSON *)result->root.node);
	cJSON_Delete((cJSON *)result->config.node);
	text_deinit(&result->label);
	text_deinit(&result->legend);
}

static void add_value(struct text *out, const struct result *result, enum result_number number)
{
	text_add_number(out, metrics_table[number].format, result->numbers[number].has_value,
		result->numbers[number].value);
}

static void add_ms(struct text *out, struct result_value value)
{
	text_add_number(out, NUMBER_TIME_MS, value.has_value, value.value);
}

static void require_same(const char *found, struct text *expected)
{
	require(strcmp(found, expected->bytes) == 0, "found\n%s\nexpected\n%s", found,
		expected->bytes);
	text_deinit(expected);
}

/* ---- the cards of one result ---- */

static void expect_slo(struct text *out, const struct result *result)
{
	static const enum result_number limits[] = {VALUE_SLO_TTFT, VALUE_SLO_TPOT, VALUE_SLO_E2E};
	static const char *const words[] = {"TTFT", "TPOT", "E2E"};
	struct result_value attained = result->numbers[VALUE_SLO_ATTAINED];
	bool is_met = attained.has_value && attained.value >= 0.99;
	struct text list = {0};

	for (uint32_t i = 0; i < 3; i++) {
		if (result->numbers[limits[i]].has_value) {
			text_format(
				&list, "%s%s \u2264 ", list.byte_count > 0 ? ", " : "", words[i]);
			add_value(&list, result, limits[i]);
		}
	}
	if (list.byte_count > 0) {
		text_format(out, "<div class=\"card%s\"><dt>Requests within the SLO</dt><dd>",
			!attained.has_value ? ""
			: is_met	    ? " met"
					    : " missed");
		add_value(out, result, VALUE_SLO_ATTAINED);
		text_format(out, "<small>%s: the goal is 99\u00a0%%; %s; goodput ",
			is_met ? "met" : "missed", list.bytes);
		add_value(out, result, VALUE_SLO_GOODPUT);
		text_add(out, " requests/s</small></dd></div>\n");
	}
	text_deinit(&list);
}

/* A latency is within its limit where it is known and not above it. */
static void expect_latency(struct text *out, const struct result *result, const char *title,
	enum latency_metric metric, enum result_number number)
{
	struct result_value limit = result->numbers[number];
	struct result_value p50 = result->latency_ms[metric][STATISTIC_P50];
	struct result_value p99 = result->latency_ms[metric][STATISTIC_P99];
	bool is_judged = limit.has_value && p99.has_value, is_met = p99.value <= limit.value;

	text_format(out, "<div class=\"card%s\"><dt>%s</dt><dd><span class=\"pair\"><span>",
		!is_judged ? ""
		: is_met   ? " met"
			   : " missed",
		title);
	add_ms(out, p50);
	text_add(out, "<small>median</small></span><span>");
	add_ms(out, p99);
	text_add(out, "<small>p99</small></span></span>");
	if (is_judged) {
		text_format(out, "<small>p99 %s the SLO of ", is_met ? "within" : "above");
		add_ms(out, limit);
		text_add(out, "</small>");
	}
	text_add(out, "</dd></div>\n");
}

static void expect_requests(struct text *out, const struct result *result)
{
	static const enum result_number others[] = {VALUE_REJECTED, VALUE_FAILED, VALUE_UNFINISHED};
	static const char *const words[] = {"rejected", "failed", "unfinished"};

	text_add(out, "<div class=\"card\"><dt>Output throughput</dt><dd>");
	add_value(out, result, VALUE_OUTPUT_RATE);
	text_add(out, "<small>tokens/s; ");
	add_value(out, result, VALUE_REQUEST_RATE);
	text_add(out, " requests/s</small></dd></div>\n"
		      "<div class=\"card\"><dt>Requests finished</dt><dd>");
	add_value(out, result, VALUE_FINISHED);
	text_add(out, "<small>of ");
	add_value(out, result, VALUE_SUBMITTED);
	for (uint32_t i = 0; i < 3; i++) {
		if (result->numbers[others[i]].value > 0) {
			text_add(out, "; <em>");
			add_value(out, result, others[i]);
			text_format(out, " %s</em>", words[i]);
		}
	}
	text_add(out, "</small></dd></div>\n");
}

static void expect_use(struct text *out, const struct result *result, bool is_mean)
{
	bool is_beyond = result->numbers[VALUE_SEATS_PEAK].value > 1;

	text_add(out, "<div class=\"card\"><dt>Utilisation</dt><dd>");
	add_value(out, result, VALUE_UTILISATION);
	text_add(out, "<small>of what the engine can carry; at most ");
	add_value(out, result, VALUE_KV_PEAK);
	text_add(out, " of the KV blocks, ");
	add_value(out, result, VALUE_SEATS_PEAK);
	text_format(out, " of the seats%s%s</small></dd></div>\n",
		is_mean ? " of an average replica" : "",
		is_beyond ? ", which limit a step and not what runs" : "");
	if (result->numbers[VALUE_HIT_RATE].has_value) {
		bool is_one = (uint64_t)result->numbers[VALUE_QUERY_TOKENS].value == 1;
		text_add(out, "<div class=\"card\"><dt>Prefix-cache hit rate</dt><dd>");
		add_value(out, result, VALUE_HIT_RATE);
		text_add(out, "<small>of ");
		add_value(out, result, VALUE_QUERY_TOKENS);
		text_format(out, " prompt token%s</small></dd></div>\n", is_one ? "" : "s");
	}
	if (result->numbers[VALUE_PREEMPTIONS].value > 0) {
		bool is_one = (uint64_t)result->numbers[VALUE_RECOMPUTED].value == 1;
		text_add(out, "<div class=\"card\"><dt>Preemptions</dt><dd>");
		add_value(out, result, VALUE_PREEMPTIONS);
		text_add(out, "<small>");
		add_value(out, result, VALUE_RECOMPUTED);
		text_format(out, " token%s recomputed</small></dd></div>\n", is_one ? "" : "s");
	}
}

static void body_cards(struct prop *prop, const void *context)
{
	struct text page = {0}, expected = {0};
	struct result result;

	(void)context;
	draw_result(prop, &result, 0);
	uint32_t fleet = (uint32_t)prop_below(prop, 3);
	cJSON *config = cJSON_CreateObject();
	if (fleet > 0) {
		cJSON_AddStringToObject(config, "fleet", fleet == 1 ? "none" : "f.tsv");
	}
	result.config.node = config;
	page_cards(&page, &result);
	text_add(&expected, "<section aria-label=\"Key figures\">\n<dl class=\"cards\">\n");
	expect_slo(&expected, &result);
	expect_latency(&expected, &result, "Time to first token", LATENCY_TTFT, VALUE_SLO_TTFT);
	expect_latency(&expected, &result, "Time per output token", LATENCY_TPOT, VALUE_SLO_TPOT);
	expect_latency(&expected, &result, "End-to-end latency", LATENCY_E2E, VALUE_SLO_E2E);
	expect_requests(&expected, &result);
	expect_use(&expected, &result, fleet == 2);
	text_add(&expected, "</dl>\n</section>\n");
	require_same(page.bytes, &expected);
	text_deinit(&page);
	free_result(&result);
}

Test(drawn_cards, of_one_result)
{
	const struct prop_options options = {.name = "cards", .body = body_cards, .trials = 600};

	cr_assert(prop_holds(&options));
}

/* ---- errors ---- */

/* An error and its bar, of two figures. */
static void expect_error(struct text *out, struct result_value real, struct result_value sim)
{
	bool has_both = real.has_value && sim.has_value;
	bool is_from_zero = has_both && real.value <= 0 && sim.value > 0;
	double error = has_both && real.value > 0 ? sim.value / real.value - 1 : 0;
	double size = is_from_zero ? 1 : fabs(error);
	const char *word = !has_both	  ? "none"
			   : size <= 0.02 ? "good"
			   : size <= 0.05 ? "fair"
					  : "poor";
	double width = 50 * (size < 0.1 ? size / 0.1 : 1);

	text_format(out, "<strong class=\"error %s\">", word);
	if (is_from_zero) {
		text_add(out, "from 0");
	} else if (!has_both) {
		text_add(out, "\u2013");
	} else if (size <= 0) {
		text_add(out, "equal");
	} else if (error >= 10) {
		text_format(out, "\u00d7%.1f", error + 1);
	} else {
		text_format(out, "%+.2f %%", error * 100);
	}
	text_format(out,
		"</strong><span class=\"bar %s\"><i style=\"left:%.1f%%;width:%.1f%%\"></i></span>",
		word, error < 0 ? 50 - width : 50.0, width);
}

static void expect_pair(struct text *out, enum number_format format, struct result_value real,
	struct result_value sim, const char *between)
{
	text_add_number(out, format, real.has_value, real.value);
	text_add(out, between);
	text_add_number(out, format, sim.has_value, sim.value);
}

static void expect_error_card(struct text *out, const char *title, enum number_format format,
	struct result_value real, struct result_value sim)
{
	if (real.value > 0 || sim.value > 0) {
		text_format(out, "<div class=\"card\"><dt>%s</dt><dd>", title);
		expect_error(out, real, sim);
		text_add(out, "<small>");
		expect_pair(out, format, real, sim, " real, ");
		text_add(out, " simulated</small></dd></div>\n");
	}
}

static void expect_error_cards(
	struct text *out, const struct result *real, const struct result *sim)
{
	static const struct {
		enum result_number number;
		const char *title;
	} before[] = {{VALUE_OUTPUT_RATE, "Output tokens/s"}, {VALUE_MAKESPAN, "Makespan"}},
	  behind[] = {{VALUE_HIT_RATE, "Prefix-cache hit rate"}, {VALUE_PREEMPTIONS, "Preemptions"},
		  {VALUE_STEPS, "Steps"}};
	static const struct {
		enum latency_metric metric;
		const char *title;
	} latencies[] = {{LATENCY_TTFT, "Time to first token, mean"},
		{LATENCY_TPOT, "Time per output token, mean"},
		{LATENCY_E2E, "End-to-end latency, mean"}};

	text_add(out, "<dl class=\"cards\">\n");
	for (uint32_t i = 0; i < 2; i++) {
		enum result_number number = before[i].number;
		expect_error_card(out, before[i].title, metrics_table[number].format,
			real->numbers[number], sim->numbers[number]);
	}
	for (uint32_t i = 0; i < 3; i++) {
		expect_error_card(out, latencies[i].title, NUMBER_TIME_MS,
			real->latency_ms[latencies[i].metric][STATISTIC_MEAN],
			sim->latency_ms[latencies[i].metric][STATISTIC_MEAN]);
	}
	for (uint32_t i = 0; i < 3; i++) {
		enum result_number number = behind[i].number;
		expect_error_card(out, behind[i].title, metrics_table[number].format,
			real->numbers[number], sim->numbers[number]);
	}
	text_add(out, "</dl>\n");
}

static void expect_error_latencies(
	struct text *out, const struct result *real, const struct result *sim)
{
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		text_format(out, "<tr><th scope=\"row\">%s</th>", latency_titles[i]);
		for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
			if (latency_is_main[j]) {
				text_add(out, "<td>");
				expect_error(out, real->latency_ms[i][j], sim->latency_ms[i][j]);
				text_add(out, "<small>");
				expect_pair(out, NUMBER_TIME_MS, real->latency_ms[i][j],
					sim->latency_ms[i][j], " \u2192 ");
				text_add(out, "</small></td>");
			}
		}
		text_add(out, "</tr>\n");
	}
	text_add(out, "</tbody>");
}

/* Only figures that both have. */
static void expect_count(struct text *out, const char *title, enum number_format format,
	struct result_value real, struct result_value sim)
{
	if (real.has_value && sim.has_value) {
		text_format(out, "<tr><th scope=\"row\">%s</th><td>", title);
		expect_pair(out, format, real, sim, "</td><td>");
		text_add(out, "</td><td>");
		expect_error(out, real, sim);
		text_add(out, "</td></tr>\n");
	}
}

static struct result_value draw_blocks(struct prop *prop, cJSON *object, const char *field)
{
	uint32_t kind = (uint32_t)prop_below(prop, 5);
	struct result_value value = {.has_value = kind < 3, .value = kind * 1000.0};

	if (value.has_value) {
		cJSON_AddNumberToObject(object, field, value.value);
	} else if (kind == 3) {
		cJSON_AddNumberToObject(object, field, -1);
	}
	value.value = value.has_value ? value.value : 0;
	return value;
}

static void expect_counts(struct text *out, const struct result *results,
	const struct result_value *blocks, const struct result_value *found)
{
	static const enum result_number numbers[] = {VALUE_OUTPUT_RATE, VALUE_REQUEST_RATE,
		VALUE_MAKESPAN, VALUE_BUSY, VALUE_HIT_RATE, VALUE_HIT_TOKENS, VALUE_PREEMPTIONS,
		VALUE_RECOMPUTED, VALUE_STEPS};
	const char *one = results[0].verdict, *other = results[1].verdict;

	text_format(out,
		"<tr><th scope=\"row\">Verdict</th><td><span class=\"chip %s\">%s</span></td><td>"
		"<span class=\"chip %s\">%s</span></td><td>%s</td></tr>\n",
		one, one, other, other, strcmp(one, other) == 0 ? "equal" : "differs");
	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const struct metric *metric = &metrics_table[numbers[i]];
		expect_count(out, metric->title, metric->format, results[0].numbers[numbers[i]],
			results[1].numbers[numbers[i]]);
	}
	expect_count(out, "KV blocks of the run", NUMBER_COUNT, blocks[0], blocks[1]);
	expect_count(out, "KV blocks found and estimated", NUMBER_COUNT, found[0], found[1]);
	text_add(out, "</tbody>");
}

/* The text from `begin` on up to the end of what is expected. */
static void require_part(const char *page, const char *begin, struct text *expected)
{
	const char *at = strstr(page, begin);

	require(at != NULL, "no %s", begin);
	require(strncmp(at, expected->bytes, expected->byte_count) == 0,
		"found\n%.*s\nexpected\n%s", (int)expected->byte_count + 200, at, expected->bytes);
	text_deinit(expected);
}

static void body_errors(struct prop *prop, const void *context)
{
	struct result results[2];
	struct result_value blocks[2], found[2];
	struct text page = {0}, expected = {0};

	(void)context;
	for (uint32_t i = 0; i < 2; i++) {
		draw_result(prop, &results[i], i);
		cJSON *config = cJSON_CreateObject(), *root = cJSON_CreateObject();
		cJSON_AddStringToObject(config, "runner", i == 0 ? "cuda" : "sim");
		blocks[i] = draw_blocks(prop, config, "kv_blocks");
		found[i] = draw_blocks(prop, root, SUMMARY_FOUND_KV_BLOCKS);
		results[i].config.node = config;
		results[i].root.node = root;
	}
	const struct fidelity fidelity = {.real = &results[0], .sim = &results[1]};
	page_fidelity(&page, &fidelity);
	expect_error_cards(&expected, &results[0], &results[1]);
	require_part(page.bytes, "<dl class=\"cards\">", &expected);
	expect_error_latencies(&expected, &results[0], &results[1]);
	require_part(strstr(page.bytes, "<tbody>"), "<tr>", &expected);
	expect_counts(&expected, results, blocks, found);
	require_part(page.bytes, "<tr><th scope=\"row\">Verdict", &expected);
	text_deinit(&page);
	free_result(&results[0]);
	free_result(&results[1]);
}

Test(drawn_cards, of_errors)
{
	const struct prop_options options = {.name = "errors", .body = body_errors, .trials = 400};

	cr_assert(prop_holds(&options));
}

/* ---- the line of a run ---- */

static void add_optional(struct prop *prop, cJSON *object, const char *field, double *value)
{
	uint32_t kind = (uint32_t)prop_below(prop, 5);

	*value = kind < 3 ? kind : 0;
	if (kind < 3) {
		cJSON_AddNumberToObject(object, field, *value);
	} else if (kind == 3) {
		cJSON_AddNullToObject(object, field);
	}
}

/* Returns what the page says of it: `escaped`, which is `text` as HTML has it, or "?". */
static const char *add_text(
	struct prop *prop, cJSON *object, const char *field, const char *text, const char *escaped)
{
	if (prop_chance(prop, 1, 6)) {
		return "?";
	}
	cJSON_AddStringToObject(object, field, text);
	return escaped;
}

static void add_s(struct text *out, double value)
{
	text_add_number(out, NUMBER_TIME_S, true, value);
}

/* What is measured is told where something is left out, at either end. */
static void draw_window(struct prop *prop, cJSON *root, struct text *out)
{
	cJSON *window = cJSON_AddObjectToObject(root, "window");
	cJSON *trace = cJSON_AddObjectToObject(root, SUMMARY_TRACE);
	double warmup, cooldown, start, end, ran_out;

	add_optional(prop, window, "warmup_requests", &warmup);
	add_optional(prop, window, "cooldown_requests", &cooldown);
	add_optional(prop, window, "start_s", &start);
	add_optional(prop, window, "end_s", &end);
	add_optional(prop, trace, "ran_out_s", &ran_out);
	if (warmup > 0 || cooldown > 0) {
		text_add(out, "; measured from ");
		add_s(out, start);
		text_add(out, " to ");
		add_s(out, end);
		text_format(out, ", without %.0f request%s of the warm-up and %.0f of the cooldown",
			warmup, warmup == 1 ? "" : "s", cooldown);
	}
	if (ran_out > 0) {
		text_add(out, " <span class=\"badge\">the trace ran out at ");
		add_s(out, ran_out);
		text_add(out, "</span>");
	}
}

/* The GPUs: of a fleet of groups its file, else how many and which. */
static void draw_machine(struct prop *prop, cJSON *config, struct text *out)
{
	uint32_t fleet = (uint32_t)prop_below(prop, 3);
	double ranks;

	if (fleet > 0) {
		cJSON_AddStringToObject(config, "fleet", fleet == 1 ? "none" : "f.tsv");
	}
	add_optional(prop, config, "tensor_parallel_size", &ranks);
	const char *gpu = add_text(prop, config, "gpu", "h<200", "h&lt;200");
	if (fleet == 2) {
		text_add(out, "the replicas of f.tsv");
	} else {
		text_format(out, ranks > 1 ? "%.0f \u00d7 " : "", ranks);
		text_add(out, gpu);
	}
}

static void body_line(struct prop *prop, const void *context)
{
	struct result result;
	struct text page = {0}, expected = {0}, machine = {0}, window = {0};
	cJSON *config = cJSON_CreateObject(), *root = cJSON_CreateObject();

	(void)context;
	draw_result(prop, &result, 0);
	result.config.node = config;
	result.root.node = root;
	result.trace_name = "a<b";
	result.trace_xxh64 = "00";
	result.is_calibrated = prop_chance(prop, 1, 2);
	text_add(&machine, "");
	text_add(&window, "");
	const char *model = add_text(prop, config, "model", "q&3", "q&amp;3");
	const char *runner = add_text(prop, config, "runner", "s>m", "s&gt;m");
	const char *policy = add_text(prop, config, "policy", "<b>", "&lt;b&gt;");
	draw_machine(prop, config, &machine);
	draw_window(prop, root, &window);
	struct result_value requests = result.numbers[VALUE_TRACE_REQUESTS];
	text_format(&expected,
		"<p class=\"run\"><strong>%s</strong> on <strong>%s</strong> (runner %s, policy "
		"%s), "
		"trace <strong>a&lt;b</strong> of ",
		model, machine.bytes, runner, policy);
	text_add_number(&expected, NUMBER_COUNT, requests.has_value, requests.value);
	text_format(
		&expected, " request%s%s", (uint64_t)requests.value == 1 ? "" : "s", window.bytes);
	text_add(&expected, result.is_calibrated ? "</p>\n" : " <span class=\"badge\" title=");
	page_head(&page, &result, 1, false, "");
	require_part(page.bytes, "<p class=\"run\">", &expected);
	text_deinit(&machine);
	text_deinit(&window);
	text_deinit(&page);
	free_result(&result);
}

Test(drawn_cards, of_the_line_of_a_run)
{
	const struct prop_options options = {
		.name = "line of a run", .body = body_line, .trials = 600};

	cr_assert(prop_holds(&options));
}

/* ---- names and lines of runs ---- */

static const char *const settings[] = {"max_num_seqs", "seed", "router_view", "warmup"};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

/* Of each run: -1: it lacks the setting, 0: null, else the value. */
struct drawn_runs {
	uint32_t count;
	int values[RESULTS_MOST][SETTINGS];
};

static void draw_runs(struct prop *prop, struct drawn_runs *runs, struct result *results)
{
	runs->count = prop_range(prop, 1, RESULTS_MOST);
	for (uint32_t k = 0; k < runs->count; k++) {
		cJSON *config = cJSON_CreateObject();
		draw_result(prop, &results[k], k);
		text_deinit(&results[k].legend);
		results[k].config.node = config;
		results[k].trace_xxh64 = prop_chance(prop, 1, 8) ? "ab" : "cd";
		results[k].trace_name = prop_chance(prop, 1, 2) ? "chat" : "code";
		for (uint32_t i = 0; i < SETTINGS; i++) {
			int value = prop_chance(prop, 1, 6) ? -1 : (int)prop_below(prop, 3);
			runs->values[k][i] = value;
			if (value == 0) {
				cJSON_AddNullToObject(config, settings[i]);
			} else if (value > 0 && i == 2) {
				cJSON_AddStringToObject(
					config, settings[i], value == 1 ? "own" : "exact");
			} else if (value > 0) {
				cJSON_AddNumberToObject(config, settings[i], value);
			}
		}
	}
}

/* A setting that one of two runs lacks is no difference between them. */
static bool differs(const struct drawn_runs *runs, uint32_t setting)
{
	for (uint32_t k = 1; k < runs->count; k++) {
		int first = runs->values[0][setting], other = runs->values[k][setting];
		if (first >= 0 && other >= 0 && first != other) {
			return true;
		}
	}
	return false;
}

static void expect_differences(const struct drawn_runs *runs, uint32_t run, struct text *out)
{
	static const char *const options[] = {"max-num-seqs", "seed", "router-view", "warmup"};

	text_add(out, "");
	for (uint32_t i = 0; i < SETTINGS; i++) {
		int value = runs->values[run][i];
		if (!differs(runs, i)) {
			continue;
		}
		text_format(out, "%s%s ", out->byte_count > 0 ? ", " : "", options[i]);
		if (value <= 0) {
			text_add(out, "none");
		} else if (i == 2) {
			text_add(out, value == 1 ? "own" : "exact");
		} else {
			text_format(out, "%d", value);
		}
	}
	text_add(out, out->byte_count == 0 ? "no setting differs" : "");
}

static void body_runs(struct prop *prop, const void *context)
{
	struct result results[RESULTS_MOST];
	struct drawn_runs runs;

	(void)context;
	draw_runs(prop, &runs, results);
	for (uint32_t i = 0; i < SETTINGS; i++) {
		require_equal(
			page_setting_differs(results, runs.count, settings[i]), differs(&runs, i));
	}
	page_name_runs(results, runs.count, false);
	for (uint32_t k = 0; k < runs.count; k++) {
		struct text page = {0}, expected = {0}, whole = {0};
		const char *name = results[k].legend.bytes;
		for (uint32_t j = 0; j < k; j++) {
			require(strcmp(name, results[j].legend.bytes) != 0, "two are %s", name);
		}
		expect_differences(&runs, k, &expected);
		/* What its name says already is not said again. */
		text_format(&whole, "%s%sfolder out/run%u",
			strcmp(expected.bytes, name) == 0 ? "" : expected.bytes,
			strcmp(expected.bytes, name) == 0 ? "" : "; ", k);
		page_run_differences(&page, results, runs.count, k);
		require_same(page.bytes, &whole);
		/* Settings come before folders, but need to tell all runs apart. */
		bool is_folder = strcmp(name, results[k].label.bytes) == 0;
		bool is_trace = strncmp(name, results[k].trace_name, 4) == 0;
		require(is_folder || is_trace || strncmp(expected.bytes, name, strlen(name)) == 0,
			"%s is called %s", expected.bytes, name);
		require(is_folder || is_trace == page_traces_differ(results, runs.count),
			"%s of traces that %s", name, is_trace ? "are one" : "differ");
		text_deinit(&page);
		text_deinit(&expected);
	}
	for (uint32_t k = 0; k < runs.count; k++) {
		free_result(&results[k]);
	}
}

Test(drawn_cards, of_runs_that_differ)
{
	const struct prop_options options = {
		.name = "run differences", .body = body_runs, .trials = 600};

	cr_assert(prop_holds(&options));
}
