#include "reports/report.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "reports/results/fidelity.h"
#include "reports/figures/figures.h"
#include "reports/figures/gnuplot.h"
#include "reports/page/page.h"
#include "reports/report_files.h"
#include "reports/results/plan_file.h"
#include "reports/results/result.h"
#include "reports/results/result_names.h"
#include "reports/results/sweep_file.h"
#include "engine/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)REPORT_RESULTS_MAX <= (int)GNUPLOT_ARGUMENTS_MAX, "a folder is an argument");

/* Everything a report owns, released in one place. */
struct report {
	uint32_t count;
	const char *directories[REPORT_RESULTS_MAX]; /* of the results, in the order of the page */
	struct result results[REPORT_RESULTS_MAX];
	bool has_fidelity; /* two results: a real run and a simulated one, in this order */
	struct fidelity fidelity;
	struct gnuplot gnuplots[VIEW_COUNT][FIGURES_MAX];
	struct figure_drawing drawings[VIEW_COUNT][FIGURES_MAX];
	struct json_document defaults;
	struct text page;
};

static bool knows_hits(const struct report *report)
{
	for (uint32_t i = 0; i < report->count; i++) {
		if (report->results[i].numbers[VALUE_HIT_RATE].has_value) {
			return true;
		}
	}
	return false;
}

/* The list of a fleet's replicas, or NULL. */
static const cJSON *replicas_of(const struct result *result)
{
	const cJSON *fleet = json_find(&result->root, SUMMARY_FLEET);
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(fleet, "replicas");

	return cJSON_IsArray(list) && cJSON_GetArraySize(list) > 1 ? list : NULL;
}

/* Collects the results that a figure draws; returns their number. */
static uint32_t choose(const struct report *report, const struct figure *figure,
	const struct result *chosen[REPORT_RESULTS_MAX])
{
	uint32_t count = 0;

	if (figure->need == FIGURE_OF_HITS && !knows_hits(report)) {
		return 0;
	}
	for (uint32_t i = 0; i < report->count; i++) {
		const struct result *result = &report->results[i];
		bool is_able = figure->need == FIGURE_OF_KERNELS    ? result->has_kernels
			       : figure->need == FIGURE_OF_REQUESTS ? result->has_requests
			       : figure->need == FIGURE_OF_FLEETS   ? replicas_of(result) != NULL
								    : true;
		if (is_able) {
			chosen[count++] = result;
		}
	}
	return count;
}

/* The levels of a ramp and the measured window, which figures over time mark. */
static void add_marks(struct text *script, const struct result *result)
{
	const cJSON *levels = json_find(&result->root, "levels");
	const cJSON *window = json_find(&result->root, "window");
	const cJSON *level = NULL;
	uint32_t count = 0;

	cJSON_ArrayForEach(level, levels)
	{
		const cJSON *start = cJSON_GetObjectItemCaseSensitive(level, "start_s");
		const cJSON *rate = cJSON_GetObjectItemCaseSensitive(level, "rate_per_s");
		if (cJSON_IsNumber(start) && cJSON_IsNumber(rate)) {
			count++;
			text_format(script, "level_start_%u = %.17g\nlevel_rate_%u = %.17g\n",
				count, start->valuedouble, count, rate->valuedouble);
		}
	}
	text_format(script, "level_count = %u\n", count);
	const cJSON *start = cJSON_GetObjectItemCaseSensitive(window, "start_s");
	const cJSON *end = cJSON_GetObjectItemCaseSensitive(window, "end_s");
	if (cJSON_IsNumber(start) && cJSON_IsNumber(end)) {
		text_format(script, "window_start = %.17g\nwindow_end = %.17g\n",
			start->valuedouble, end->valuedouble);
	}
}

/* A field of a replica; NaN where it has none. */
static double replica_number(const cJSON *replica, const char *field)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(replica, field);

	return cJSON_IsNumber(node) && node->valuedouble >= 0 ? node->valuedouble : NAN;
}

/* The data that replicas.gp draws. */
static void add_replicas(struct text *script, const struct result *result, uint32_t number)
{
	const cJSON *replica = NULL;
	uint32_t index = 0;

	text_format(script, "$replicas_%u << END_OF_REPLICAS\n", number);
	cJSON_ArrayForEach(replica, replicas_of(result))
	{
		text_format(script, "%u\t%.9g\t%.9g\t%.9g\t%.9g\n", index++,
			replica_number(replica, "prompt_tokens"),
			replica_number(replica, "output_tokens"),
			100 * replica_number(replica, "hit_rate"),
			replica_number(replica, "busy_s"));
	}
	text_add(script, "END_OF_REPLICAS\n");
}

/* The variables that style.gp explains, of one result. */
static void add_variables(struct text *script, const struct result *result, uint32_t number,
	const struct figure *figure)
{
	const cJSON *blocks = json_find(&result->config, "kv_blocks");
	const cJSON *block_size = json_find(&result->config, "block_size");
	const cJSON *replicas = json_find(&result->config, "replicas");
	const cJSON *fleet = json_find(&result->config, "fleet");
	/* A table of replicas that differ may give each its own pool. */
	bool is_one_size = !cJSON_IsString(fleet) || strcmp(fleet->valuestring, "none") == 0;
	double pools = cJSON_IsNumber(replicas) ? replicas->valuedouble : 1;
	const char *metric = figure->metric == NULL ? "" : figure->metric;
	const struct result_value *limit =
		strcmp(metric, "ttft") == 0   ? &result->numbers[VALUE_SLO_TTFT]
		: strcmp(metric, "tpot") == 0 ? &result->numbers[VALUE_SLO_TPOT]
		: strcmp(metric, "e2e") == 0  ? &result->numbers[VALUE_SLO_E2E]
					      : NULL;

	text_format(script, "label_%u = ", number);
	text_add_gnuplot_string(script, result->legend.bytes);
	text_add(script, "\n");
	if (is_one_size && cJSON_IsNumber(block_size)) {
		text_format(script, "kv_block_size_%u = %.17g\n", number, block_size->valuedouble);
	}
	if (is_one_size && cJSON_IsNumber(blocks) && blocks->valuedouble > 0) {
		text_format(script, "kv_capacity_%u = %.17g\n", number,
			pools * blocks->valuedouble); /* the timeline has the sum of all replicas */
	}
	if (!result->numbers[VALUE_HIT_RATE].has_value) {
		text_format(script, "no_hits_%u = 1\n", number);
	}
	if (limit != NULL && limit->has_value && limit->value > 0) {
		text_format(script, "slo_%u = %.17g\n", number, limit->value / 1000);
	}
}

/* The variables of a figure's script, then style.gp, then the script itself. */
static void add_script(struct text *script, const struct result *const *chosen, uint32_t count,
	const struct figure *figure, enum figure_view view, bool has_real)
{
	text_add(script, "has_legend = 0\nhas_notes = 1\n");
	text_add(script, has_real ? "has_real = 1\n" : "");
	text_add(script, view == VIEW_LINEAR ? "is_linear = 1\n" : "");
	for (uint32_t i = 0; i < count; i++) {
		add_variables(script, chosen[i], i + 1, figure);
		if (figure->need == FIGURE_OF_FLEETS) {
			add_replicas(script, chosen[i], i + 1);
		}
	}
	if (count == 1) {
		add_marks(script, chosen[0]);
	}
	if (figure->metric != NULL) {
		text_format(script, "metric = '%s'\n", figure->metric);
	}
	const struct embedded_file *style = report_file("style.gp");
	const struct embedded_file *body = report_file(figure->script);
	text_add_bytes(script, style->bytes, style->size);
	text_add_bytes(script, body->bytes, body->size);
}

/* Starts gnuplot for a figure, unless no result has the data it shows. */
static enum status start_figure(
	struct report *report, enum figure_view view, uint32_t index, struct error *error)
{
	struct text script = {0};
	const struct result *chosen[REPORT_RESULTS_MAX];
	const char *directories[REPORT_RESULTS_MAX];
	uint32_t count = choose(report, &figures[index], chosen);

	if (count == 0 || (view == VIEW_LINEAR && !figures[index].has_linear)) {
		return STATUS_OK;
	}
	for (uint32_t i = 0; i < count; i++) {
		directories[i] = chosen[i]->directory;
	}
	bool has_real = report->has_fidelity && count == report->count;
	add_script(&script, chosen, count, &figures[index], view, has_real);
	enum status status =
		gnuplot_start(&report->gnuplots[view][index], &script, directories, count, error);
	text_deinit(&script);
	return status;
}

static enum status start_figures(struct report *report, struct error *error)
{
	for (uint32_t i = 0; i < VIEW_COUNT * figure_count; i++) {
		TRY(start_figure(report, i / figure_count, i % figure_count, error));
	}
	return STATUS_OK;
}

/* Draws all figures in parallel, one process each: gnuplot takes most of a report's time. */
static enum status draw_figures(struct report *report, struct error *error)
{
	enum status status = start_figures(report, error);

	for (uint32_t i = 0; i < VIEW_COUNT * figure_count; i++) {
		struct figure_drawing *drawing =
			&report->drawings[i / figure_count][i % figure_count];
		struct error later = {0};
		bool has_failed = status != STATUS_OK;
		enum status finished =
			gnuplot_finish(&report->gnuplots[i / figure_count][i % figure_count],
				&drawing->svg, &drawing->notes, has_failed ? &later : error);
		status = has_failed ? status : finished;
	}
	return status;
}

static enum status open_results(struct report *report, struct error *error)
{
	for (uint32_t i = 0; i < report->count; i++) {
		TRY(result_open(&report->results[i], report->directories[i], error));
	}
	return STATUS_OK;
}

/* A real run and a simulated one are compared as such. The real one comes first on the page,
   whichever was named first, since every error is relative to it. */
static enum status find_fidelity(struct report *report, struct error *error)
{
	struct result *results = report->results;

	report->has_fidelity = report->count == 2 && fidelity_is_pair(&results[0], &results[1]);
	if (!report->has_fidelity) {
		return STATUS_OK;
	}
	if (fidelity_is_real(&results[1])) {
		const char *simulated = report->directories[0];
		report->directories[0] = report->directories[1];
		report->directories[1] = simulated;
		result_close(&results[0]);
		result_close(&results[1]);
		TRY(open_results(report, error));
	}
	return fidelity_open(&report->fidelity, &results[0], &results[1], error);
}

static enum status make_report(struct report *report, const char *out_path, struct error *error)
{
	struct page_request request = {.results = report->results,
		.count = report->count,
		.defaults = {.node = report->defaults.root},
		.drawings = report->drawings,
		.style = report_file("page.css")->bytes,
		.script = report_file("page.js")->bytes};

	TRY(open_results(report, error));
	TRY(find_fidelity(report, error));
	results_label(report->results, report->count);
	page_name_runs(report->results, report->count, report->has_fidelity);
	TRY(draw_figures(report, error));
	request.fidelity = report->has_fidelity ? &report->fidelity : NULL;
	TRY(page_write(&report->page, &request, error));
	return report_write_page(&report->page, out_path, error);
}

static void close_report(struct report *report)
{
	for (uint32_t i = 0; i < report->count; i++) {
		result_close(&report->results[i]);
	}
	for (uint32_t i = 0; i < VIEW_COUNT * figure_count; i++) {
		text_deinit(&report->drawings[i / figure_count][i % figure_count].svg);
		text_deinit(&report->drawings[i / figure_count][i % figure_count].notes);
	}
	json_document_close(&report->defaults);
	text_deinit(&report->page);
	free(report);
}

/* What a page can be of. All but replays stand alone. */
enum report_kind { REPORT_REPLAY, REPORT_PLAN, REPORT_SWEEP, REPORT_HISTORY };

static const char *const kind_names[] = {"replay", "plan", "sweep", "gate's history"};

static enum status find_kind(const char *path, enum report_kind *kind, struct error *error)
{
	bool is_plan, is_sweep;

	if (report_is_file(path)) {
		*kind = REPORT_HISTORY;
		return STATUS_OK;
	}
	TRY(report_folder_has(path, PLAN_SUMMARY, &is_plan, error));
	TRY(report_folder_has(path, SWEEP_SUMMARY, &is_sweep, error));
	if (is_plan && is_sweep) {
		return error_set(error, STATUS_INPUT,
			"%.500s: found " PLAN_SUMMARY " and " SWEEP_SUMMARY ", expected one", path);
	}
	*kind = is_plan ? REPORT_PLAN : is_sweep ? REPORT_SWEEP : REPORT_REPLAY;
	return STATUS_OK;
}

/* The page of what stands alone. */
static enum status write_sheet(const char *path, enum report_kind kind, const char *out_path,
	const struct json_object *defaults, struct error *error)
{
	struct text page = {0};

	enum status status = kind == REPORT_PLAN    ? report_plan(path, defaults, &page, error)
			     : kind == REPORT_SWEEP ? report_sweep(path, defaults, &page, error)
						    : report_history(path, &page, error);
	if (status == STATUS_OK) {
		status = report_write_page(&page, out_path, error);
	}
	text_deinit(&page);
	return status;
}

static enum status write_any(struct report *report, const char *out_path, struct error *error)
{
	const struct json_object defaults = {.node = report->defaults.root};

	for (uint32_t i = 0; i < report->count; i++) {
		const char *path = report->directories[i];
		enum report_kind kind = REPORT_REPLAY;
		TRY(find_kind(path, &kind, error));
		if (kind == REPORT_REPLAY) {
			continue;
		}
		if (report->count > 1) {
			return error_set(error, STATUS_USAGE,
				"%.400s: found a %s beside other folders, expected it alone", path,
				kind_names[kind]);
		}
		return write_sheet(path, kind, out_path, &defaults, error);
	}
	return make_report(report, out_path, error);
}

enum status report_write(const char *const *directories, uint32_t count, const char *out_path,
	const char *defaults, struct error *error)
{
	check(count > 0);
	TRY(result_names_refuse("--out", out_path, "report.html", error));
	if (count > REPORT_RESULTS_MAX) {
		return error_set(error, STATUS_USAGE,
			"found %u result folders, expected at most %d: more could not be told "
			"apart",
			count, REPORT_RESULTS_MAX);
	}
	struct report *report = memory_take(1, sizeof(*report));
	report->count = count;
	memcpy(report->directories, directories, count * sizeof(*directories));
	enum status status = defaults == NULL ? STATUS_OK
					      : json_document_parse(&report->defaults, "defaults",
							defaults, strlen(defaults), error);
	if (status == STATUS_OK) {
		status = write_any(report, out_path, error);
	}
	close_report(report);
	return status;
}
