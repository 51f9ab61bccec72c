#ifndef TESTS_HARNESS_PAGE_TABLE_H
#define TESTS_HARNESS_PAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* A table of a page, row by row, whose cells are found by the titles of their columns. */

enum { PAGE_CELLS_MOST = 64, PAGE_CELL_BYTES = 512 };

struct page_row {
	uint32_t count;
	char cells[PAGE_CELLS_MOST][PAGE_CELL_BYTES]; /* what is between the tags */
	char tags[PAGE_CELLS_MOST][PAGE_CELL_BYTES];  /* the opening tag without < and > */
};

struct shown_table {
	struct page_row titles, row;
	const char *at, *end; /* behind the row, and behind the table */
};

/* Finds the first table behind `page` that has a head, and reads its titles. */
void shown_table_open(struct shown_table *table, const char *page);

/* Goes to the next row. False: there is none. */
bool shown_table_next(struct shown_table *table);

/* The place of a column's cell in a row. A title that is not there is a failure. */
uint32_t shown_table_column(const struct shown_table *table, const char *title);

/* Demands what the row has in a column. */
void shown_table_require(const struct shown_table *table, const char *title, const char *expected);

#endif
