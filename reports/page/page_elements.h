#ifndef REPORTS_PAGE_PAGE_ELEMENTS_H
#define REPORTS_PAGE_PAGE_ELEMENTS_H

#include <stdint.h>

#include "engine/base/text.h"
#include "reports/results/result.h"

/* What several sections of a page are made of. */

void page_value(struct text *page, const struct result *result, enum result_number number);

/* What a result is called, with the dot of its color. index: of the result on the page. */
void page_name(struct text *page, const struct result *result, uint32_t index);

/* A text of the configuration, or "?". */
void page_config_text(struct text *page, const struct result *result, const char *field);

/* A JSON value as a person reads it. */
void page_json(struct text *page, const cJSON *node);

/* A sentence on what a verdict says of a run. */
const char *page_verdict_meaning(const char *verdict);

/* A section that is a table; note: a line above it, or NULL. After it come the table's head, as
   page_result_columns() writes it, and rows. */
void page_table_open(struct text *page, const char *id, const char *title, const char *note);
void page_table_close(struct text *page);

/* The head of a table with a column for each result. */
void page_result_columns(
	struct text *page, const struct result *results, uint32_t count, const char *corner);

#endif
