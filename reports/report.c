#include "reports/report.h"

#include "engine/base/check.h"
#include "engine/base/embedded_file.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "reports/results/fidelity.h"
#include "reports/figures/figures.h"
#include "reports/figures/gnuplot.h"
#include "reports/page/page.h"
#include "reports/results/result.h"
#include "engine/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct embedded_file report_files[];
extern const uint32_t report_files_count;

_Static_assert((int)REPORT_RESULTS_MAX <= (int)GNUPLOT_ARGUMENTS_MAX, "a folder is an argument");

/* Everything a report owns, released in one place. */
struct report {
	uint32_t count;
	const char *directories[REPORT_RESULTS_MAX]; /* of the results, in the order of the page */
	struct result results[REPORT_RESULTS_MAX];
	bool has_fidelity; /* two results: a real run and a simulated one, in this order */
	struct fidelity fidelity;
	struct gnuplot gnuplots[FIGURES_MAX];
	struct text drawings[FIGURES_MAX];
	struct text page;
};

static const struct embedded_file *file_named(const char *name)
{
	const struct embedded_file *file =
		embedded_file_find(report_files, report_files_count, name);

	check(file != NULL);
	return file;
}

static bool knows_hits(const struct report *report)
{
	for (uint32_t i = 0; i < report->count; i++) {
		if (report->results[i].numbers[VALUE_HIT_RATE].has_value) {
			return true;
		}
	}
	return false;
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
		if (figure->need != FIGURE_OF_KERNELS || report->results[i].has_kernels) {
			chosen[count++] = &report->results[i];
		}
	}
	return count;
}

/* The variables of a figure's script, then style.gp, then the script itself. */
static void add_script(struct text *script, const struct result *const *chosen, uint32_t count,
	const struct figure *figure, bool has_real)
{
	text_add(script, "has_legend = 0\n");
	text_add(script, has_real ? "has_real = 1\n" : "");
	for (uint32_t i = 0; i < count; i++) {
		const struct result *result = chosen[i];
		text_format(script, "label_%u = ", i + 1);
		text_add_gnuplot_string(script, result->label.bytes);
		text_add(script, "\n");
		const cJSON *blocks = json_find(&result->config, "kv_blocks");
		if (cJSON_IsNumber(blocks) && blocks->valuedouble > 0) {
			text_format(script, "kv_capacity_%u = %.17g\n", i + 1, blocks->valuedouble);
		}
	}
	if (figure->metric != NULL) {
		text_format(script, "metric = '%s'\n", figure->metric);
	}
	const struct embedded_file *style = file_named("style.gp");
	const struct embedded_file *body = file_named(figure->script);
	text_add_bytes(script, style->bytes, style->size);
	text_add_bytes(script, body->bytes, body->size);
}

/* Starts gnuplot for a figure, unless no result has the data it shows. */
static enum status start_figure(struct report *report, uint32_t index, struct error *error)
{
	struct text script = {0};
	const struct result *chosen[REPORT_RESULTS_MAX];
	const char *directories[REPORT_RESULTS_MAX];
	uint32_t count = choose(report, &figures[index], chosen);

	if (count == 0) {
		return STATUS_OK;
	}
	for (uint32_t i = 0; i < count; i++) {
		directories[i] = chosen[i]->directory;
	}
	bool has_real = report->has_fidelity && count == report->count;
	add_script(&script, chosen, count, &figures[index], has_real);
	enum status status =
		gnuplot_start(&report->gnuplots[index], &script, directories, count, error);
	text_deinit(&script);
	return status;
}

static enum status start_figures(struct report *report, struct error *error)
{
	for (uint32_t i = 0; i < figure_count; i++) {
		TRY(start_figure(report, i, error));
	}
	return STATUS_OK;
}

/* Draws all figures in parallel, one process each: gnuplot takes most of a report's time. */
static enum status draw_figures(struct report *report, struct error *error)
{
	enum status status = start_figures(report, error);

	for (uint32_t i = 0; i < figure_count; i++) {
		struct error later = {0};
		bool has_failed = status != STATUS_OK;
		enum status finished = gnuplot_finish(
			&report->gnuplots[i], &report->drawings[i], has_failed ? &later : error);
		status = has_failed ? status : finished;
	}
	return status;
}

static enum status write_page(const struct text *page, const char *out_path, struct error *error)
{
	struct output_file output;

	TRY(output_file_open(&output, out_path, error));
	fwrite(page->bytes, 1, page->byte_count, output.file); /* errors are found by the commit */
	return output_file_commit(&output, error);
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
	TRY(open_results(report, error));
	TRY(find_fidelity(report, error));
	results_label(report->results, report->count);
	TRY(draw_figures(report, error));
	TRY(page_write(&report->page, report->results, report->count,
		report->has_fidelity ? &report->fidelity : NULL, report->drawings,
		file_named("page.css")->bytes, error));
	return write_page(&report->page, out_path, error);
}

enum status report_write(
	const char *const *directories, uint32_t count, const char *out_path, struct error *error)
{
	check(count > 0);
	if (count > REPORT_RESULTS_MAX) {
		return error_set(error, STATUS_USAGE,
			"found %u result folders, expected at most %d: more could not be told "
			"apart",
			count, REPORT_RESULTS_MAX);
	}
	struct report *report = memory_take(1, sizeof(*report));
	report->count = count;
	memcpy(report->directories, directories, count * sizeof(*directories));
	enum status status = make_report(report, out_path, error);
	for (uint32_t i = 0; i < count; i++) {
		result_close(&report->results[i]);
	}
	for (uint32_t i = 0; i < figure_count; i++) {
		text_deinit(&report->drawings[i]);
	}
	text_deinit(&report->page);
	free(report);
	return status;
}
