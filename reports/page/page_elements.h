#ifndef REPORTS_PAGE_PAGE_ELEMENTS_H
#define REPORTS_PAGE_PAGE_ELEMENTS_H

#include <stdint.h>

#include "engine/base/text.h"
#include "reports/results/result.h"

/* Elements that several sections of a page share. */

void page_value(struct text *page, const struct result *result, enum result_number number);

/* A result's name with a line in its color and dashes. index: of the result on the page. */
void page_name(struct text *page, const struct result *result, uint32_t index);

/* A key figure; the caller writes its value and details in between. state: "", "met" or "missed".
 */
void page_card_open(struct text *page, const char *title, const char *state);
void page_card_close(struct text *page);

/* A text of the configuration, or "?". */
void page_config_text(struct text *page, const struct result *result, const char *field);

/* A JSON value as readable text. */
void page_json(struct text *page, const cJSON *node);

/* A sentence that explains a verdict. */
const char *page_verdict_meaning(const struct result *result);

/* Opens a section that is a table; note: a line above it, or NULL. The caller then writes the
   table's head with page_result_columns(), and rows. */
void page_table_open(struct text *page, const char *id, const char *title, const char *note);
void page_table_close(struct text *page);

/* What page_table_close() writes before the end of the section. */
void page_rows_close(struct text *page);

/* The head of a table with a column for each result. */
void page_result_columns(
	struct text *page, const struct result *results, uint32_t count, const char *corner);

#endif
