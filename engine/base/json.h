#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include "engine/base/status.h"

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Configuration and summaries in JSON, read with errors that name the file, the field, what was
   found and what was expected. A thin layer over cJSON, whose tree readers may also walk directly.

       struct json_document document;
       struct json_object root, rope;

       TRY(json_document_open(&document, path, error));
       json_root(&root, &document, error);
       json_u32(&root, "hidden_size", 1, 65536, &config->hidden_size, error);
       json_object(&root, "rope_parameters", &rope, error);
       json_double(&rope, "rope_theta", 1, 1e12, &config->rope_theta, error);
       json_document_close(&document);
       return error->status;

   All but json_document_open() and json_document_parse() are sticky (engine/base/status.h): after
   the first error the rest of such a list does nothing. Values that were not read are unchanged;
   objects become empty.

   Names are matched exactly; a field that occurs twice is refused when it is read. Limits: a file
   of 16 MiB, nesting of 1,000 (cJSON's own). */

/* Has cJSON take its memory from engine/base/memory.h, for the whole program and before its first
   use. cJSON itself reports a failed allocation as a value that is missing from a tree, or as
   invalid JSON. */
void json_memory_init(void);

/* Up to here every integer is a number of its own in JSON readers that keep doubles. */
#define JSON_INTEGER_MAX ((UINT64_C(1) << 53) - 1)

enum { JSON_NAME_BYTES = 256, JSON_PATH_BYTES = 128 };

struct json_document {
	char name[JSON_NAME_BYTES]; /* for errors: the path, its beginning cut off when too long */
	cJSON *root;		    /* owned; NULL when closed */
};

/* An object within a document, which it borrows. */
struct json_object {
	const struct json_document *document;
	const cJSON *node;
	char path[JSON_PATH_BYTES]; /* of the object, "" for the root, else "a.b" */
};

/* Reads a file; invalid JSON is refused with the line where it becomes invalid, a number beyond
   doubles with its field. */
enum status json_document_open(struct json_document *out, const char *path, struct error *error);

/* Parses `length` bytes; `name` is used in errors. */
enum status json_document_parse(struct json_document *out, const char *name, const char *text,
	size_t length, struct error *error);

/* Frees the tree; a zeroed or closed document is accepted. */
void json_document_close(struct json_document *document);

/* The document's outermost value, which must be an object. */
enum status json_root(
	struct json_object *out, const struct json_document *document, struct error *error);

/* Whether the field is present and not null. */
bool json_has(const struct json_object *object, const char *field);

/* The value of a field, or NULL if it is absent. It may be a JSON null. */
const cJSON *json_find(const struct json_object *object, const char *field);

/* Read a required field of the right kind and within [minimum, maximum]. */
enum status json_object(const struct json_object *object, const char *field,
	struct json_object *out, struct error *error);
enum status json_u64(const struct json_object *object, const char *field, uint64_t minimum,
	uint64_t maximum, uint64_t *out, struct error *error); /* maximum <= 2^53 */
enum status json_u32(const struct json_object *object, const char *field, uint32_t minimum,
	uint32_t maximum, uint32_t *out, struct error *error);
enum status json_double(const struct json_object *object, const char *field, double minimum,
	double maximum, double *out, struct error *error);
enum status json_bool(
	const struct json_object *object, const char *field, bool *out, struct error *error);

/* Reads a string; the pointer is valid until the document is closed. */
enum status json_text(
	const struct json_object *object, const char *field, const char **out, struct error *error);

/* "NAME: field a.b: found FOUND, expected EXPECTED", for a value that the caller refuses. */
enum status json_refuse(const struct json_object *object, const char *field, const char *expected,
	struct error *error);

/* Prints a tree and a line feed. A text that is no UTF-8, such as a file's name, becomes valid: the
   printed JSON always is. A failed write is reported when the file is closed. */
void json_print(const cJSON *root, FILE *file);

#endif
