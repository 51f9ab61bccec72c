#ifndef WORKLOADS_TRACE_JSON_ROW_H
#define WORKLOADS_TRACE_JSON_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/source_line.h"

/* Reads one JSON object on a line for the fields of a table. Other fields are skipped, whatever
   their values. YAJL parses: strict JSON, checked UTF-8, no comments.
 */

static const uint64_t JSON_INFINITE = UINT64_MAX;

enum json_kind {
	JSON_COUNT,  /* .number: an integer in [minimum, maximum] */
	JSON_SIGNED, /* .number: what an integer is without its sign, in [minimum, maximum];
			.is_negative */
	JSON_TIME,   /* .number: a decimal times 10^places, up to maximum */
	JSON_LABEL,  /* .text: a string, or an integer as written */
	JSON_IDS,    /* .ids: an array of integers, each up to maximum */
	JSON_TIMES,  /* .ids: an array of decimals times 10^places, each up to maximum */
	JSON_RATE,   /* .number: a decimal times 10^places, up to maximum, or JSON_INFINITE for the
			text "inf" */
};

struct json_field {
	const char *name;
	enum json_kind kind;
	bool is_required;
	uint32_t places;
	uint64_t minimum, maximum;
	const char *expected; /* for errors: "an integer in [1, 268435456]" */
};

/* Zero where the field is absent, or null and not required. text and ids are borrowed from the
   reader and valid until its next row. */
struct json_value {
	bool is_present, is_negative;
	uint64_t number;
	const char *text;
	const uint64_t *ids; /* (id_count) */
	size_t id_count;
};

enum { JSON_FIELDS_MAX = 12, JSON_DEPTH_MAX = 64, JSON_IDS_MAX = 1 << 22 };

struct json_reader;

/* fields: (field_count), borrowed for the reader's life. */
struct json_reader *json_reader_open(const struct json_field *fields, uint32_t field_count);
void json_reader_close(struct json_reader *reader);

/* values: (field_count), in the order of the table. */
enum status json_reader_row(struct json_reader *reader, const struct source_line *at,
	const char *line, size_t line_bytes, struct json_value *values, struct error *error);

/* What must be known of names that the first rows have and the table has not; NULL: nothing. */
const char *json_reader_note(const struct json_reader *reader);

/* A value of a JSON_SIGNED field whose maximum is INT32_MAX. */
int32_t json_signed(const struct json_value *value);

#endif
