#include "engine/base/json.h"

#include "engine/base/check.h"
#include "engine/base/input_file.h"
#include "engine/base/memory.h"
#include "engine/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_FILE_BYTES_MAX = 16 * 1024 * 1024, JSON_FOUND_BYTES = 48 };

void json_memory_init(void)
{
	cJSON_Hooks hooks = {.malloc_fn = memory_take_uncleared, .free_fn = free};

	cJSON_InitHooks(&hooks);
}

/* A long path is cut at its beginning, since its end is more informative. */
static void document_name(struct json_document *document, const char *name)
{
	size_t length = strlen(name);
	if (length < sizeof(document->name)) {
		memcpy(document->name, name, length + 1);
		return;
	}
	const char *tail = name + length - (sizeof(document->name) - 4);
	memcpy(document->name, "...", 3);
	memcpy(document->name + 3, tail, sizeof(document->name) - 3);
}

static unsigned line_of(const char *text, const char *end)
{
	unsigned line = 1;
	for (const char *c = text; c < end; c++) {
		line += *c == '\n';
	}
	return line;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Finds \u0000, which would end a cJSON string early; NULL: none. Outside a string a backslash is
   invalid JSON anyway. */
static const char *find_zero_escape(const char *text, size_t length)
{
	for (size_t i = 0; i + 5 < length; i++) {
		if (text[i] != '\\') {
			continue;
		}
		if (memcmp(text + i + 1, "u0000", 5) == 0) {
			return text + i;
		}
		i++; /* an escaped backslash does not start an escape */
	}
	return NULL;
}

/* A number that is beyond doubles, which cJSON reads as infinite, with the values around it. */
struct trail {
	const cJSON *nodes[CJSON_NESTING_LIMIT + 1]; /* (count) outermost first */
	uint32_t count;
};

/* The value behind one in the order of the text; NULL: none. */
static const cJSON *next_value(struct trail *trail)
{
	const cJSON *next = trail->nodes[trail->count - 1]->child;

	while (next == NULL && --trail->count > 0) {
		next = trail->nodes[trail->count]->next;
	}
	return next;
}

static bool find_infinite(const cJSON *root, struct trail *trail)
{
	trail->count = 0;
	for (const cJSON *node = root; node != NULL; node = next_value(trail)) {
		trail->nodes[trail->count++] = node;
		if (cJSON_IsNumber(node) && !isfinite(node->valuedouble)) {
			return true;
		}
	}
	return false;
}

/* The place of a value among those around it, as outer.list[2].field. */
static void trail_path(const struct trail *trail, struct text *path)
{
	for (uint32_t i = 1; i < trail->count; i++) {
		const cJSON *node = trail->nodes[i];
		uint32_t index = 0;
		if (node->string != NULL) {
			text_format(path, "%s%.60s", i == 1 ? "" : ".", node->string);
			continue;
		}
		for (const cJSON *c = trail->nodes[i - 1]->child; c != node; c = c->next) {
			index++;
		}
		text_format(path, "[%u]", index);
	}
}

static enum status refuse_infinite(struct json_document *document, struct error *error)
{
	struct trail *trail = memory_take(1, sizeof(*trail));
	struct text path = {0};
	enum status status = STATUS_OK;

	if (find_infinite(document->root, trail)) {
		trail_path(trail, &path);
		status = error_set(error, STATUS_INPUT,
			"%s: %s%.200s%sfound a number beyond 1.8e308, expected one that a double "
			"holds",
			document->name, path.byte_count > 0 ? "field " : "",
			path.byte_count > 0 ? path.bytes : "", path.byte_count > 0 ? ": " : "");
		json_document_close(document);
	}
	text_deinit(&path);
	free(trail);
	return status;
}

enum status json_document_parse(struct json_document *out, const char *name, const char *text,
	size_t length, struct error *error)
{
	const char *end = text;

	memset(out, 0, sizeof(*out));
	document_name(out, name);
	const char *nul = memchr(text, '\0', length);
	if (nul != NULL) {
		return error_set(error, STATUS_INPUT,
			"%s:%u: found a zero byte, expected JSON text", out->name,
			line_of(text, nul));
	}
	nul = find_zero_escape(text, length);
	if (nul != NULL) {
		return error_set(error, STATUS_INPUT,
			"%s:%u: found \\u0000, expected texts without zero bytes", out->name,
			line_of(text, nul));
	}
	out->root = cJSON_ParseWithLengthOpts(text, length, &end, false);
	const char *after = end;
	while (out->root != NULL && after < text + length && is_blank(*after)) {
		after++;
	}
	if (out->root != NULL && after == text + length) {
		return refuse_infinite(out, error);
	}
	const char *what =
		out->root == NULL ? "no valid JSON from here on" : "more after the value";
	json_document_close(out);
	return error_set(error, STATUS_INPUT, "%s:%u: found %s, expected one JSON value", out->name,
		line_of(text, after < text + length ? after : text + length), what);
}

static enum status read_whole(
	FILE *file, const char *path, char **text, size_t *length, struct error *error)
{
	size_t capacity = 0;

	for (;;) {
		*text = memory_grow(*text, &capacity, *length + 1, 1);
		size_t got = fread(*text + *length, 1, capacity - *length, file);
		*length += got;
		if (*length > JSON_FILE_BYTES_MAX) {
			return error_set(error, STATUS_INPUT,
				"%s: found more than %d bytes of JSON", path, JSON_FILE_BYTES_MAX);
		}
		if (got == 0) {
			break;
		}
	}
	if (ferror(file)) {
		return error_set(error, STATUS_FILE, "cannot read %s: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

enum status json_document_open(struct json_document *out, const char *path, struct error *error)
{
	char *text = NULL;
	size_t length = 0;

	memset(out, 0, sizeof(*out));
	FILE *file;
	TRY(input_file_open(&file, path, INPUT_FILE, error));
	enum status status = read_whole(file, path, &text, &length, error);
	if (status == STATUS_OK) {
		status = json_document_parse(out, path, text, length, error);
	}
	free(text);
	fclose(file);
	return status;
}

void json_document_close(struct json_document *document)
{
	cJSON_Delete(document->root);
	document->root = NULL;
}

/* Describes a value in a few words, for an error line. */
static void describe(const cJSON *node, char *out, size_t size)
{
	if (node == NULL) {
		snprintf(out, size, "nothing");
	} else if (cJSON_IsNumber(node)) {
		snprintf(out, size, "%.15g", node->valuedouble);
	} else if (cJSON_IsString(node)) {
		bool is_long = strlen(node->valuestring) > 32;
		snprintf(out, size, "\"%.32s%s\"", node->valuestring, is_long ? "..." : "");
	} else if (cJSON_IsBool(node)) {
		snprintf(out, size, "%s", cJSON_IsTrue(node) ? "true" : "false");
	} else if (cJSON_IsNull(node)) {
		snprintf(out, size, "null");
	} else {
		snprintf(out, size, "%s", cJSON_IsArray(node) ? "an array" : "an object");
	}
}

enum status json_root(
	struct json_object *out, const struct json_document *document, struct error *error)
{
	char found[JSON_FOUND_BYTES];

	memset(out, 0, sizeof(*out));
	TRY(error->status);
	check(document->root != NULL);
	if (!cJSON_IsObject(document->root)) {
		describe(document->root, found, sizeof(found));
		return error_set(error, STATUS_INPUT, "%s: found %s, expected an object",
			document->name, found);
	}
	out->document = document;
	out->node = document->root;
	return STATUS_OK;
}

const cJSON *json_find(const struct json_object *object, const char *field)
{
	const cJSON *child = NULL;
	cJSON_ArrayForEach(child, object->node)
	{
		if (child->string != NULL && strcmp(child->string, field) == 0) {
			return child;
		}
	}
	return NULL;
}

bool json_has(const struct json_object *object, const char *field)
{
	const cJSON *node = json_find(object, field);
	return node != NULL && !cJSON_IsNull(node);
}

static bool is_there_twice(const struct json_object *object, const char *field)
{
	const cJSON *child = NULL;
	int count = 0;
	cJSON_ArrayForEach(child, object->node)
	{
		count += child->string != NULL && strcmp(child->string, field) == 0;
	}
	return count > 1;
}

enum status json_refuse(const struct json_object *object, const char *field, const char *expected,
	struct error *error)
{
	char found[JSON_FOUND_BYTES];
	const char *dot = object->path[0] == '\0' ? "" : ".";

	TRY(error->status);
	if (is_there_twice(object, field)) {
		return error_set(error, STATUS_INPUT,
			"%s: field %s%s%s: found it twice, expected it once",
			object->document->name, object->path, dot, field);
	}
	describe(json_find(object, field), found, sizeof(found));
	return error_set(error, STATUS_INPUT, "%s: field %s%s%s: found %s, expected %s",
		object->document->name, object->path, dot, field, found, expected);
}

/* Refuses a field that is invalid for its reader, or occurs twice. */
static enum status require_field(const struct json_object *object, const char *field, bool is_good,
	const char *expected, struct error *error)
{
	TRY(error->status);
	return is_good && !is_there_twice(object, field)
		       ? STATUS_OK
		       : json_refuse(object, field, expected, error);
}

enum status json_object(const struct json_object *object, const char *field,
	struct json_object *out, struct error *error)
{
	const struct json_object outer = *object; /* `out` may be the same */
	const cJSON *node = json_find(&outer, field);

	memset(out, 0, sizeof(*out));
	TRY(require_field(&outer, field, cJSON_IsObject(node), "an object", error));
	out->document = outer.document;
	out->node = node;
	int length = snprintf(out->path, sizeof(out->path), "%s%s%s", outer.path,
		outer.path[0] == '\0' ? "" : ".", field);
	check(length >= 0); /* a path too long for its buffer is truncated: only messages use it */
	return STATUS_OK;
}

enum status json_u64(const struct json_object *object, const char *field, uint64_t minimum,
	uint64_t maximum, uint64_t *out, struct error *error)
{
	char expected[96];

	check(maximum <= UINT64_C(1) << 53);
	const cJSON *node = json_find(object, field);
	double value = cJSON_IsNumber(node) ? node->valuedouble : -1;
	bool is_inside = value >= (double)minimum && value <= (double)maximum;
	snprintf(expected, sizeof(expected), "an integer in [%llu, %llu]",
		(unsigned long long)minimum, (unsigned long long)maximum);
	TRY(require_field(
		object, field, is_inside && (double)(uint64_t)value == value, expected, error));
	*out = (uint64_t)value;
	return STATUS_OK;
}

enum status json_u32(const struct json_object *object, const char *field, uint32_t minimum,
	uint32_t maximum, uint32_t *out, struct error *error)
{
	uint64_t value = 0;

	TRY(json_u64(object, field, minimum, maximum, &value, error));
	*out = (uint32_t)value;
	return STATUS_OK;
}

enum status json_double(const struct json_object *object, const char *field, double minimum,
	double maximum, double *out, struct error *error)
{
	char expected[96];
	const cJSON *node = json_find(object, field);

	/* Written so that NaN is outside. */
	bool is_inside = cJSON_IsNumber(node) && node->valuedouble >= minimum &&
			 node->valuedouble <= maximum;
	snprintf(expected, sizeof(expected), "a number in [%g, %g]", minimum, maximum);
	TRY(require_field(object, field, is_inside, expected, error));
	*out = node->valuedouble;
	return STATUS_OK;
}

enum status json_bool(
	const struct json_object *object, const char *field, bool *out, struct error *error)
{
	const cJSON *node = json_find(object, field);

	TRY(require_field(object, field, cJSON_IsBool(node), "true or false", error));
	*out = cJSON_IsTrue(node);
	return STATUS_OK;
}

enum status json_text(
	const struct json_object *object, const char *field, const char **out, struct error *error)
{
	const cJSON *node = json_find(object, field);

	TRY(require_field(object, field, cJSON_IsString(node), "a text", error));
	*out = node->valuestring;
	return STATUS_OK;
}

void json_print(const cJSON *root, FILE *file)
{
	char *text = cJSON_Print(root);

	if (text != NULL) {
		text_repair_utf8(text);
		fprintf(file, "%s\n", text);
	}
	cJSON_free(text);
}
