#ifndef WORKLOADS_TRACE_CSV_ROW_H
#define WORKLOADS_TRACE_CSV_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/source_line.h"

/* Lines of comma-separated values, addressed by the names in the header line. A field may be in
   double quotes, but must not contain a line break. */

enum { CSV_FIELDS_MAX = 64, CSV_COLUMNS_MAX = 8 };

struct csv_field {
	const char *text; /* points into the line; not zero-terminated */
	size_t bytes;
};

struct csv_column {
	const char *name;
	bool is_required;
};

struct csv_layout {
	const struct csv_column *columns; /* (column_count) the wanted columns */
	uint32_t column_count;
	uint32_t field_of[CSV_COLUMNS_MAX]; /* by column: index of its field in a line; CSV_ABSENT:
					       none */
	uint32_t field_count;		    /* of every line */
	char note[UNREAD_NOTE_BYTES];	    /* of a header that may lack a column by its spelling;
					       "": none */
};

static const uint32_t CSV_ABSENT = UINT32_MAX;

/* The fields of a line; fields: (CSV_FIELDS_MAX). 0: the line is malformed or has too many. */
uint32_t csv_split(const char *line, size_t line_bytes, struct csv_field *fields);

/* columns: (column_count), borrowed for the layout's life. */
enum status csv_header(struct csv_layout *layout, const struct csv_column *columns,
	uint32_t column_count, const struct source_line *at, const char *line, size_t line_bytes,
	struct error *error);

/* values: (column_count), in the order of the columns; empty where absent. */
enum status csv_line(const struct csv_layout *layout, const struct source_line *at,
	const char *line, size_t line_bytes, struct csv_field *values, struct error *error);

/* An integer in [minimum, maximum]; 20.0 is one. A minimum of 0 is that of tokens of an answer,
   whose row is skipped at 0. */
enum status csv_count(const struct source_line *at, const char *name, const struct csv_field *field,
	uint64_t minimum, uint64_t maximum, uint64_t *value, struct error *error);

#endif
