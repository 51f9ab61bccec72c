#include "reports/report_files.h"

#include "engine/base/memory.h"
#include "reports/results/sweep_file.h"
#include "reports/sheet.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The metrics that figures show, where a run has them. */
static const char *const shown_metrics[] = {"output_tokens_per_s", "goodput", "attained",
	"ttft.p99", "tpot.p99", "e2e.p50", "hit_rate", "preemptions", "utilisation"};

enum {
	SHOWN_METRIC_COUNT = sizeof(shown_metrics) / sizeof(shown_metrics[0]),
	CURVES_MAX = 8,	 /* there are as many colours */
	PANELS_MAX = 12, /* more would be too small to read */
};

/* A sweep and the metrics to draw. */
struct drawn_sweep {
	const struct sweep_file *sweep;
	uint32_t metric_count;
	uint32_t metrics[SHOWN_METRIC_COUNT]; /* indices of sweep_metrics */
};

static const struct metric *metric_at(const struct drawn_sweep *drawn, uint32_t index)
{
	return metric_find(sweep_metrics[drawn->metrics[index]]);
}

static const char *kind_of(const struct metric *metric)
{
	return metric->format == NUMBER_SHARE ? "share"
	       : metric->format == NUMBER_TIME_MS || metric->format == NUMBER_MS ||
			       metric->format == NUMBER_TIME_S
		       ? "time"
		       : "plain";
}

/* A value as figures draw it: times in s, shares in percent. */
static double drawn_value(const struct metric *metric, double value)
{
	return strcmp(metric->unit, "ms") == 0	? value / 1000
	       : metric->format == NUMBER_SHARE ? 100 * value
						: value;
}

/* Metrics of which a run has a value; a count that is always 0 says nothing. */
static void choose_metrics(struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;

	for (uint32_t i = 0; i < SHOWN_METRIC_COUNT; i++) {
		uint32_t index = 0;
		bool has_value = false;
		while (strcmp(sweep_metrics[index], shown_metrics[i]) != 0) {
			index++;
		}
		for (uint32_t j = 0; j < sweep->run_count; j++) {
			const struct result_value *value = &sweep->runs[j].metrics[index];
			has_value = has_value ||
				    (value->has_value &&
					    (value->value > 0 ||
						    metric_find(shown_metrics[i])->format !=
							    NUMBER_COUNT));
		}
		if (has_value) {
			drawn->metrics[drawn->metric_count++] = index;
		}
	}
}

static void set_numbered(struct plot *plot, const char *name, uint32_t number, const char *text)
{
	char variable[64];

	snprintf(variable, sizeof(variable), "%s_%u", name, number);
	plot_set_text(plot, variable, text);
}

/* Where a value stands on the axis: as a number, or by its place. */
static double place_of(const struct sweep_parameter *parameter, uint32_t index)
{
	return parameter->is_number ? strtod(parameter->values[index], NULL) : index + 1;
}

static void set_x_axis(struct plot *plot, const struct sweep_parameter *parameter)
{
	double low = place_of(parameter, 0), high = low;
	char variable[32];

	for (uint32_t i = 0; i < parameter->value_count; i++) {
		double place = place_of(parameter, i);
		low = place < low ? place : low;
		high = place > high ? place : high;
		set_numbered(plot, "tic_text", i + 1, parameter->values[i]);
		snprintf(variable, sizeof(variable), "tic_at_%u", i + 1);
		plot_set_number(plot, variable, place);
	}
	plot_set_number(plot, "tic_total", parameter->value_count);
	plot_set_number(plot, "is_log", parameter->is_number && low > 0 && high >= 8 * low);
	plot_set_text(plot, "x_title", parameter->name);
}

/* "TTFT p99" for a latency, else the metric's title. */
static void set_metric_name(struct plot *plot, uint32_t number, const struct metric *metric)
{
	char name[64];
	bool is_short = false;

	snprintf(name, sizeof(name), "%s", metric->name);
	for (char *at = name; *at != '\0' && !is_short; at++) {
		is_short = *at == '.';
		*at = (char)(is_short ? ' ' : toupper((unsigned char)*at));
	}
	set_numbered(plot, "panel_name", number, is_short ? name : metric->title);
}

static void set_metric_panels(struct plot *plot, const struct drawn_sweep *drawn)
{
	plot_set_number(plot, "panel_total", drawn->metric_count);
	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		set_metric_name(plot, i + 1, metric_at(drawn, i));
		set_numbered(plot, "panel_kind", i + 1, kind_of(metric_at(drawn, i)));
	}
}

/* A row of numbers; the last one may be missing, and is then no row. */
static void add_row(FILE *table, const struct drawn_sweep *drawn, uint32_t metric,
	const struct sweep_run *run, double a, double b, double c)
{
	const struct result_value *value = &run->metrics[drawn->metrics[metric]];

	if (value->has_value) {
		fprintf(table, "%.9g\t%.9g\t%.9g\t%.9g\n", a, b, c,
			drawn_value(metric_at(drawn, metric), value->value));
	}
}

/* ---- one parameter ---- */

static void fill_lines(struct plot *plot, const struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;

	set_metric_panels(plot, drawn);
	plot_set_number(plot, "curve_total", 1);
	set_numbered(plot, "curve_name", 1, sweep->parameters[0].name);
	set_x_axis(plot, &sweep->parameters[0]);
	fprintf(plot->table, "panel\tcurve\tx\ty\n");
	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		for (uint32_t j = 0; j < sweep->run_count; j++) {
			const struct sweep_run *run = &sweep->runs[j];
			add_row(plot->table, drawn, i, run, i + 1, 1,
				place_of(&sweep->parameters[0], run->values[0]));
		}
	}
}

/* ---- two parameters ---- */

static void set_map_axis(
	struct plot *plot, const struct sweep_parameter *parameter, const char *axis)
{
	char name[16];

	snprintf(name, sizeof(name), "%s_text", axis);
	for (uint32_t i = 0; i < parameter->value_count; i++) {
		set_numbered(plot, name, i + 1, parameter->values[i]);
	}
	snprintf(name, sizeof(name), "%s_total", axis);
	plot_set_number(plot, name, parameter->value_count);
}

static void fill_heat(struct plot *plot, const struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;

	set_metric_panels(plot, drawn);
	set_map_axis(plot, &sweep->parameters[0], "x");
	set_map_axis(plot, &sweep->parameters[1], "y");
	plot_set_text(plot, "x_title", sweep->parameters[0].name);
	plot_set_text(plot, "y_title_text", sweep->parameters[1].name);
	fprintf(plot->table, "panel\tx\ty\tvalue\n");
	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		for (uint32_t j = 0; j < sweep->run_count; j++) {
			const struct sweep_run *run = &sweep->runs[j];
			add_row(plot->table, drawn, i, run, i + 1, run->values[0] + 1,
				run->values[1] + 1);
		}
	}
}

/* ---- three and more ---- */

/* The number of a run's panel: its values of the third parameter and those behind it. */
static uint32_t panel_of(const struct sweep_file *sweep, const struct sweep_run *run)
{
	uint32_t panel = 0;

	for (uint32_t i = sweep->parameter_count; i-- > 2;) {
		panel = panel * sweep->parameters[i].value_count + run->values[i];
		panel = panel < PANELS_MAX ? panel : PANELS_MAX;
	}
	return panel;
}

static void set_panel_names(struct plot *plot, const struct sweep_file *sweep)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < PANELS_MAX; i++) {
		struct text name = {0};
		uint32_t left = i;
		for (uint32_t j = 2; j < sweep->parameter_count; j++) {
			const struct sweep_parameter *parameter = &sweep->parameters[j];
			text_add(&name, j > 2 ? ", " : "");
			text_add(&name, parameter->name);
			text_add(&name, " ");
			text_add(&name, parameter->values[left % parameter->value_count]);
			left /= parameter->value_count;
		}
		if (left == 0) {
			set_numbered(plot, "panel_name", ++total, name.bytes);
		}
		text_deinit(&name);
	}
	plot_set_number(plot, "panel_total", total);
}

/* Values of the second parameter that have a curve. */
static uint32_t curves_of(const struct sweep_file *sweep)
{
	uint32_t values = sweep->parameters[1].value_count;

	return values < CURVES_MAX ? values : CURVES_MAX;
}

static void fill_multiples(struct plot *plot, const struct drawn_sweep *drawn, uint32_t metric,
	const char *const *curves)
{
	const struct sweep_file *sweep = drawn->sweep;
	uint32_t curve_count = curves_of(sweep);

	set_panel_names(plot, sweep);
	for (uint32_t i = 0; i < PANELS_MAX; i++) {
		set_numbered(plot, "panel_kind", i + 1, kind_of(metric_at(drawn, metric)));
	}
	plot_set_number(plot, "is_shared", 1);
	plot_set_number(plot, "has_legend", 0); /* the page has one */
	plot_set_number(plot, "curve_total", curve_count);
	for (uint32_t i = 0; i < curve_count; i++) {
		set_numbered(plot, "curve_name", i + 1, curves[i]);
	}
	set_x_axis(plot, &sweep->parameters[0]);
	fprintf(plot->table, "panel\tcurve\tx\ty\n");
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		uint32_t panel = panel_of(sweep, run);
		if (panel < PANELS_MAX && run->values[1] < CURVES_MAX) {
			add_row(plot->table, drawn, metric, run, panel + 1, run->values[1] + 1,
				place_of(&sweep->parameters[0], run->values[0]));
		}
	}
}

/* ---- hit rate against capacity ---- */

static void fill_cache(struct plot *plot, const struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;
	uint32_t hit_rate = 0;

	while (strcmp(sweep_metrics[hit_rate], "hit_rate") != 0) {
		hit_rate++;
	}
	fprintf(plot->table, "series\ttokens\tpercent\n");
	for (uint32_t i = 0; i < sweep->cache_count; i++) {
		const struct sweep_cache *row = &sweep->cache[i];
		const double found[] = {row->lru_tail_hit_tokens, row->lru_stream_hit_tokens,
			row->fifo_hit_tokens, row->belady_hit_tokens, row->infinite_hit_tokens};
		for (uint32_t j = 0; j < 5 && row->total_tokens > 0; j++) {
			fprintf(plot->table, "%u\t%.9g\t%.9g\n", j + 1, row->capacity_tokens,
				100 * found[j] / row->total_tokens);
		}
	}
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->metrics[hit_rate].has_value && run->kv_tokens.has_value) {
			fprintf(plot->table, "6\t%.9g\t%.9g\n", run->kv_tokens.value,
				100 * run->metrics[hit_rate].value);
		}
	}
}

/* ---- all ---- */

/* curves: names of the values of the second parameter. */
static enum status add_multiples(struct sheet *sheet, const struct drawn_sweep *drawn,
	const char *const *curves, struct error *error)
{
	static const char *const names[] = {"sweep-1", "sweep-2", "sweep-3", "sweep-4", "sweep-5",
		"sweep-6", "sweep-7", "sweep-8", "sweep-9"};
	struct plot *plot;

	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		const struct page_plot shown = {.name = names[i],
			.title = metric_at(drawn, i)->title,
			.reading = "Against the first parameter; a curve for each value of the "
				   "second (at most 8), a panel for each of the others (at most "
				   "12). All panels have one scale.",
			.is_wide = true,
			.curves = curves,
			.curve_count = curves_of(drawn->sweep)};
		TRY(sheet_add(sheet, &shown, "sweep_lines.gp", &plot, error));
		fill_multiples(plot, drawn, i, curves);
	}
	return STATUS_OK;
}

static enum status add_plots(struct sheet *sheet, const struct drawn_sweep *drawn,
	const char *const *curves, struct error *error)
{
	static const struct page_plot lines = {.name = "sweep-lines",
		.title = "Metrics against the parameter",
		.reading = "A panel for each metric; a point is a run.",
		.is_wide = true};
	static const struct page_plot heat = {.name = "sweep-heat",
		.title = "Metrics over both parameters",
		.reading = "A map for each metric, dark is more, each with a scale of its own, "
			   "which spans "
			   "a fifth of the largest value at least. A grey "
			   "field is a run that failed or is missing.",
		.is_wide = true};
	static const struct page_plot cache = {.name = "sweep-cache",
		.title = "Prefix-cache hit rate against capacity",
		.reading = "Points are runs; curves are what a cache of that size finds of the "
			   "trace's prompts without an engine. A run lies lower where running "
			   "requests hold the memory, and higher where its blocks are smaller or "
			   "a prompt repeats an answer."};
	struct plot *plot;

	if (drawn->sweep->parameter_count == 1) {
		TRY(sheet_add(sheet, &lines, "sweep_lines.gp", &plot, error));
		fill_lines(plot, drawn);
	} else if (drawn->sweep->parameter_count == 2) {
		TRY(sheet_add(sheet, &heat, "sweep_heat.gp", &plot, error));
		fill_heat(plot, drawn);
	} else {
		TRY(add_multiples(sheet, drawn, curves, error));
	}
	TRY(sheet_add(sheet, &cache, "sweep_cache.gp", &plot, error));
	fill_cache(plot, drawn);
	return sheet_draw(sheet, error);
}

/* "max-num-seqs 64" of the second parameter, where there is one. */
static void name_curves(const struct sweep_file *sweep, struct text *names, const char **curves)
{
	if (sweep->parameter_count < 2) {
		return;
	}
	for (uint32_t i = 0; i < curves_of(sweep); i++) {
		text_add(&names[i], sweep->parameters[1].name);
		text_add(&names[i], " ");
		text_add(&names[i], sweep->parameters[1].values[i]);
		curves[i] = names[i].bytes;
	}
}

enum status report_sweep(const char *directory, const struct json_object *defaults,
	struct text *page, struct error *error)
{
	struct sweep_file sweep;
	struct drawn_sweep drawn = {.sweep = &sweep};
	struct text names[CURVES_MAX] = {{0}};
	const char *curves[CURVES_MAX] = {NULL};
	struct sheet *sheet = memory_take(1, sizeof(*sheet));

	enum status status = sweep_file_open(&sweep, directory, error);
	if (status == STATUS_OK) {
		choose_metrics(&drawn);
		name_curves(&sweep, names, curves);
		status = add_plots(sheet, &drawn, curves, error);
	}
	if (status == STATUS_OK) {
		struct page_sheet parts = sheet_page(sheet, defaults);
		status = page_sweep_write(page, &sweep, &parts, error);
	}
	for (uint32_t i = 0; i < CURVES_MAX; i++) {
		text_deinit(&names[i]);
	}
	sheet_close(sheet);
	free(sheet);
	sweep_file_close(&sweep);
	return status;
}
