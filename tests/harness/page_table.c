#include "tests/harness/page_table.h"

#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"

/* Takes the next row apart. */
static bool take(const char **at, const char *table_end, struct page_row *row)
{
	const char *from = strstr(*at, "<tr>"), *end = from == NULL ? NULL : strstr(from, "</tr>");

	if (end == NULL || end > table_end) {
		return false;
	}
	row->count = 0;
	for (from += 4; from < end;) {
		const char *text = strchr(from, '>') + 1, *close = text;
		while (strncmp(close, "</td>", 5) != 0 && strncmp(close, "</th>", 5) != 0) {
			close++;
		}
		require(row->count < PAGE_CELLS_MOST && close - text < PAGE_CELL_BYTES &&
				text - from < PAGE_CELL_BYTES,
			"a larger row");
		snprintf(row->tags[row->count], PAGE_CELL_BYTES, "%.*s", (int)(text - from - 2),
			from + 1);
		snprintf(row->cells[row->count++], PAGE_CELL_BYTES, "%.*s", (int)(close - text),
			text);
		from = close + 5;
	}
	*at = end + 5;
	return true;
}

void shown_table_open(struct shown_table *table, const char *page)
{
	const char *head = strstr(page, "<thead>");

	require(head != NULL, "no table");
	table->at = head;
	table->end = strstr(head, "</table>");
	require(table->end != NULL, "a table without an end");
	require(take(&table->at, table->end, &table->titles), "no titles");
}

bool shown_table_next(struct shown_table *table)
{
	return take(&table->at, table->end, &table->row);
}

uint32_t shown_table_column(const struct shown_table *table, const char *title)
{
	for (uint32_t i = 0; i < table->titles.count; i++) {
		if (strcmp(table->titles.cells[i], title) == 0) {
			return i;
		}
	}
	require(false, "no column '%s'", title);
	return 0;
}

void shown_table_require(const struct shown_table *table, const char *title, const char *expected)
{
	const char *found = table->row.cells[shown_table_column(table, title)];

	require(strcmp(found, expected) == 0, "%s: '%s', expected '%s'", title, found, expected);
}
