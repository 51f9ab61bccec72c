#ifndef REPORTS_PAGE_PAGE_SECTIONS_H
#define REPORTS_PAGE_PAGE_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"
#include "reports/figures/figures.h"
#include "reports/page/page.h"
#include "reports/results/fidelity.h"
#include "reports/results/result.h"

/* The sections of a page, from top to bottom; page.c puts them together. results: (count),
   labelled. */

/* page_runs.c: in what the runs differ. */
bool page_setting_differs(const struct result *results, uint32_t count, const char *field);
bool page_traces_differ(const struct result *results, uint32_t count);
void page_run_differences(
	struct text *page, const struct result *results, uint32_t count, uint32_t index);

/* page_head.c: everything up to <main>, which it opens, then warnings about whole runs. */
/* Everything up to the header's <h1>, which the caller writes. title and kind are plain texts. */
void page_open(struct text *page, const char *title, const char *kind, const char *style);
/* The same with the title "WHAT: NAME", and the <h1>. */
void page_open_titled(
	struct text *page, const char *what, const char *name, const char *kind, const char *style);
/* Links to sections, the end of the header, and <main>. links: ends in a target NULL. */
struct page_link {
	const char *target, *title;
};
void page_contents(struct text *page, const struct page_link *links);
void page_head(struct text *page, const struct result *results, uint32_t count, bool is_fidelity,
	const char *style);
void page_banners(struct text *page, const struct result *results, uint32_t count);
/* The table of groups of unlike replicas; NULL: the replicas are equal. */
const char *page_fleet_table(const struct result *result);
void page_caution(struct text *page); /* that step times are an estimate */
/* A caution about the run of this name; note NULL or "": none. */
void page_note(struct text *page, const char *name, const char *note);
void page_calibration(struct text *page, const struct result *results, uint32_t count);

/* page_cards.c: of one result. */
void page_verdict(struct text *page, const struct result *result);
void page_cards(struct text *page, const struct result *result);

/* page_levels.c: the levels of results of a ramp; nothing where there are none. */
bool page_has_levels(const struct result *results, uint32_t count);
void page_levels(struct text *page, const struct result *results, uint32_t count);

/* page_fleet.c: how evenly replicas were loaded; nothing where no result has several. */
bool page_has_fleet(const struct result *results, uint32_t count);
void page_fleet(struct text *page, const struct result *results, uint32_t count);

/* page_fidelity.c: a simulated run compared with a real one: their names, the most important
   errors, all latencies, then counts, step times and KV blocks. The real run is the page's first.
   */
void page_fidelity(struct text *page, const struct fidelity *fidelity);

/* page_tables.c: key figures side by side, all latencies, all figures of summary.json. */
void page_comparison(struct text *page, const struct result *results, uint32_t count);
void page_latencies(struct text *page, const struct result *results, uint32_t count);
void page_totals(struct text *page, const struct result *results, uint32_t count);

/* page_figures.c. drawings: (VIEW_COUNT, figure_count). */
enum status page_figures(struct text *page, const struct result *results, uint32_t count,
	struct figure_drawing (*drawings)[FIGURES_MAX], struct error *error);

/* The figures of a page of tables; those that would be empty are named, with the reason. */
enum status page_plots(
	struct text *page, const struct page_plot *plots, uint32_t count, struct error *error);

/* page_fields.c: a row for each field. Settings with their defaults are folded away. */
void page_configuration(struct text *page, const struct result *results, uint32_t count,
	const struct json_object *defaults);
/* The same of one object, and of a provenance.json, which may have no root. */
void page_one_configuration(
	struct text *page, const struct json_object *config, const struct json_object *defaults);
void page_one_provenance(struct text *page, const struct json_document *provenance);
void page_provenance(struct text *page, const struct result *results, uint32_t count);

/* page_data.c: an element with a JSON array: folder, summary.json and provenance.json of each
   result, for other tools. */
void page_folder_name(struct text *name, const char *directory); /* without what is above it */
void page_data_of(struct text *page, const char *label, const char *name, const cJSON *summary,
	const cJSON *provenance);
void page_data(struct text *page, const struct result *results, uint32_t count);
/* What is behind the sections of a page that is not of runs: one element of data, as
   page_data_of(), the script and the end. */
void page_close(struct text *page, const char *label, const char *name, const cJSON *summary,
	const cJSON *provenance, const char *script);

#endif
