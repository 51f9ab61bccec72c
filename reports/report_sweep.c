#include "reports/report_files.h"

#include "engine/base/memory.h"
#include "reports/results/sweep_file.h"
#include "reports/sheet.h"
#include "reports/sweep_axes.h"

#include <ctype.h>
#include <stdlib.h>

/* The metrics that figures show, where a run has them. */
static const char *const shown_metrics[] = {"output_tokens_per_s", "goodput", "attained",
	"ttft.p99", "tpot.p99", "e2e.p50", "hit_rate", "preemptions", "utilisation"};

enum { SHOWN_METRIC_COUNT = sizeof(shown_metrics) / sizeof(shown_metrics[0]) };

/* A sweep and the metrics to draw. */
struct drawn_sweep {
	const struct sweep_file *sweep;
	struct sweep_axes axes;
	struct text reading, cache_reading; /* captions */
	struct text names[SWEEP_CURVES_MAX];
	const char *curves[SWEEP_CURVES_MAX]; /* names of the values of the second parameter */
	uint32_t metric_count;
	uint32_t metrics[SHOWN_METRIC_COUNT]; /* indices of sweep_metrics */
};

static const struct metric *metric_at(const struct drawn_sweep *drawn, uint32_t index)
{
	return metric_find(sweep_metrics[drawn->metrics[index]]);
}

/* Metrics of which a run has a value; a count that is always 0 says nothing. */
static void choose_metrics(struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;

	for (uint32_t i = 0; i < SHOWN_METRIC_COUNT; i++) {
		uint32_t index = sweep_metric_index(shown_metrics[i]);
		bool has_value = false;
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
		plot_set_text_at(plot, "tic_text", i + 1, sweep_value_text(parameter, i));
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
	plot_set_text_at(plot, "panel_name", number, is_short ? name : metric->title);
}

static void set_metric_panels(struct plot *plot, const struct drawn_sweep *drawn)
{
	plot_set_number(plot, "panel_total", drawn->metric_count);
	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		set_metric_name(plot, i + 1, metric_at(drawn, i));
		plot_set_text_at(plot, "panel_kind", i + 1, plot_kind(metric_at(drawn, i)->format));
	}
}

/* A row of numbers; the last one may be missing, and is then no row. */
static void add_row(FILE *table, const struct drawn_sweep *drawn, uint32_t metric,
	const struct sweep_run *run, double a, double b, double c)
{
	const struct result_value *value = &run->metrics[drawn->metrics[metric]];
	const struct metric *own = metric_at(drawn, metric);

	if (value->has_value) {
		fprintf(table, "%.9g\t%.9g\t%.9g\t%.9g\n", a, b, c,
			plot_value(own->format, own->unit, value->value));
	}
}

/* A point of a curve; the curve 0 marks it as one of a run that rejected requests. */
static void add_point(FILE *table, const struct drawn_sweep *drawn, uint32_t metric,
	const struct sweep_run *run, uint32_t panel, uint32_t curve)
{
	double place =
		place_of(sweep_axis(&drawn->axes, 0), sweep_axis_value(&drawn->axes, run, 0));

	add_row(table, drawn, metric, run, panel, curve, place);
	if (sweep_is_rejecting(drawn->sweep, run)) {
		add_row(table, drawn, metric, run, panel, 0, place);
	}
}

/* ---- one parameter ---- */

static void fill_lines(struct plot *plot, const struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;

	const struct sweep_parameter *parameter = sweep_axis(&drawn->axes, 0);
	set_metric_panels(plot, drawn);
	plot_set_number(plot, "curve_total", 1);
	plot_set_text_at(plot, "curve_name", 1, parameter->name);
	set_x_axis(plot, parameter);
	fprintf(plot->table, "panel\tcurve\tx\ty\n");
	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		for (uint32_t j = 0; j < sweep->run_count; j++) {
			const struct sweep_run *run = &sweep->runs[j];
			add_point(plot->table, drawn, i, run, i + 1, 1);
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
		plot_set_text_at(plot, name, i + 1, sweep_value_text(parameter, i));
	}
	snprintf(name, sizeof(name), "%s_total", axis);
	plot_set_number(plot, name, parameter->value_count);
}

static void fill_heat(struct plot *plot, const struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;

	set_metric_panels(plot, drawn);
	set_map_axis(plot, sweep_axis(&drawn->axes, 0), "x");
	set_map_axis(plot, sweep_axis(&drawn->axes, 1), "y");
	plot_set_text(plot, "x_title", sweep_axis(&drawn->axes, 0)->name);
	plot_set_text(plot, "y_title_text", sweep_axis(&drawn->axes, 1)->name);
	fprintf(plot->table, "panel\tx\ty\tvalue\n");
	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		for (uint32_t j = 0; j < sweep->run_count; j++) {
			const struct sweep_run *run = &sweep->runs[j];
			add_row(plot->table, drawn, i, run, i + 1,
				sweep_axis_value(&drawn->axes, run, 0) + 1,
				sweep_axis_value(&drawn->axes, run, 1) + 1);
		}
	}
}

/* ---- three and more ---- */

/* Values of the second parameter that have a curve. */
static uint32_t curves_of(const struct sweep_axes *axes)
{
	uint32_t values = axes->count < 3 ? 0 : sweep_axis(axes, 1)->value_count;

	return values < SWEEP_CURVES_MAX ? values : SWEEP_CURVES_MAX;
}

/* Names of panels, and which of them have no run that finished. */
static void set_panels(struct plot *plot, const struct drawn_sweep *drawn, const char *kind)
{
	const struct sweep_file *sweep = drawn->sweep;
	uint32_t total = sweep_panel_count(&drawn->axes);
	bool has_finished[SWEEP_PANELS_MAX + 1] = {false};
	char variable[64];

	total = total < SWEEP_PANELS_MAX ? total : SWEEP_PANELS_MAX;
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->status == SWEEP_RUN_COMPLETE) {
			has_finished[sweep_panel_of(&drawn->axes, run)] = true;
		}
	}
	for (uint32_t i = 0; i < total; i++) {
		struct text name = {0};
		sweep_panel_name(&drawn->axes, i, &name);
		plot_set_text_at(plot, "panel_name", i + 1, name.bytes);
		plot_set_text_at(plot, "panel_kind", i + 1, kind);
		text_deinit(&name);
		if (!has_finished[i]) {
			snprintf(variable, sizeof(variable), "panel_unfinished_%u", i + 1);
			plot_set_number(plot, variable, 1);
		}
	}
	plot_set_number(plot, "panel_total", total);
}

static void fill_multiples(struct plot *plot, const struct drawn_sweep *drawn, uint32_t metric)
{
	const struct sweep_file *sweep = drawn->sweep;
	uint32_t curve_count = curves_of(&drawn->axes);

	set_panels(plot, drawn, plot_kind(metric_at(drawn, metric)->format));
	plot_set_number(plot, "is_shared", 1);
	plot_set_number(plot, "has_legend", 0); /* the page has one */
	plot_set_number(plot, "curve_total", curve_count);
	for (uint32_t i = 0; i < curve_count; i++) {
		plot_set_text_at(plot, "curve_name", i + 1, drawn->curves[i]);
	}
	set_x_axis(plot, sweep_axis(&drawn->axes, 0));
	fprintf(plot->table, "panel\tcurve\tx\ty\n");
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		uint32_t panel = sweep_panel_of(&drawn->axes, run);
		uint32_t curve = sweep_axis_value(&drawn->axes, run, 1);
		if (panel < SWEEP_PANELS_MAX && curve < SWEEP_CURVES_MAX) {
			add_point(plot->table, drawn, metric, run, panel + 1, curve + 1);
		}
	}
}

/* ---- hit rate against capacity ---- */

static void name_groups(struct plot *plot, const struct sweep_groups *groups)
{
	for (uint32_t i = 0; i < groups->count; i++) {
		struct text name = {0};
		sweep_group_name(groups, i, &name);
		plot_set_text_at(plot, "group_name", i + 1, name.bytes);
		text_deinit(&name);
	}
	plot_set_number(plot, "group_total", groups->count);
}

static void fill_cache(struct plot *plot, const struct drawn_sweep *drawn)
{
	const struct sweep_file *sweep = drawn->sweep;
	uint32_t hit_rate = sweep_metric_index("hit_rate");

	struct sweep_groups groups;
	sweep_groups_find(&groups, sweep);
	name_groups(plot, &groups);
	fprintf(plot->table, "series\ttokens\tpercent\tgroup\n");
	for (uint32_t i = 0; i < sweep->cache_count; i++) {
		const struct sweep_cache *row = &sweep->cache[i];
		const double found[] = {row->lru_tail_hit_tokens, row->lru_stream_hit_tokens,
			row->fifo_hit_tokens, row->belady_hit_tokens, row->infinite_hit_tokens};
		for (uint32_t j = 0; j < 5 && row->total_tokens > 0; j++) {
			fprintf(plot->table, "%u\t%.9g\t%.9g\t0\n", j + 1, row->capacity_tokens,
				100 * found[j] / row->total_tokens);
		}
	}
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->metrics[hit_rate].has_value && run->kv_tokens.has_value) {
			fprintf(plot->table, "%d\t%.9g\t%.9g\t%u\n",
				sweep_rejected(run) > 0 ? 7 : 6, run->kv_tokens.value,
				100 * run->metrics[hit_rate].value,
				sweep_group_of(&groups, run) + 1);
		}
	}
}

/* ---- all ---- */

static void write_readings(struct drawn_sweep *drawn)
{
	static const char *const readings[] = {"A panel for each metric; a point is a run.",
		"A map for each metric, dark is more, each with a scale of its own, which spans "
		"a fifth of the largest value at least. A grey field is a run that failed or is "
		"missing."};
	const struct sweep_axes *axes = &drawn->axes;
	struct text rejecting = {0};
	struct sweep_groups groups;
	bool rejects = false;

	if (axes->count < 3) {
		text_add(&drawn->reading, readings[axes->count - 1]);
	} else {
		text_format(&drawn->reading, "Against %s; a curve for each %s, a panel for each %s",
			sweep_axis(axes, 0)->name, sweep_axis(axes, 1)->name,
			sweep_axis(axes, 2)->name);
		for (uint32_t i = 3; i < axes->count; i++) {
			text_add(&drawn->reading, i + 1 == axes->count ? " and " : ", ");
			text_add(&drawn->reading, sweep_axis(axes, i)->name);
		}
		text_add(&drawn->reading, ". All panels have one scale.");
		sweep_say_left_out(axes, &drawn->reading);
	}
	sweep_say_rejecting(drawn->sweep, &rejecting);
	if (rejecting.byte_count > 0) {
		text_add(&drawn->reading, rejecting.bytes);
		text_add(&drawn->reading, axes->count == 2 ? "" : " A ring marks them.");
	}
	text_deinit(&rejecting);
	sweep_say_overloaded(drawn->sweep, &drawn->reading);
	text_add(&drawn->cache_reading,
		"Points are runs; curves are what a cache of that size finds of the trace's "
		"prompts without an engine. A run lies lower where running requests hold the "
		"memory, and higher where its blocks are smaller or a prompt repeats an answer.");
	sweep_groups_find(&groups, drawn->sweep);
	sweep_groups_say(&groups, &drawn->cache_reading);
	for (uint32_t i = 0; i < drawn->sweep->run_count; i++) {
		rejects = rejects || sweep_rejected(&drawn->sweep->runs[i]) > 0;
	}
	text_add(&drawn->cache_reading,
		rejects ? " Runs that rejected requests, which have a ring, count only those that "
			  "they took: they may lie above the optimum, which counts all."
			: "");
}

static enum status add_multiples(
	struct sheet *sheet, const struct drawn_sweep *drawn, struct error *error)
{
	static const char *const names[] = {"sweep-1", "sweep-2", "sweep-3", "sweep-4", "sweep-5",
		"sweep-6", "sweep-7", "sweep-8", "sweep-9"};
	struct plot *plot;

	for (uint32_t i = 0; i < drawn->metric_count; i++) {
		const struct page_plot shown = {.name = names[i],
			.title = metric_at(drawn, i)->title,
			.reading = drawn->reading.bytes,
			.is_wide = true,
			.curves = drawn->curves,
			.curve_count = curves_of(&drawn->axes)};
		TRY(sheet_add(sheet, &shown, "sweep_lines.gp", &plot, error));
		fill_multiples(plot, drawn, i);
	}
	return STATUS_OK;
}

static enum status add_plots(
	struct sheet *sheet, const struct drawn_sweep *drawn, struct error *error)
{
	const struct page_plot lines = {.name = "sweep-lines",
		.title = "Metrics against the parameter",
		.reading = drawn->reading.bytes,
		.is_wide = true};
	const struct page_plot heat = {.name = "sweep-heat",
		.title = "Metrics over both parameters",
		.reading = drawn->reading.bytes,
		.is_wide = true};
	const struct page_plot cache = {.name = "sweep-cache",
		.title = "Prefix-cache hit rate against capacity",
		.reading = drawn->cache_reading.bytes};
	struct plot *plot;

	if (drawn->axes.count == 1) {
		TRY(sheet_add(sheet, &lines, "sweep_lines.gp", &plot, error));
		fill_lines(plot, drawn);
	} else if (drawn->axes.count == 2) {
		TRY(sheet_add(sheet, &heat, "sweep_heat.gp", &plot, error));
		fill_heat(plot, drawn);
	} else {
		TRY(add_multiples(sheet, drawn, error));
	}
	TRY(sheet_add(sheet, &cache, "sweep_cache.gp", &plot, error));
	fill_cache(plot, drawn);
	return sheet_draw(sheet, error);
}

/* "max-num-seqs 64" of the second parameter, where there are curves. */
static void name_curves(struct drawn_sweep *drawn)
{
	for (uint32_t i = 0; i < curves_of(&drawn->axes); i++) {
		const struct sweep_parameter *parameter = sweep_axis(&drawn->axes, 1);
		text_add(&drawn->names[i], parameter->name);
		text_add(&drawn->names[i], " ");
		text_add(&drawn->names[i], sweep_value_text(parameter, i));
		drawn->curves[i] = drawn->names[i].bytes;
	}
}

static void drawn_sweep_close(struct drawn_sweep *drawn)
{
	for (uint32_t i = 0; i < SWEEP_CURVES_MAX; i++) {
		text_deinit(&drawn->names[i]);
	}
	text_deinit(&drawn->reading);
	text_deinit(&drawn->cache_reading);
}

enum status report_sweep(const char *directory, const struct json_object *defaults,
	struct text *page, struct error *error)
{
	struct sweep_file sweep;
	struct drawn_sweep drawn = {.sweep = &sweep};
	struct sheet *sheet = memory_take(1, sizeof(*sheet));

	enum status status = sweep_file_open(&sweep, directory, error);
	if (status == STATUS_OK) {
		sweep_axes_find(&drawn.axes, &sweep);
		choose_metrics(&drawn);
		name_curves(&drawn);
		write_readings(&drawn);
		status = add_plots(sheet, &drawn, error);
	}
	if (status == STATUS_OK) {
		struct page_sheet parts = sheet_page(sheet, defaults);
		status = page_sweep_write(page, &sweep, &parts, error);
	}
	drawn_sweep_close(&drawn);
	sheet_close(sheet);
	free(sheet);
	sweep_file_close(&sweep);
	return status;
}
