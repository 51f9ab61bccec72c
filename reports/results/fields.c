#include "reports/results/fields.h"

#include "engine/base/path.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status field_number(const struct json_object *object, const char *field, bool is_optional,
	double maximum, struct result_value *out, struct error *error)
{
	TRY(error->status);
	const cJSON *node = json_find(object, field);
	char expected[64] = "a number >= 0";

	*out = (struct result_value){0};
	if (is_optional && cJSON_IsNull(node)) {
		return STATUS_OK;
	}
	if (!cJSON_IsNumber(node)) {
		return json_refuse(
			object, field, is_optional ? "a number or null" : "a number", error);
	}
	if (maximum < DBL_MAX) {
		snprintf(expected, sizeof(expected), "a number from 0 to %g", maximum);
	}
	if (!(node->valuedouble >= 0 && node->valuedouble <= maximum)) {
		return json_refuse(object, field, expected, error);
	}
	TRY(json_double(object, field, 0, maximum, &out->value, error));
	out->has_value = true;
	return STATUS_OK;
}

static bool find_word(const char *word, const char *const *words, uint32_t *place)
{
	for (uint32_t i = 0; words[i] != NULL; i++) {
		if (strcmp(word, words[i]) == 0) {
			*place = i;
			return true;
		}
	}
	return false;
}

enum status field_word(const struct json_object *object, const char *field,
	const char *const *words, const char *expected, uint32_t *place, struct error *error)
{
	const char *word;

	TRY(json_text(object, field, &word, error));
	return find_word(word, words, place) ? STATUS_OK
					     : json_refuse(object, field, expected, error);
}

enum status field_text(
	const struct json_object *object, const char *field, const char **out, struct error *error)
{
	TRY(error->status);
	*out = "";
	return cJSON_IsNull(json_find(object, field)) ? STATUS_OK
						      : json_text(object, field, out, error);
}

enum status field_optional_text(
	const struct json_object *object, const char *field, const char **out, struct error *error)
{
	*out = "";
	return json_find(object, field) == NULL ? error->status
						: field_text(object, field, out, error);
}

enum status provenance_open(
	struct json_document *provenance, const char *directory, struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct json_object root;
	bool is_there = false;

	TRY(path_format(path, error, "%s/%s", directory, RESULT_PROVENANCE));
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return STATUS_OK;
	}
	TRY(json_document_open(provenance, path, error));
	return json_root(&root, provenance, error);
}

/* The number that a whole cell is. */
static bool read_cell(const char *cell, double *value)
{
	char *end = NULL;

	if (*cell < '0' || *cell > '9') {
		return false; /* strtod would take blanks, signs, "inf" and "nan" */
	}
	*value = strtod(cell, &end);
	return *end == '\0' && isfinite(*value) && strpbrk(cell, "xX") == NULL;
}

bool cell_is_number(const char *cell)
{
	double value;

	return strcmp(cell, "-") == 0 || read_cell(cell, &value);
}

enum status cell_number(const struct table_reader *table, uint32_t column, double maximum,
	struct result_value *out, struct error *error)
{
	TRY(error->status);
	const char *cell = table->cells[column];
	char expected[64];

	*out = (struct result_value){0};
	if (strcmp(cell, "-") == 0) {
		return STATUS_OK;
	}
	double value = 0;
	if (read_cell(cell, &value) && value <= maximum) {
		*out = (struct result_value){.has_value = true, .value = value};
		return STATUS_OK;
	}
	if (maximum >= DBL_MAX) {
		snprintf(expected, sizeof(expected), "a number >= 0 or -");
	} else {
		snprintf(expected, sizeof(expected), "a number from 0 to %g or -", maximum);
	}
	return table_reader_refuse(table, column, expected, error);
}

enum status cell_word(const struct table_reader *table, uint32_t column, const char *const *words,
	const char *expected, uint32_t *place, struct error *error)
{
	TRY(error->status);
	return find_word(table->cells[column], words, place)
		       ? STATUS_OK
		       : table_reader_refuse(table, column, expected, error);
}
