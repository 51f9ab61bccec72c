#include "reports/page/page_sections.h"

#include "reports/page/page_elements.h"

#include <math.h>
#include <string.h>

/* A cell: the value, and its difference from the first result's. */
static void add_cell(struct text *page, enum number_format format, int better,
	const struct result_value *first, const struct result_value *value)
{
	text_add(page, "<td>");
	text_add_number(page, format, value->has_value, value->value);
	if (first != NULL && first->has_value && value->has_value) {
		/* A difference that rounds to 0 is neither better nor worse. */
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

/* Where more requests were offered, more are served: that is neither better nor worse. */
static bool is_of_offer(const struct result *results, uint32_t count, enum result_number number)
{
	const struct result_value *first = &results[0].numbers[VALUE_OFFERED_RATE];

	if (number != VALUE_OUTPUT_RATE && number != VALUE_TOTAL_RATE &&
		number != VALUE_REQUEST_RATE) {
		return false;
	}
	for (uint32_t i = 1; i < count; i++) {
		const struct result_value *other = &results[i].numbers[VALUE_OFFERED_RATE];
		if (first->has_value != other->has_value ||
			fabs(other->value - first->value) > 0.01 * first->value) {
			return true;
		}
	}
	return false;
}

/* skips_zeros: there is no row where every value is 0. */
static void add_number_row(struct text *page, const struct result *results, uint32_t count,
	enum result_number number, bool skips_zeros)
{
	const struct metric *row = &metrics_table[number];
	int better = is_of_offer(results, count, number) ? 0 : row->better;
	bool has_any = false;

	for (uint32_t i = 0; i < count; i++) {
		const struct result_value *value = &results[i].numbers[number];
		has_any = has_any || (value->has_value && !(skips_zeros && value->value <= 0));
	}
	if (!has_any && (row->is_optional || skips_zeros)) {
		return; /* no SLO was set, a closed loop offers no rate */
	}
	text_format(page, "<tr><th scope=\"row\">%s</th>", row->title);
	for (uint32_t i = 0; i < count; i++) {
		add_cell(page, row->format, better, i == 0 ? NULL : &results[0].numbers[number],
			&results[i].numbers[number]);
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
	bool has_calibrated = false; /* else page_calibration() says it of all */

	for (uint32_t i = 0; i < count; i++) {
		has_calibrated = has_calibrated || results[i].is_calibrated;
	}
	text_add(page, "<tr class=\"verdicts\"><th scope=\"row\">Verdict</th>");
	for (uint32_t i = 0; i < count; i++) {
		text_format(page, "<td><span class=\"chip %s\" title=\"%s\">%s</span>",
			results[i].verdict, page_verdict_meaning(&results[i]), results[i].verdict);
		if (strcmp(results[i].status, "complete") != 0) {
			text_format(page, " <span class=\"badge\">%s</span>", results[i].status);
		}
		if (!results[i].is_calibrated && has_calibrated) {
			text_add(page, " <span class=\"badge\">uncalibrated</span>");
		}
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

/* The key figures of several results side by side. */
void page_comparison(struct text *page, const struct result *results, uint32_t count)
{
	static const enum result_number numbers[] = {VALUE_SLO_ATTAINED, VALUE_SLO_GOODPUT,
		VALUE_OFFERED_RATE, VALUE_REQUEST_RATE, VALUE_OUTPUT_RATE};
	static const enum result_number more[] = {VALUE_UTILISATION, VALUE_KV_PEAK,
		VALUE_SEATS_PEAK, VALUE_HIT_RATE, VALUE_PREEMPTIONS, VALUE_BACKLOG, VALUE_DRAIN,
		VALUE_SUBMITTED, VALUE_FINISHED, VALUE_REJECTED, VALUE_FAILED, VALUE_UNFINISHED};
	static const struct {
		uint32_t metric, statistic;
		const char *title;
	} latencies[] = {{LATENCY_TTFT, STATISTIC_P50, "Time to first token, median"},
		{LATENCY_TTFT, STATISTIC_P99, "Time to first token, p99"},
		{LATENCY_TPOT, STATISTIC_P50, "Time per output token, median"},
		{LATENCY_TPOT, STATISTIC_P99, "Time per output token, p99"},
		{LATENCY_E2E, STATISTIC_P50, "End-to-end latency, median"},
		{LATENCY_E2E, STATISTIC_P99, "End-to-end latency, p99"}};

	page_table_open(page, "comparison", "Side by side",
		"Differences are relative to the first column; of shares, in points.");
	page_result_columns(page, results, count, "Key figure");
	add_verdict_row(page, results, count);
	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		add_number_row(page, results, count, numbers[i], false);
	}
	for (uint32_t i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++) {
		add_latency_row(page, results, count, latencies[i].metric, latencies[i].statistic,
			latencies[i].title);
	}
	for (uint32_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		add_number_row(page, results, count, more[i], true);
	}
	page_table_close(page);
}

static const char *statistic_title(uint32_t statistic)
{
	return statistic == STATISTIC_P99_9 ? "p99.9" : latency_statistics[statistic];
}

/* All latencies: a matrix for one result, rows in groups for several. */
static void add_latency_matrix(struct text *page, const struct result *result)
{
	text_add(page, "<thead><tr><th scope=\"col\">Milliseconds</th>");
	for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
		text_format(page, "<th scope=\"col\">%s</th>", statistic_title(j));
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		text_format(page, "<tr><th scope=\"row\">%s</th>", latency_titles[i]);
		for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
			add_cell(page, NUMBER_MS, 0, NULL, &result->latency_ms[i][j]);
		}
		text_add(page, "</tr>\n");
	}
}

static void add_latency_groups(struct text *page, const struct result *results, uint32_t count)
{
	page_result_columns(page, results, count, "Latency");
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		text_format(page,
			"</tbody>\n<tbody>\n<tr class=\"group\"><th scope=\"colgroup\" "
			"colspan=\"%u\">%s</th></tr>\n",
			count + 1, latency_titles[i]);
		for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
			add_latency_row(page, results, count, i, j, statistic_title(j));
		}
	}
}

void page_latencies(struct text *page, const struct result *results, uint32_t count)
{
	page_table_open(page, "latency", "Latency",
		"Finished requests only, from their intended arrival. A dash: no request gave a "
		"value.");
	if (count == 1) {
		add_latency_matrix(page, &results[0]);
	} else {
		add_latency_groups(page, results, count);
	}
	page_table_close(page);
}

void page_totals(struct text *page, const struct result *results, uint32_t count)
{
	page_table_open(page, "totals", "Totals", NULL);
	page_result_columns(page, results, count, "Figure");
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		add_number_row(page, results, count, (enum result_number)i, false);
	}
	page_table_close(page);
}
