#include "reports/page/page.h"

#include "engine/base/check.h"
#include "reports/page/page_fidelity.h"
#include "reports/figures/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces ---- */

static void add_value(struct text *page, const struct result *result, enum result_number number)
{
	const struct result_value *value = &result->numbers[number];

	text_add_number(page, result_number_rows[number].format, value->has_value, value->value);
}

/* What a result is called, with the dot of its color. */
static void add_name(struct text *page, const struct result *result, uint32_t index)
{
	text_format(page, "<span class=\"name run-%u\">", index + 1);
	text_add_escaped(page, result->label.bytes);
	text_add(page, "</span>");
}

static void add_config_text(struct text *page, const struct result *result, const char *field)
{
	const cJSON *node = json_find(&result->config, field);

	text_add_escaped(page, cJSON_IsString(node) ? node->valuestring : "?");
}

/* A JSON value as a person reads it. */
static void add_json(struct text *page, const cJSON *node)
{
	if (node == NULL || cJSON_IsNull(node)) {
		text_add(page, "\u2013");
		return;
	}
	if (cJSON_IsString(node)) {
		text_add_escaped(page, node->valuestring);
		return;
	}
	char *printed = cJSON_PrintUnformatted(node);
	check(printed != NULL);
	text_add_escaped(page, printed);
	cJSON_free(printed);
}

static bool is_named(const char *word, const char *name)
{
	return strcmp(word, name) == 0;
}

static const char *verdict_meaning(const char *verdict)
{
	if (is_named(verdict, "stable")) {
		return "The engine kept up with what arrived.";
	}
	if (is_named(verdict, "backlogged")) {
		return "Waiting dominates: many requests were still queued when the last one "
		       "arrived, "
		       "or they queued longer than they were served.";
	}
	return "More arrived than could be served: the queue grew to the end, so latencies grow "
	       "with "
	       "the length of the trace and only the throughput describes the engine.";
}

/* ---- head ---- */

static void add_title(
	struct text *page, const struct result *results, uint32_t count, bool is_fidelity)
{
	if (count == 1) {
		text_add_escaped(page, results[0].label.bytes);
	} else if (is_fidelity) {
		text_add(page, "Simulated against real");
	} else {
		text_format(page, "%u replays compared", count);
	}
}

static void add_head(struct text *page, const struct result *results, uint32_t count,
	bool is_fidelity, const char *style)
{
	text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		       "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
	add_title(page, results, count, is_fidelity);
	text_add(page, count == 1 ? " \u2013 replay report" : "");
	text_add(page, "</title>\n<style>\n");
	text_add(page, style);
	text_add(page, "</style>\n</head>\n<body>\n<header>\n<p class=\"kind\">quire replay report"
		       "</p>\n<h1>");
	add_title(page, results, count, is_fidelity);
	text_add(page, "</h1>\n");
}

/* A profile has a name in the configuration. What a GPU that computed is called is a matter of the
   machine, so it stands in the provenance. */
static void add_gpu(struct text *page, const struct result *result)
{
	const struct json_object provenance = {.node = result->provenance.root};
	const cJSON *device = provenance.node != NULL ? json_find(&provenance, "device") : NULL;

	if (cJSON_IsString(device)) {
		text_add_escaped(page, device->valuestring);
	} else {
		add_config_text(page, result, "gpu");
	}
}

/* What ran, in a line. */
static void add_run_line(struct text *page, const struct result *result)
{
	text_add(page, "<strong>");
	add_config_text(page, result, "model");
	text_add(page, "</strong> on <strong>");
	add_gpu(page, result);
	text_add(page, "</strong> (runner ");
	add_config_text(page, result, "runner");
	text_add(page, ", policy ");
	add_config_text(page, result, "policy");
	text_add(page, "), trace <strong>");
	text_add_escaped(page, result->trace_name);
	text_add(page, "</strong> of ");
	add_value(page, result, VALUE_TRACE_REQUESTS);
	text_add(page, result->numbers[VALUE_TRACE_REQUESTS].value == 1 ? " request" : " requests");
	if (!result->is_calibrated) {
		text_add(page,
			" <span class=\"badge\" title=\"The times come from a cost model that "
			"was not held against a run on this GPU.\">uncalibrated</span>");
	}
}

static void add_run_lines(struct text *page, const struct result *results, uint32_t count)
{
	if (count == 1) {
		text_add(page, "<p class=\"run\">");
		add_run_line(page, &results[0]);
		text_add(page, "</p>\n");
		return;
	}
	text_add(page, "<ol class=\"runs\">\n");
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<li>");
		add_name(page, &results[i], i);
		text_add(page, ": ");
		add_run_line(page, &results[i]);
		text_add(page, "</li>\n");
	}
	text_add(page, "</ol>\n");
}

static void add_banners(struct text *page, const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct result *result = &results[i];
		if (is_named(result->status, "complete")) {
			continue;
		}
		text_format(page, "<p class=\"banner\" role=\"alert\"><strong>%s</strong> ",
			result->status);
		if (count > 1) {
			add_name(page, result, i);
			text_add(page, ": ");
		}
		if (is_named(result->status, "failed")) {
			text_add(page, "The run broke off, and all figures end there: ");
			text_add_escaped(page, result->failure);
		} else {
			text_add(page, "The run was stopped by hand; all figures describe the part "
				       "before that.");
		}
		text_add(page, "</p>\n");
	}
}

static void add_calibration(struct text *page, const struct result *results, uint32_t count)
{
	bool is_calibrated = true;

	for (uint32_t i = 0; i < count; i++) {
		is_calibrated = is_calibrated && results[i].is_calibrated;
	}
	if (!is_calibrated) {
		text_add(page, "<p class=\"caution\"><span class=\"badge\">uncalibrated</span> The "
			       "times come from a cost model that was not held against a run on "
			       "this GPU: scheduling, cache hits and counts are exact for these "
			       "times, the times themselves are an estimate.</p>\n");
	}
}

/* ---- one result: verdict and cards ---- */

static void add_verdict(struct text *page, const struct result *result)
{
	text_format(page,
		"<section class=\"verdict %s\" aria-label=\"Verdict\">\n<p><strong>%s</strong> ",
		result->verdict, result->verdict);
	text_add(page, verdict_meaning(result->verdict));
	text_add(page, "</p>\n<p class=\"facts\">");
	if (result->numbers[VALUE_OFFERED_RATE].has_value) {
		add_value(page, result, VALUE_OFFERED_RATE);
		text_add(page, " requests/s offered, ");
		add_value(page, result, VALUE_REQUEST_RATE);
		text_add(page, " finished; ");
	}
	add_value(page, result, VALUE_BACKLOG);
	text_add(page, " waiting when the last one arrived, ");
	add_value(page, result, VALUE_DRAIN);
	text_add(page, " from then to the last finish.</p>\n</section>\n");
}

static void open_card(struct text *page, const char *title)
{
	text_format(page, "<div class=\"card\"><dt>%s</dt><dd>", title);
}

static void close_card(struct text *page)
{
	text_add(page, "</dd></div>\n");
}

static void add_latency_card(
	struct text *page, const struct result *result, const char *title, uint32_t metric)
{
	const struct result_value *values = result->latency_ms[metric];
	const struct result_value *middle = &values[STATISTIC_P50];
	const struct result_value *tail = &values[STATISTIC_P99];

	open_card(page, title);
	text_add_number(page, NUMBER_TIME_MS, middle->has_value, middle->value);
	text_add(page, "<small>median; p99 ");
	text_add_number(page, NUMBER_TIME_MS, tail->has_value, tail->value);
	text_add(page, "</small>");
	close_card(page);
}

static void add_request_card(struct text *page, const struct result *result)
{
	static const struct {
		enum result_number number;
		const char *word;
	} others[] = {{VALUE_REJECTED, "rejected"}, {VALUE_FAILED, "failed"},
		{VALUE_UNFINISHED, "unfinished"}};

	open_card(page, "Requests finished");
	add_value(page, result, VALUE_FINISHED);
	text_add(page, "<small>of ");
	add_value(page, result, VALUE_SUBMITTED);
	for (uint32_t i = 0; i < 3; i++) {
		if (result->numbers[others[i].number].value > 0) {
			text_add(page, "; <em>");
			add_value(page, result, others[i].number);
			text_format(page, " %s</em>", others[i].word);
		}
	}
	text_add(page, "</small>");
	close_card(page);
}

static void add_slo_card(struct text *page, const struct result *result)
{
	const struct result_value *ttft = &result->numbers[VALUE_SLO_TTFT];
	const struct result_value *tpot = &result->numbers[VALUE_SLO_TPOT];

	if (!ttft->has_value && !tpot->has_value) {
		return;
	}
	open_card(page, "Within the SLO");
	add_value(page, result, VALUE_SLO_ATTAINED);
	text_add(page, "<small>");
	if (ttft->has_value) {
		text_add(page, "TTFT \u2264 ");
		add_value(page, result, VALUE_SLO_TTFT);
	}
	if (tpot->has_value) {
		text_add(page, ttft->has_value ? ", TPOT \u2264 " : "TPOT \u2264 ");
		add_value(page, result, VALUE_SLO_TPOT);
	}
	text_add(page, "; goodput ");
	add_value(page, result, VALUE_SLO_GOODPUT);
	text_add(page, " requests/s</small>");
	close_card(page);
}

static void add_cards(struct text *page, const struct result *result)
{
	text_add(page, "<section aria-label=\"Key figures\">\n<dl class=\"cards\">\n");
	open_card(page, "Output throughput");
	add_value(page, result, VALUE_OUTPUT_RATE);
	text_add(page, "<small>tokens/s; ");
	add_value(page, result, VALUE_REQUEST_RATE);
	text_add(page, " requests/s</small>");
	close_card(page);
	add_latency_card(page, result, "Time to first token", METRIC_TTFT);
	add_latency_card(page, result, "Time per output token", METRIC_TPOT);
	add_latency_card(page, result, "End-to-end latency", METRIC_E2E);
	add_request_card(page, result);
	open_card(page, "Prefix-cache hit rate");
	add_value(page, result, VALUE_HIT_RATE);
	text_add(page, "<small>of ");
	add_value(page, result, VALUE_QUERY_TOKENS);
	text_add(page, " prompt tokens</small>");
	close_card(page);
	open_card(page, "Preemptions");
	add_value(page, result, VALUE_PREEMPTIONS);
	text_add(page, "<small>");
	add_value(page, result, VALUE_RECOMPUTED);
	text_add(page, " tokens recomputed</small>");
	close_card(page);
	open_card(page, "Busy share");
	add_value(page, result, VALUE_BUSY_SHARE);
	text_add(page, "<small>");
	add_value(page, result, VALUE_STEPS);
	text_add(page, " steps in ");
	add_value(page, result, VALUE_MAKESPAN);
	text_add(page, "</small>");
	close_card(page);
	add_slo_card(page, result);
	text_add(page, "</dl>\n</section>\n");
}

/* ---- tables ---- */

static void open_table(struct text *page, const char *id, const char *title, const char *note)
{
	text_format(page, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
	if (note != NULL) {
		text_format(page, "<p class=\"note\">%s</p>\n", note);
	}
	text_add(page, "<div class=\"scroll\">\n<table>\n");
}

static void close_table(struct text *page)
{
	text_add(page, "</tbody>\n</table>\n</div>\n</section>\n");
}

/* The head of a table with a column for each result. */
static void add_result_columns(
	struct text *page, const struct result *results, uint32_t count, const char *corner)
{
	text_format(page, "<thead><tr><th scope=\"col\">%s</th>", corner);
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<th scope=\"col\">");
		if (count == 1) {
			text_add(page, "Value");
		} else {
			add_name(page, &results[i], i);
		}
		text_add(page, "</th>");
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
}

/* A cell: the value, and how far it is from the first result's. */
static void add_cell(struct text *page, enum number_format format, int better,
	const struct result_value *first, const struct result_value *value)
{
	text_add(page, "<td>");
	text_add_number(page, format, value->has_value, value->value);
	if (first != NULL && first->has_value && value->has_value) {
		/* What rounds to nothing is neither better nor worse. */
		double difference = (value->value - first->value) * better;
		difference = fabs(difference) < 0.0005 * fabs(first->value) ? 0 : difference;
		text_format(page, " <span class=\"difference%s\">",
			difference > 0	 ? " better"
			: difference < 0 ? " worse"
					 : "");
		text_add_difference(page, format, &first->value, &value->value);
		text_add(page, "</span>");
	}
	text_add(page, "</td>");
}

static void add_number_row(
	struct text *page, const struct result *results, uint32_t count, enum result_number number)
{
	const struct result_number_row *row = &result_number_rows[number];
	bool has_any = false;

	for (uint32_t i = 0; i < count; i++) {
		has_any = has_any || results[i].numbers[number].has_value;
	}
	if (!has_any && row->is_optional) {
		return; /* no SLO was set, a closed loop offers no rate */
	}
	text_format(page, "<tr><th scope=\"row\">%s</th>", row->title);
	for (uint32_t i = 0; i < count; i++) {
		add_cell(page, row->format, row->better,
			i == 0 ? NULL : &results[0].numbers[number], &results[i].numbers[number]);
	}
	text_add(page, "</tr>\n");
}

static void add_latency_row(struct text *page, const struct result *results, uint32_t count,
	uint32_t metric, uint32_t statistic, const char *title)
{
	text_format(page, "<tr><th scope=\"row\">%s</th>", title);
	for (uint32_t i = 0; i < count; i++) {
		add_cell(page, NUMBER_TIME_MS, -1,
			i == 0 ? NULL : &results[0].latency_ms[metric][statistic],
			&results[i].latency_ms[metric][statistic]);
	}
	text_add(page, "</tr>\n");
}

static void add_verdict_row(struct text *page, const struct result *results, uint32_t count)
{
	text_add(page, "<tr class=\"verdicts\"><th scope=\"row\">Verdict</th>");
	for (uint32_t i = 0; i < count; i++) {
		text_format(page, "<td><span class=\"chip %s\" title=\"%s\">%s</span>",
			results[i].verdict, verdict_meaning(results[i].verdict),
			results[i].verdict);
		if (!is_named(results[i].status, "complete")) {
			text_format(page, " <span class=\"badge\">%s</span>", results[i].status);
		}
		if (!results[i].is_calibrated) {
			text_add(page, " <span class=\"badge\">uncalibrated</span>");
		}
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

/* The key figures of several results side by side. */
static void add_comparison(struct text *page, const struct result *results, uint32_t count)
{
	static const enum result_number numbers[] = {VALUE_OUTPUT_RATE, VALUE_REQUEST_RATE};
	static const enum result_number more[] = {VALUE_HIT_RATE, VALUE_PREEMPTIONS,
		VALUE_BUSY_SHARE, VALUE_OFFERED_RATE, VALUE_BACKLOG, VALUE_DRAIN, VALUE_SUBMITTED,
		VALUE_FINISHED, VALUE_REJECTED, VALUE_FAILED, VALUE_UNFINISHED, VALUE_SLO_ATTAINED,
		VALUE_SLO_GOODPUT};
	static const struct {
		uint32_t metric, statistic;
		const char *title;
	} latencies[] = {{METRIC_TTFT, STATISTIC_P50, "Time to first token, median"},
		{METRIC_TTFT, STATISTIC_P99, "Time to first token, p99"},
		{METRIC_TPOT, STATISTIC_P50, "Time per output token, median"},
		{METRIC_TPOT, STATISTIC_P99, "Time per output token, p99"},
		{METRIC_E2E, STATISTIC_P50, "End-to-end latency, median"},
		{METRIC_E2E, STATISTIC_P99, "End-to-end latency, p99"}};

	open_table(page, "comparison", "Side by side",
		"Differences are relative to the first column; of shares, in points.");
	add_result_columns(page, results, count, "Key figure");
	add_verdict_row(page, results, count);
	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		add_number_row(page, results, count, numbers[i]);
	}
	for (uint32_t i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++) {
		add_latency_row(page, results, count, latencies[i].metric, latencies[i].statistic,
			latencies[i].title);
	}
	for (uint32_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		add_number_row(page, results, count, more[i]);
	}
	close_table(page);
}

/* All latencies: a matrix for one result, rows in groups for several. */
static void add_latency_matrix(struct text *page, const struct result *result)
{
	text_add(page, "<thead><tr><th scope=\"col\">Milliseconds</th>");
	for (uint32_t j = 0; j < LATENCY_STATISTICS; j++) {
		text_format(page, "<th scope=\"col\">%s</th>", latency_statistics[j]);
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < LATENCY_METRICS; i++) {
		text_format(page, "<tr><th scope=\"row\">%s</th>", latency_titles[i]);
		for (uint32_t j = 0; j < LATENCY_STATISTICS; j++) {
			add_cell(page, NUMBER_MS, 0, NULL, &result->latency_ms[i][j]);
		}
		text_add(page, "</tr>\n");
	}
}

static void add_latency_groups(struct text *page, const struct result *results, uint32_t count)
{
	add_result_columns(page, results, count, "Latency");
	for (uint32_t i = 0; i < LATENCY_METRICS; i++) {
		text_format(page,
			"</tbody>\n<tbody>\n<tr class=\"group\"><th scope=\"colgroup\" "
			"colspan=\"%u\">%s</th></tr>\n",
			count + 1, latency_titles[i]);
		for (uint32_t j = 0; j < LATENCY_STATISTICS; j++) {
			add_latency_row(page, results, count, i, j, latency_statistics[j]);
		}
	}
}

static void add_latencies(struct text *page, const struct result *results, uint32_t count)
{
	open_table(page, "latency", "Latency",
		"Finished requests only, from their intended arrival. A dash: no request gave a "
		"value.");
	if (count == 1) {
		add_latency_matrix(page, &results[0]);
	} else {
		add_latency_groups(page, results, count);
	}
	close_table(page);
}

static void add_totals(struct text *page, const struct result *results, uint32_t count)
{
	open_table(page, "totals", "Totals", NULL);
	add_result_columns(page, results, count, "Figure");
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		add_number_row(page, results, count, (enum result_number)i);
	}
	close_table(page);
}

/* ---- configuration and provenance ---- */

/* Is the field in none of the results before `end`? */
static bool is_new_field(const struct json_object *places, uint32_t end, const char *field)
{
	for (uint32_t i = 0; i < end; i++) {
		if (json_find(&places[i], field) != NULL) {
			return false;
		}
	}
	return true;
}

static void add_field_row(
	struct text *page, const struct json_object *places, uint32_t count, const char *field)
{
	const cJSON *first = json_find(&places[0], field);
	bool differs = false;

	for (uint32_t i = 1; i < count; i++) {
		const cJSON *node = json_find(&places[i], field);
		differs = differs ||
			  !(first == NULL ? node == NULL
					  : node != NULL && cJSON_Compare(first, node, true));
	}
	text_add(page,
		differs ? "<tr class=\"differs\"><th scope=\"row\">" : "<tr><th scope=\"row\">");
	text_add_escaped(page, field);
	text_add(page, "</th>");
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<td>");
		add_json(page, json_find(&places[i], field));
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

/* Every field of some objects: a row for each, a column for each object. */
static void add_field_rows(struct text *page, const struct json_object *places, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const cJSON *node = NULL;
		cJSON_ArrayForEach(node, places[i].node)
		{
			if (node->string != NULL && is_new_field(places, i, node->string)) {
				add_field_row(page, places, count, node->string);
			}
		}
	}
}

static void add_text_row(struct text *page, const struct result *results, uint32_t count,
	const char *title, const char *(*text_of)(const struct result *result))
{
	text_format(page, "<tr><th scope=\"row\">%s</th>", title);
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<td>");
		text_add_escaped(page, text_of(&results[i]));
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

static const char *trace_hash_of(const struct result *result)
{
	return result->trace_xxh64;
}

static const char *result_hash_of(const struct result *result)
{
	return result->result_hash;
}

static const char *trace_name_of(const struct result *result)
{
	return result->trace_name;
}

static void add_fields(struct text *page, const struct result *results, uint32_t count)
{
	struct json_object places[8];

	check(count <= 8);
	open_table(page, "configuration", "Configuration",
		count > 1
			? "Everything that decides a result; rows in which the results differ are "
			  "marked."
			: "Everything that decides the result.");
	add_result_columns(page, results, count, "Setting");
	for (uint32_t i = 0; i < count; i++) {
		places[i] = results[i].config;
	}
	add_field_rows(page, places, count);
	close_table(page);

	open_table(page, "provenance", "Provenance",
		"Equal result hashes mean equal decisions, step by step.");
	add_result_columns(page, results, count, "Origin");
	add_text_row(page, results, count, "trace", trace_name_of);
	add_text_row(page, results, count, "trace hash (XXH64)", trace_hash_of);
	add_text_row(page, results, count, "result hash", result_hash_of);
	for (uint32_t i = 0; i < count; i++) {
		places[i] = (struct json_object){.node = results[i].provenance.root};
	}
	add_field_rows(page, places, count);
	close_table(page);
}

/* ---- figures ---- */

static void add_legend(struct text *page, const struct result *results, uint32_t count)
{
	text_add(page, "<p class=\"legend\">");
	for (uint32_t i = 0; i < count; i++) {
		add_name(page, &results[i], i);
		text_add(page, " ");
	}
	text_add(page, "</p>\n");
}

static bool has_kernels(const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (results[i].has_kernels) {
			return true;
		}
	}
	return false;
}

static enum status add_figures(struct text *page, const struct result *results, uint32_t count,
	const struct text drawings[FIGURE_COUNT], struct error *error)
{
	text_add(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
	for (uint32_t i = 0; i < FIGURE_COUNT; i++) {
		if (figures[i].needs_kernels && !has_kernels(results, count)) {
			continue;
		}
		text_format(page, "<figure id=\"figure-%s\"%s>\n<h3>%s</h3>\n", figures[i].name,
			count > 1 && figures[i].has_own_legend ? " class=\"wide\"" : "",
			figures[i].title);
		if (count > 1 && !figures[i].has_own_legend) {
			add_legend(page, results, count);
		}
		enum status status =
			svg_inline(page, &drawings[i], figures[i].name, figures[i].title, error);
		if (status != STATUS_OK) {
			return status;
		}
		text_format(page, "<figcaption>%s</figcaption>\n</figure>\n", figures[i].reading);
	}
	text_add(page, "</div>\n</section>\n");
	return STATUS_OK;
}

enum status page_write(struct text *page, const struct result *results, uint32_t count,
	const struct fidelity *fidelity, const struct text drawings[FIGURE_COUNT],
	const char *style, struct error *error)
{
	add_head(page, results, count, fidelity != NULL, style);
	add_run_lines(page, results, count);
	text_add(page,
		fidelity != NULL ? "</header>\n<main class=\"neutral\">\n" : "</header>\n<main>\n");
	add_banners(page, results, count);
	if (count == 1) {
		add_verdict(page, &results[0]);
		add_cards(page, &results[0]);
	} else if (fidelity != NULL) {
		page_fidelity(page, fidelity);
	} else {
		add_comparison(page, results, count);
	}
	add_calibration(page, results, count);
	enum status status = add_figures(page, results, count, drawings, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (fidelity == NULL) {
		add_latencies(page, results, count); /* fidelity has them all */
	}
	add_totals(page, results, count);
	add_fields(page, results, count);
	text_add(page, "</main>\n</body>\n</html>\n");
	return STATUS_OK;
}
