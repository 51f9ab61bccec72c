#include "reports/page/page_sections.h"

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "reports/page/page_elements.h"

#include <math.h>
#include <string.h>

/* Errors up to ERROR_GOOD are good, up to ERROR_FAIR fair; bars end at the third limit. */
#define ERROR_GOOD 0.02
#define ERROR_FAIR 0.05
#define ERROR_BAR 0.10

/* Both figures exist, but the real one is 0, so there is no relative error. */
static bool is_from_zero(const struct fidelity_row *row)
{
	return !row->error.has_value && row->real.has_value && row->sim.has_value;
}

static const char *error_class(const struct fidelity_row *row)
{
	double size = fabs(row->error.value);

	return is_from_zero(row)       ? "poor"
	       : !row->error.has_value ? "none"
	       : size <= ERROR_GOOD    ? "good"
	       : size <= ERROR_FAIR    ? "fair"
				       : "poor";
}

static void add_error(struct text *page, const struct fidelity_row *row)
{
	const struct result_value *error = &row->error;

	text_format(page, "<strong class=\"error %s\">", error_class(row));
	if (is_from_zero(row)) {
		text_add(page, "from 0");
	} else if (!error->has_value) {
		text_add(page, "\u2013");
	} else if (fabs(error->value) <= 0) {
		text_add(page, "equal");
	} else if (error->value >= 10) {
		text_format(page, "\u00d7%.1f", error->value + 1);
	} else {
		text_format(page, "%+.2f %%", error->value * 100);
	}
	text_add(page, "</strong>");
}

/* A bar from the middle: to the left if the simulation is too low, to the right if too high. */
static void add_bar(struct text *page, const struct fidelity_row *row)
{
	double error = is_from_zero(row) ? ERROR_BAR : row->error.value;
	double share = fmin(fabs(error) / ERROR_BAR, 1) * 50;

	text_format(page,
		"<span class=\"bar %s\"><i style=\"left:%.1f%%;width:%.1f%%\"></i></span>",
		error_class(row), error < 0 ? 50 - share : 50.0, share);
}

static void add_figure(
	struct text *page, const struct fidelity_row *row, const struct result_value *value)
{
	text_add_number(page, row->format, value->has_value, value->value);
}

static const struct fidelity_row *row_named(
	const struct fidelity_row *rows, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(rows[i].name, name) == 0) {
			return &rows[i];
		}
	}
	return NULL;
}

/* ---- which run is which ---- */

static void add_run(struct text *page, const struct result *result, uint32_t index)
{
	const cJSON *runner = json_find(&result->config, "runner");

	page_name(page, result, index);
	text_add(page, " is ");
	text_add_escaped(page, result->label.bytes);
	text_add(page, ", of runner ");
	text_add_escaped(page, cJSON_IsString(runner) ? runner->valuestring : "unknown");
}

static void add_roles(struct text *page, const struct fidelity *fidelity)
{
	text_add(page, "<p class=\"note\">");
	add_run(page, fidelity->real, 0);
	text_add(page, "; ");
	add_run(page, fidelity->sim, 1);
	text_add(page, ". Every error is (simulated \u2212 real) / real; green "
		       "is within 2 %, amber within 5 %.</p>\n");
}

static void add_other_settings(struct text *page, const struct fidelity *fidelity)
{
	const char *field = fidelity_other_setting(fidelity, 0);

	if (field == NULL) {
		return;
	}
	text_add(page, "<p class=\"banner\" role=\"alert\"><strong>not the same run</strong> These "
		       "settings differ too, so the errors are not the cost model's alone: ");
	for (uint32_t i = 0; (field = fidelity_other_setting(fidelity, i)) != NULL; i++) {
		text_add(page, i == 0 ? "" : ", ");
		text_add_escaped(page, field);
	}
	text_add(page, ".</p>\n");
}

/* ---- cards ---- */

/* Neither run has the figure, or both have 0. */
static bool says_nothing(const struct fidelity_row *row)
{
	return row->real.value <= 0 && row->sim.value <= 0;
}

static void add_card(struct text *page, const struct fidelity_row *row, const char *title)
{
	page_card_open(page, title, "");
	add_error(page, row);
	add_bar(page, row);
	text_add(page, "<small>");
	add_figure(page, row, &row->real);
	text_add(page, " real, ");
	add_figure(page, row, &row->sim);
	text_add(page, " simulated</small>");
	page_card_close(page);
}

static void add_cards(struct text *page, const struct fidelity_row *rows, uint32_t count)
{
	static const struct {
		const char *name, *title;
	} cards[] = {{"throughput.output_tokens_per_s", "Output tokens/s"},
		{"time.makespan_s", "Makespan"},
		{SUMMARY_LATENCY_MS ".ttft.mean", "Time to first token, mean"},
		{SUMMARY_LATENCY_MS ".tpot.mean", "Time per output token, mean"},
		{SUMMARY_LATENCY_MS ".e2e.mean", "End-to-end latency, mean"},
		{"prefix_cache.hit_rate", "Prefix-cache hit rate"}, {"preemptions", "Preemptions"},
		{"time.steps", "Steps"}};

	text_add(page, "<dl class=\"cards\">\n");
	for (uint32_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
		const struct fidelity_row *row = row_named(rows, count, cards[i].name);
		check(row != NULL);
		if (!says_nothing(row)) {
			add_card(page, row, cards[i].title);
		}
	}
	text_add(page, "</dl>\n");
}

/* ---- tables ---- */

static bool is_latency(const struct fidelity_row *row)
{
	return strncmp(row->name, SUMMARY_LATENCY_MS ".", strlen(SUMMARY_LATENCY_MS ".")) == 0;
}

static void add_latency_cell(struct text *page, const struct fidelity_row *row)
{
	text_add(page, "<td>");
	add_error(page, row);
	add_bar(page, row);
	text_add(page, "<small>");
	add_figure(page, row, &row->real);
	text_add(page, " \u2192 ");
	add_figure(page, row, &row->sim);
	text_add(page, "</small></td>");
}

static void add_latencies(struct text *page, const struct fidelity_row *rows, uint32_t count)
{
	uint32_t column = 0, columns = 0;

	text_add(page,
		"<h3>Latencies, real \u2192 simulated</h3>\n<div class=\"scroll\">\n<table>\n"
		"<thead><tr><th scope=\"col\">Error</th>");
	for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
		if (latency_is_main[j]) {
			text_format(page, "<th scope=\"col\">%s</th>", latency_statistics[j]);
			columns++;
		}
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < count; i++) {
		if (!is_latency(&rows[i])) {
			continue;
		}
		if (column == 0) {
			text_format(page, "<tr><th scope=\"row\">%s</th>", rows[i].title);
		}
		add_latency_cell(page, &rows[i]);
		column = (column + 1) % columns;
		text_add(page, column == 0 ? "</tr>\n" : "");
	}
	text_add(page, "</tbody>\n</table>\n</div>\n");
}

static void add_count_row(struct text *page, const struct fidelity_row *row)
{
	bool is_detail = strncmp(row->name, "step_ms.", 8) == 0;

	text_format(page, "<tr%s><th scope=\"row\">%s</th><td>", is_detail ? " class=\"part\"" : "",
		row->title);
	add_figure(page, row, &row->real);
	text_add(page, "</td><td>");
	add_figure(page, row, &row->sim);
	text_add(page, "</td><td>");
	add_error(page, row);
	add_bar(page, row);
	text_add(page, "</td></tr>\n");
}

static void add_verdicts(struct text *page, const struct fidelity *fidelity)
{
	const struct result *results[] = {fidelity->real, fidelity->sim};

	text_add(page, "<tr><th scope=\"row\">Verdict</th>");
	for (uint32_t i = 0; i < 2; i++) {
		text_format(page, "<td><span class=\"chip %s\">%s</span></td>", results[i]->verdict,
			results[i]->verdict);
	}
	text_format(page, "<td>%s</td></tr>\n",
		strcmp(results[0]->verdict, results[1]->verdict) == 0 ? "equal" : "differs");
}

static void add_counts(struct text *page, const struct fidelity *fidelity,
	const struct fidelity_row *rows, uint32_t count)
{
	text_add(page, "<h3>Rates, counts and steps</h3>\n<div class=\"scroll\">\n<table>\n"
		       "<thead><tr><th scope=\"col\">Figure</th><th scope=\"col\">Real</th>"
		       "<th scope=\"col\">Simulated</th><th scope=\"col\">Error</th></tr></thead>\n"
		       "<tbody>\n");
	add_verdicts(page, fidelity);
	for (uint32_t i = 0; i < count; i++) {
		bool has_both = rows[i].real.has_value && rows[i].sim.has_value;
		if (!is_latency(&rows[i]) && has_both) {
			add_count_row(page, &rows[i]);
		}
	}
	text_add(page, "</tbody>\n</table>\n</div>\n");
}

/* Until the runs diverge, step i does the same work in both. */
static void add_same_steps(struct text *page, const struct fidelity *fidelity)
{
	const struct step_errors *steps = &fidelity->steps;

	text_add(page, "<p class=\"note\">");
	if (!fidelity->has_steps) {
		text_add(page, "Step times are not compared: not both folders have a steps.tsv "
			       "(quire replay --steps).</p>\n");
		return;
	}
	if (steps->same_steps == 0) {
		text_add(page, "Already the first steps do different work, so no two can be "
			       "compared.</p>\n");
		return;
	}
	if (steps->same_steps == 1) {
		text_add(page,
			steps->is_same_throughout ? "The only step does" : "The first step does");
	} else {
		text_add(page, steps->is_same_throughout ? "All " : "The first ");
		text_add_count(page, (uint64_t)steps->same_steps, "", "steps do");
	}
	text_add(page, " the same work in both runs. ");
	struct result_value mean = fidelity_step_error(steps);
	if (mean.has_value) {
		text_format(page, "Step by step the simulated times are %.2f %% off on average, ",
			100 * mean.value);
		text_format(page, "weighted by time %.2f %%, and in sum %+.2f %%.",
			100 * steps->same_error_by_time_ns / steps->same_real_ns,
			100 * (steps->same_sim_ns / steps->same_real_ns - 1));
	} else {
		text_add(page, "None of them took time in the real run.");
	}
	if (!steps->is_same_throughout) {
		text_add(page, " Then the runs diverge: arrivals meet other steps, and only the "
			       "means of each kind can be compared.");
	}
	text_add(page, "</p>\n");
}

void page_fidelity(struct text *page, const struct fidelity *fidelity)
{
	struct fidelity_row rows[FIDELITY_ROWS_MAX];
	uint32_t count = fidelity_rows(fidelity, rows);

	text_add(page, "<section id=\"fidelity\">\n<h2>How far the simulation is off</h2>\n");
	add_roles(page, fidelity);
	add_other_settings(page, fidelity);
	add_cards(page, rows, count);
	add_latencies(page, rows, count);
	add_counts(page, fidelity, rows, count);
	add_same_steps(page, fidelity);
	text_add(page, "</section>\n");
}
