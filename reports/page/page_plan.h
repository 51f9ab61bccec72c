#ifndef REPORTS_PAGE_PAGE_PLAN_H
#define REPORTS_PAGE_PAGE_PLAN_H

#include "engine/base/text.h"
#include "reports/results/plan_file.h"

/* The parts of the page of a plan. */

/* A value of what varies, with its unit. */
void page_load(struct text *page, const struct plan_answer *answer, double value);

/* A bar of an interval, of which one end at least is known, or none and no bar: ends and value in
   percent of its width. An open end goes to the edge of the picture and fades. name: the style,
   sampling or model. */
void page_interval_bar(struct text *page, const char *name, const struct plan_interval *interval,
	double low, double high, struct result_value value);

/* page_plan_tables.c: the configurations that were tried, the best first, where there are several;
   and every run that the search made, folded away. */
void page_plan_configurations(struct text *page, const struct plan_file *plan);
void page_plan_probes(struct text *page, const struct plan_file *plan);

#endif
