#ifndef REPORTS_RESULTS_FIELDS_H
#define REPORTS_RESULTS_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/table.h"
#include "reports/results/metric.h"

/* Fields and cells of the files that reports read: numbers that may be missing, and words of a
   list. A refusal names the file, the field or cell, what was found and what was expected. */

/* A number in [0, maximum]; where is_optional, null is no value. Sticky. */
enum status field_number(const struct json_object *object, const char *field, bool is_optional,
	double maximum, struct result_value *out, struct error *error);

/* One of the words (ends in NULL); its place in the list. expected: names them. Sticky. */
enum status field_word(const struct json_object *object, const char *field,
	const char *const *words, const char *expected, uint32_t *place, struct error *error);

/* A text; "" where it is null. Sticky. */
enum status field_text(
	const struct json_object *object, const char *field, const char **out, struct error *error);

/* The same; "" where it is absent too. */
enum status field_optional_text(
	const struct json_object *object, const char *field, const char **out, struct error *error);

/* Opens DIR/provenance.json, or nothing where there is none. */
enum status provenance_open(
	struct json_document *provenance, const char *directory, struct error *error);

/* The number of a cell, in [0, maximum]: digits with a point or an exponent; `-` is no value.
   Sticky. */
enum status cell_number(const struct table_reader *table, uint32_t column, double maximum,
	struct result_value *out, struct error *error);

/* Whether a cell is such a number or `-`. */
bool cell_is_number(const char *cell);

/* As field_word(). Sticky. */
enum status cell_word(const struct table_reader *table, uint32_t column, const char *const *words,
	const char *expected, uint32_t *place, struct error *error);

#endif
