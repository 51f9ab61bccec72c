#ifndef REPORTS_PAGE_PAGE_H
#define REPORTS_PAGE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "reports/results/fidelity.h"
#include "reports/results/history_file.h"
#include "reports/figures/figures.h"
#include "reports/results/plan_file.h"
#include "reports/results/result.h"
#include "reports/results/sweep_file.h"
#include "engine/base/text.h"

/* Every page has it in front of its kind, within its first 64 KiB: by it a page is known. */
#define PAGE_MARK "<p class=\"kind\">quire "

/* What a page is made of. All is borrowed. */
struct page_request {
	const struct result *results; /* (count), named by page_name_runs() */
	uint32_t count;
	const struct fidelity
		*fidelity;	     /* the errors of the second relative to the first; or NULL */
	struct json_object defaults; /* configuration of a run without options; node NULL: none */
	struct figure_drawing (*drawings)[FIGURES_MAX]; /* (VIEW_COUNT, figure_count) */
	const char *style;				/* page.css */
	const char *script;				/* page.js; the page is whole without it */
};

/* A figure of a table on a page. Texts are plain; a name is one for SVG ids. */
struct page_plot {
	const char *name, *title, *reading;
	bool is_wide;
	const char *const *curves; /* (curve_count) names, by their colours; NULL: none are told */
	uint32_t curve_count;
	const struct figure_drawing *drawing;
};

/* What the page of a plan, a sweep or a history is made of. All is borrowed. */
struct page_sheet {
	const struct page_plot *plots; /* (plot_count) */
	uint32_t plot_count;
	struct json_object defaults; /* as above */
	const char *style, *script;
};

/* Gives each result the name that its curves and columns have: the one or two settings in which it
   differs from the others; `real` and `simulated` where one is compared with the other; else its
   folder. The results have labels. */
void page_name_runs(struct result *results, uint32_t count, bool is_fidelity);

/* Writes the page as one self-contained HTML text. */
enum status page_write(struct text *page, const struct page_request *request, struct error *error);

/* The same of a plan: the answer with its intervals, why it is not more, figures, configurations,
   every run of the search. And of a sweep: figures and a table of its runs. */
enum status page_plan_write(struct text *page, const struct plan_file *plan,
	const struct page_sheet *sheet, struct error *error);
enum status page_sweep_write(struct text *page, const struct sweep_file *sweep,
	const struct page_sheet *sheet, struct error *error);

/* Of a gate's history of one run or more: the last run, changes of level, figures, tables. */
enum status page_history_write(struct text *page, const struct history_file *history,
	const char *path, const struct page_sheet *sheet, struct error *error);

#endif
