#ifndef REPORTS_PAGE_PAGE_ELEMENTS_H
#define REPORTS_PAGE_PAGE_ELEMENTS_H

#include <stdint.h>

#include "engine/base/text.h"
#include "reports/results/result.h"

/* Elements that several sections of a page share. */

void page_value(struct text *page, const struct result *result, enum result_number number);

/* A result's name with a dot in its color. index: of the result on the page. */
void page_name(struct text *page, const struct result *result, uint32_t index);

/* A text of the configuration, or "?". */
void page_config_text(struct text *page, const struct result *result, const char *field);

/* A JSON value as readable text. */
void page_json(struct text *page, const cJSON *node);

/* A sentence that explains a verdict. */
const char *page_verdict_meaning(const char *verdict);

/* Opens a section that is a table; note: a line above it, or NULL. The caller then writes the
   table's head with page_result_columns(), and rows. */
void page_table_open(struct text *page, const char *id, const char *title, const char *note);
void page_table_close(struct text *page);

/* The head of a table with a column for each result. */
void page_result_columns(
	struct text *page, const struct result *results, uint32_t count, const char *corner);

#endif
