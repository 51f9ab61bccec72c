#ifndef REPORTS_SHEET_H
#define REPORTS_SHEET_H

#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "reports/figures/figures.h"
#include "reports/figures/plot.h"
#include "reports/page/page.h"

/* The figures of the page of a plan, a sweep or a history: each is one script on a table made for
   it.

       struct plot *plot;
       TRY(sheet_add(sheet, &(struct page_plot){...}, "plan_goodput.gp", &plot, error));
       fprintf(plot->table, ...);
       ...
       TRY(sheet_draw(sheet, error));
       ... sheet->shown, as page.h takes them ...
       sheet_close(sheet); */

enum { SHEET_PLOTS_MAX = 24 };

/* To be zeroed before the first call. */
struct sheet {
	uint32_t count;
	const char *scripts[SHEET_PLOTS_MAX];
	struct plot plots[SHEET_PLOTS_MAX];
	struct figure_drawing drawings[SHEET_PLOTS_MAX];
	struct page_plot shown[SHEET_PLOTS_MAX]; /* (count); texts are borrowed */
};

/* Adds a figure; the caller writes plot->table with its header and sets variables. shown: its
   drawing is set here. */
enum status sheet_add(struct sheet *sheet, const struct page_plot *shown, const char *script,
	struct plot **plot, struct error *error);

/* Draws all, one process each. */
enum status sheet_draw(struct sheet *sheet, struct error *error);

void sheet_close(struct sheet *sheet);

/* What the page takes of it. defaults: as of page_request. */
struct page_sheet sheet_page(const struct sheet *sheet, const struct json_object *defaults);

#endif
