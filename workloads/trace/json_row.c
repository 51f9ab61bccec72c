#include "workloads/trace/json_row.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_parse.h>

static const uint32_t FIELD_UNKNOWN = UINT32_MAX;

/* A misspelt name is in each row, or in one of the first. Looking at more would cost time. */
enum { LOOKED_AT_ROWS = 100, UNKNOWN_NAMES_MAX = 8 };

struct unknown_name {
	char text[TEXT_NAME_BYTES_MAX];
	size_t bytes;
};

struct json_reader {
	const struct json_field *fields;
	uint32_t field_count;

	/* The row being read. */
	const struct source_line *at;
	struct json_value *values;
	struct error *error;
	enum status status;
	uint32_t depth;
	uint32_t object_count; /* objects that have ended, at depth 0 */
	uint32_t field;	       /* the field of the next value; FIELD_UNKNOWN: skip it */
	uint32_t next_field;   /* rows tend to repeat their order: the field to compare first */
	bool is_in_ids;
	bool is_seen[JSON_FIELDS_MAX];

	uint32_t looked_at_count;			/* rows */
	struct unknown_name unknown[UNKNOWN_NAMES_MAX]; /* (unknown_count) of the row */
	uint32_t unknown_count;
	char note[UNREAD_NOTE_BYTES]; /* "": none */

	uint64_t *ids;
	size_t id_count, id_capacity;
	char *text; /* texts, each zero-terminated */
	size_t text_bytes, text_capacity;
	size_t text_at[JSON_FIELDS_MAX];
	size_t ids_at[JSON_FIELDS_MAX];

	yajl_handle parser; /* of all rows without a fault */
};

struct json_reader *json_reader_open(const struct json_field *fields, uint32_t field_count)
{
	struct json_reader *reader = memory_take(1, sizeof(*reader));

	check(field_count >= 1 && field_count <= JSON_FIELDS_MAX);
	reader->fields = fields;
	reader->field_count = field_count;
	/* An empty array must have a non-NULL pointer, since NULL means that the field is absent.
	   */
	reader->ids = memory_grow(NULL, &reader->id_capacity, 1, sizeof(*reader->ids));
	return reader;
}

void json_reader_close(struct json_reader *reader)
{
	if (reader != NULL) {
		if (reader->parser != NULL) {
			yajl_free(reader->parser);
		}
		free(reader->ids);
		free(reader->text);
		free(reader);
	}
}

/* Ends the parse: YAJL stops when a callback returns 0. */
static int refuse(struct json_reader *reader, const char *found, size_t bytes)
{
	const struct json_field *field = &reader->fields[reader->field];

	reader->status = source_line_error(
		reader->error, reader->at, field->name, found, bytes, "%s", field->expected);
	return 0;
}

/* Whether the next value belongs to a field of the table. */
static bool is_wanted(const struct json_reader *reader)
{
	return reader->field != FIELD_UNKNOWN && (reader->depth == 1 || reader->is_in_ids);
}

static int on_row_level_value(struct json_reader *reader, const char *found, size_t bytes)
{
	if (reader->depth == 0) {
		reader->status = source_line_error(
			reader->error, reader->at, NULL, found, bytes, "a JSON object");
		return 0;
	}
	return is_wanted(reader) ? refuse(reader, found, bytes) : 1;
}

static void keep_text(struct json_reader *reader, const char *text, size_t bytes)
{
	reader->text = memory_grow(
		reader->text, &reader->text_capacity, reader->text_bytes + bytes + 1, 1);
	memcpy(reader->text + reader->text_bytes, text, bytes);
	reader->text[reader->text_bytes + bytes] = '\0';
	reader->text_at[reader->field] = reader->text_bytes;
	reader->text_bytes += bytes + 1;
	reader->values[reader->field].is_present = true;
}

static int on_id(struct json_reader *reader, const char *text, size_t bytes)
{
	const struct json_field *field = &reader->fields[reader->field];
	uint64_t id = 0;
	bool is_good = field->kind == JSON_IDS ? digits_to_u64(text, bytes, &id)
					       : decimal_to_u64(text, bytes, field->places, &id);

	if (!is_good || id > field->maximum) {
		return refuse(reader, text, bytes);
	}
	if (reader->id_count == reader->id_capacity) {
		reader->ids = memory_grow(reader->ids, &reader->id_capacity, reader->id_count + 1,
			sizeof(*reader->ids));
	}
	reader->ids[reader->id_count++] = id;
	return 1;
}

static int on_number(void *context, const char *text, size_t bytes)
{
	struct json_reader *reader = context;

	if (!is_wanted(reader)) {
		return on_row_level_value(reader, text, bytes);
	}
	if (reader->is_in_ids) {
		return on_id(reader, text, bytes);
	}
	const struct json_field *field = &reader->fields[reader->field];
	struct json_value *value = &reader->values[reader->field];
	bool is_good = false;
	switch (field->kind) {
	case JSON_COUNT:
		is_good = digits_to_u64(text, bytes, &value->number);
		break;
	case JSON_TIME:
	case JSON_RATE:
		is_good = decimal_to_u64(text, bytes, field->places, &value->number);
		break;
	case JSON_SIGNED:
	case JSON_LABEL:
		value->is_negative = text[0] == '-';
		is_good = digits_to_u64(
			text + value->is_negative, bytes - value->is_negative, &value->number);
		break;
	case JSON_IDS:
	case JSON_TIMES:
		break;
	}
	if (!is_good || (field->kind != JSON_LABEL && (value->number < field->minimum ||
							      value->number > field->maximum))) {
		return refuse(reader, text, bytes);
	}
	if (field->kind == JSON_LABEL) {
		keep_text(reader, text, bytes);
	}
	value->is_present = true;
	return 1;
}

/* Labels are written to tab-separated files without escaping. */
static bool is_label(const unsigned char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < ' ' || text[i] == 0x7f) {
			return false;
		}
	}
	return bytes > 0;
}

static int on_string(void *context, const unsigned char *text, size_t bytes)
{
	struct json_reader *reader = context;

	if (is_wanted(reader) && !reader->is_in_ids &&
		reader->fields[reader->field].kind == JSON_LABEL && is_label(text, bytes)) {
		keep_text(reader, (const char *)text, bytes);
		return 1;
	}
	if (is_wanted(reader) && reader->fields[reader->field].kind == JSON_RATE && bytes == 3 &&
		memcmp(text, "inf", 3) == 0) {
		reader->values[reader->field].is_present = true;
		reader->values[reader->field].number = JSON_INFINITE;
		return 1;
	}
	/* In quotes, since a text of digits looks like the number that was expected. */
	enum { SHOWN_BYTES = 45 };
	char shown[SHOWN_BYTES + 20];
	int length = snprintf(shown, sizeof(shown), "the text \"%.*s%s\"",
		(int)u64_min(bytes, SHOWN_BYTES), (const char *)text,
		bytes > SHOWN_BYTES ? "..." : "");
	return on_row_level_value(reader, shown, (size_t)length);
}

static int on_null(void *context)
{
	struct json_reader *reader = context;

	if (is_wanted(reader) && !reader->is_in_ids && !reader->fields[reader->field].is_required) {
		return 1;
	}
	return on_row_level_value(reader, "null", 4);
}

static int on_boolean(void *context, int value)
{
	return on_row_level_value(context, value ? "true" : "false", value ? 4 : 5);
}

static void keep_unknown(struct json_reader *reader, const unsigned char *text, size_t bytes)
{
	if (reader->looked_at_count < LOOKED_AT_ROWS && reader->unknown_count < UNKNOWN_NAMES_MAX &&
		bytes <= TEXT_NAME_BYTES_MAX) {
		struct unknown_name *name = &reader->unknown[reader->unknown_count++];
		memcpy(name->text, text, bytes);
		name->bytes = bytes;
	}
}

static int on_map_key(void *context, const unsigned char *text, size_t bytes)
{
	struct json_reader *reader = context;

	if (reader->depth != 1) {
		return 1;
	}
	reader->field = FIELD_UNKNOWN;
	for (uint32_t i = 0; i < reader->field_count; i++) {
		uint32_t at = reader->next_field + i;
		at -= at >= reader->field_count ? reader->field_count : 0;
		const char *name = reader->fields[at].name;
		if (strlen(name) == bytes && memcmp(name, text, bytes) == 0) {
			reader->field = at;
			reader->next_field = at + 1 < reader->field_count ? at + 1 : 0;
			break;
		}
	}
	if (reader->field == FIELD_UNKNOWN) {
		keep_unknown(reader, text, bytes);
		return 1;
	}
	if (reader->is_seen[reader->field]) {
		reader->status = source_line_error(reader->error, reader->at,
			reader->fields[reader->field].name, "it twice", 8, "it once");
		return 0;
	}
	reader->is_seen[reader->field] = true;
	return 1;
}

static int deepen(struct json_reader *reader)
{
	reader->depth++;
	if (reader->depth > JSON_DEPTH_MAX) {
		reader->status = source_line_error(reader->error, reader->at, NULL,
			"deeper nesting", 14, "at most %d levels", JSON_DEPTH_MAX);
		return 0;
	}
	return 1;
}

static int on_start_map(void *context)
{
	struct json_reader *reader = context;

	if (is_wanted(reader) && !on_row_level_value(reader, "an object", 9)) {
		return 0;
	}
	return deepen(reader);
}

static int on_end(void *context)
{
	struct json_reader *reader = context;

	reader->depth--;
	reader->object_count += reader->depth == 0;
	reader->is_in_ids = false;
	return 1;
}

static bool is_array(enum json_kind kind)
{
	return kind == JSON_IDS || kind == JSON_TIMES;
}

static int on_start_array(void *context)
{
	struct json_reader *reader = context;

	if (reader->depth == 0) {
		return on_row_level_value(reader, "an array", 8);
	}
	if (is_wanted(reader)) {
		if (reader->is_in_ids || !is_array(reader->fields[reader->field].kind)) {
			return on_row_level_value(reader, "an array", 8);
		}
		reader->is_in_ids = true;
		reader->ids_at[reader->field] = reader->id_count;
		reader->values[reader->field].is_present = true;
	}
	return deepen(reader);
}

static int on_end_array(void *context)
{
	struct json_reader *reader = context;

	if (reader->is_in_ids) {
		size_t count = reader->id_count - reader->ids_at[reader->field];
		reader->values[reader->field].id_count = count;
		if (count > JSON_IDS_MAX) {
			reader->status = source_line_error(reader->error, reader->at,
				reader->fields[reader->field].name, "more", 4, "at most %d numbers",
				JSON_IDS_MAX);
			return 0;
		}
	}
	return on_end(context);
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_start_map,
	.yajl_map_key = on_map_key,
	.yajl_end_map = on_end,
	.yajl_start_array = on_start_array,
	.yajl_end_array = on_end_array,
};

/* An error with YAJL's message for malformed JSON ("lexical error: invalid char in json text."), on
   one line. */
static enum status broken_json(struct json_reader *reader, yajl_handle parser, size_t column,
	const char *line, size_t line_bytes)
{
	unsigned char *words = yajl_get_error(parser, 0, NULL, 0);

	char text[128];

	size_t bytes = words == NULL ? 0 : strcspn((char *)words, "\n");
	bytes = bytes < sizeof(text) - 1 ? bytes : sizeof(text) - 1;
	memcpy(text, words == NULL ? (unsigned char *)"" : words, bytes);
	text[bytes] = '\0';
	yajl_free_error(parser, words);
	return source_line_error(reader->error, reader->at, NULL, line, line_bytes,
		"a JSON object (near column %zu: %s)", column, text);
}

/* YAJL does not check what its allocator returns. */
static void *take(void *context, size_t bytes)
{
	(void)context;
	return memory_take_uncleared(bytes);
}

static void *resize(void *context, void *memory, size_t bytes)
{
	(void)context;
	return memory_resize(memory, bytes);
}

static void release(void *context, void *memory)
{
	(void)context;
	free(memory);
}

static yajl_handle open_parser(struct json_reader *reader)
{
	yajl_alloc_funcs memory = {.malloc = take, .realloc = resize, .free = release};
	yajl_handle parser = yajl_alloc(&callbacks, &memory, reader);

	check(parser != NULL);
	return parser;
}

/* Parses a row as one of many values of a stream, since opening a parser takes as long as a short
   row. False: the row has a fault, or text behind its object; parse() says which. */
static bool parse_in_stream(struct json_reader *reader, const char *line, size_t line_bytes)
{
	if (reader->parser == NULL) {
		reader->parser = open_parser(reader);
		yajl_config(reader->parser, yajl_allow_multiple_values, 1);
	}
	/* The blank ends a number or word that the line may end with. */
	bool is_good =
		yajl_parse(reader->parser, (const unsigned char *)line, line_bytes) ==
			yajl_status_ok &&
		yajl_parse(reader->parser, (const unsigned char *)" ", 1) == yajl_status_ok &&
		reader->depth == 0 && reader->object_count == 1;
	if (!is_good) {
		yajl_free(reader->parser);
		reader->parser = NULL;
	}
	return is_good;
}

static enum status parse(struct json_reader *reader, const char *line, size_t line_bytes)
{
	yajl_handle parser = open_parser(reader);
	enum status status = STATUS_OK;

	yajl_status result = yajl_parse(parser, (const unsigned char *)line, line_bytes);
	size_t column = (size_t)u64_max(yajl_get_bytes_consumed(parser), 1);
	if (result == yajl_status_ok) {
		result = yajl_complete_parse(parser);
		column = line_bytes + 1;
	}
	if (result == yajl_status_client_canceled) {
		status = reader->status;
		check(status != STATUS_OK);
	} else if (result != yajl_status_ok) {
		status = broken_json(reader, parser, column, line, line_bytes);
	}
	yajl_free(parser);
	return status;
}

static void begin_row(struct json_reader *reader)
{
	reader->status = STATUS_OK;
	reader->object_count = 0;
	reader->depth = 0;
	reader->field = FIELD_UNKNOWN;
	reader->is_in_ids = false;
	reader->id_count = 0;
	reader->text_bytes = 0;
	reader->unknown_count = 0;
	memset(reader->is_seen, 0, sizeof(reader->is_seen));
	memset(reader->values, 0, reader->field_count * sizeof(*reader->values));
}

/* Looks for unknown names of the row that may stand for fields which it lacks. */
static void look_at_names(struct json_reader *reader)
{
	for (uint32_t i = 0; i < reader->unknown_count && reader->note[0] == '\0'; i++) {
		const struct unknown_name *name = &reader->unknown[i];
		for (uint32_t j = 0; j < reader->field_count && reader->note[0] == '\0'; j++) {
			const char *known = reader->fields[j].name;
			if (!reader->is_seen[j] &&
				unread_is_meant(name->text, name->bytes, known)) {
				unread_note(reader->note, reader->at, "field", name->text,
					name->bytes, known);
			}
		}
	}
	reader->looked_at_count++;
}

const char *json_reader_note(const struct json_reader *reader)
{
	return reader->note[0] == '\0' ? NULL : reader->note;
}

enum status json_reader_row(struct json_reader *reader, const struct source_line *at,
	const char *line, size_t line_bytes, struct json_value *values, struct error *error)
{
	struct error unused = {0};

	reader->at = at;
	reader->values = values;
	reader->error = &unused;
	begin_row(reader);
	if (!parse_in_stream(reader, line, line_bytes)) {
		reader->error = error;
		begin_row(reader);
		TRY(parse(reader, line, line_bytes));
	}
	for (uint32_t i = 0; i < reader->field_count; i++) {
		const struct json_field *field = &reader->fields[i];
		if (!values[i].is_present) {
			if (field->is_required) {
				return source_line_error(error, at, field->name, "nothing", 7, "%s",
					field->expected);
			}
			continue;
		}
		if (field->kind == JSON_LABEL) {
			values[i].text = reader->text + reader->text_at[i];
		}
		if (is_array(field->kind)) {
			values[i].ids = reader->ids + reader->ids_at[i];
		}
	}
	if (reader->looked_at_count < LOOKED_AT_ROWS) {
		look_at_names(reader);
	}
	return STATUS_OK;
}

int32_t json_signed(const struct json_value *value)
{
	int32_t size = (int32_t)u32_from(value->number);

	return value->is_negative ? -size : size;
}
